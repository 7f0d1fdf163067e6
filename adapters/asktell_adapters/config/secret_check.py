"""No key or password may stand in a configuration file: most of the file is copied into the run's own."""

import re
from typing import Any

from asktell import ConfigError

_CURES = {
    True: "If it is the key of the model, put it into the environment variable that the client reads, such as "
    "OPENAI_API_KEY or the one that api_key_env names. Otherwise, read it from an environment variable "
    "in a `loader` of your own.",
    False: "Put it into an environment variable, and read it from there in your code.",
}
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ALWAYS = {
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "credential",
    "authorization",
    "apikey",
    "cookie",
}
_KEYS = {
    "api", "access", "account", "auth", "encryption", "master", "private", "service", "shared", "signing", "storage",
    "subscription",
}  # fmt: skip
# Where the secret is, or whose
_ELSEWHERE = {"env", "file", "path", "name", "id", "column", "field"}

# Their time is linear in the length of a text, which may be a long prompt.
_SHAPES = (
    ("a key or token", r"^Bearer |^sk-[A-Za-z0-9_-]{12}|\b(hf|gh[pousr]|github_pat|glpat|xox[abprs])[_-][\w-]{16}"),
    ("a key or token", r"\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30}|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\."),
    ("a key", r"-----BEGIN [A-Z ]*PRIVATE KEY"),
    ("a URL with a password", r"://[^\s/:]*:[^\s/]+@|://[^\s/@:]{20,}@"),
    ("a URL with a key", r"(?<!\S)(?:(?!://)\S)*+://\S*[?&]([\w-]*(key|token|secret|password|signature)|sig|pwd)=[^&\s]{6}"),
    ("an address with a password", r"^[^\n]*\b(password|pwd|AccountKey|SharedAccessKey)\s*=\s*[^\s;][^\n]*$"),
)  # fmt: skip
_PLACE = re.compile(r"os\.environ/[A-Z_][A-Z0-9_]*")  # where LiteLLM finds it
_TOKEN = re.compile(r"[\w.~+/=-]{16,}")


def refuse_secrets(file: str, data: Any, place: tuple[str, ...] = ()) -> None:
    """Check that no name or value in a file looks like a secret, such as an API key or a password.

    Args:
        file: the name of the file, for the message.
        data: the content of the file, as nested mappings.
        place: the names of the tables around `data`, outermost first. Empty for a whole
            file.

    Raises:
        ConfigError: a name or value looks like a secret. The message does not quote the
            secret.
    """
    where = f"in [{'.'.join(place)}]" if place else "at the top"
    in_model = place[:1] in (("model",), ("models",))
    cure = _CURES[in_model]
    for name, value in data.items():
        # Ids and texts are the user's matter
        if (*place, name) == ("prompts", "texts"):
            continue
        if _shape(name):
            raise ConfigError(
                f"{file}: a name {where} looks like {_shape(name)}, which has no place in a file. {cure}"
            )
        for leaf in _leaves(value):
            if isinstance(leaf, dict):
                refuse_secrets(file, leaf, (*place, name))
                continue
            named = _is_secret(name, leaf) or (
                in_model and name.lower() == "key" and isinstance(leaf, str)
            )
            shape = _shape(leaf) if isinstance(leaf, str) else None
            if named and place[:1] != ("goal",):  # whose names are metrics
                shape = "a secret"
            if shape:
                raise ConfigError(
                    f"{file}: {name!r} {where} looks like {shape}, which has no place in a file. {cure}"
                )


def _leaves(value: Any) -> list[Any]:
    """The values in a list, and in lists inside it."""
    return (
        [leaf for item in value for leaf in _leaves(item)]
        if isinstance(value, list)
        else [value]
    )


def _shape(text: str) -> str | None:
    """The kind of secret that a text looks like. None if it looks like no secret."""
    return next((name for name, pattern in _SHAPES if re.search(pattern, text)), None)


def _is_secret(name: str, value: Any) -> bool:
    """Whether a value is a secret by its name, as in `client_secret`, `hf_token` or `X-Api-Key`."""
    if not _may_be_secret(value):
        return False
    # In the singular, but "pass" and "access" keep their s
    words = [
        re.sub(r"(?<=[^s]{4})s$", "", word.lower()) for word in _WORDS.findall(name)
    ]
    if not words or words[-1] in _ELSEWHERE:
        return False
    if words == ["pass"] or not _ALWAYS.isdisjoint(words):
        return True
    if words[-1] == "key":
        return not _KEYS.isdisjoint(words)
    if words[-1] != "token" or not isinstance(value, str):
        return False
    # Other tokens are a model's own, such as eos_token = "</s>"
    whose = words[:-1]
    is_of_a_service = whose in ([], ["access"], ["auth"], ["bearer"])
    return is_of_a_service or _TOKEN.fullmatch(value) is not None


def _may_be_secret(value: Any) -> bool:
    """Whether a value could be a secret: a text or a number, but no place where a secret is found."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    return value != "" and not (isinstance(value, str) and _PLACE.fullmatch(value))
