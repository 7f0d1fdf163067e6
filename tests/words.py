"""What a test asks of a message: its key words. Its sentences may be rewritten at any time."""


def lacking(text: str, *words: str) -> list[str]:
    """The words that a text lacks, upper and lower case being equal. A word may be the beginning of a longer one."""
    return [word for word in words if word.casefold() not in text.casefold()]
