"""Every exception that asktell raises on purpose, under one base class.

Each message has three parts: the value that came, the expected value, and the cure.
"""

from collections.abc import Sequence


class AsktellError(Exception):
    """Base class of every error that asktell raises on purpose.

    Three rules hold everywhere, so docstrings leave them out:

    - An argument that cannot be used is an `InvalidArgumentError`, and nothing has
      changed.
    - A missing optional package is a `MissingExtraError`.
    - The methods of a study raise a `StorageError` if its storage cannot be used.
    """


class InvalidArgumentError(AsktellError, ValueError):
    """An argument has the wrong type, value, length or name."""


class InvalidScoresError(InvalidArgumentError):
    """Scores are NaN, infinite, missing, or of the wrong length. The trial stays pending."""


class BudgetTooSmallError(InvalidArgumentError):
    """The budget is too small for the chosen method."""


class IncompatibleMethodError(InvalidArgumentError):
    """The parts of a method do not go together, or do not fit the goal or the data."""


class UnknownTrialError(AsktellError, KeyError):
    """A trial, prompt or example is unknown, or is no longer pending."""

    __str__ = Exception.__str__  # a KeyError shows its message in quotes


class ConflictingTellError(AsktellError):
    """Other scores were recorded for the same trial before."""


class TellManyError(AsktellError):
    """Some scores of a batch were refused. All other scores of the batch are recorded.

    Attributes:
        outcomes: one per trial, in the order given. It is the value that `tell` would
            have returned, or the error that it would have raised.
    """

    def __init__(self, message: str, outcomes: Sequence[bool | Exception] = ()) -> None:
        super().__init__(message, outcomes)
        self.outcomes = tuple(outcomes)

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidStateError(AsktellError, ValueError):
    """A saved state is malformed, truncated, foreign, or of an unknown version. Nothing was loaded."""


class MissingMethodError(InvalidStateError):
    """A study or a saved selector has a method of your own. Pass it again as `method=...`."""


class NotPicklableError(AsktellError, TypeError):
    """A selector cannot be pickled. Save it as JSON text instead."""


class ConfigError(InvalidArgumentError):
    """A configuration file cannot be used. The message has the file and the line or table."""


class FolderBusyError(AsktellError):
    """Another process is running in the same output folder."""


class StorageError(AsktellError):
    """The storage of a study is damaged, full, read-only, or out of reach."""


class StorageBusyError(StorageError):
    """Another process has held the storage for too long. Nothing was changed. Try again."""


class StudyExistsError(InvalidArgumentError):
    """The storage already has a study with this name."""


class StudyNotFoundError(AsktellError, KeyError):
    """The storage has no study with this name, or the place has no storage."""

    __str__ = Exception.__str__


class EvaluatorError(AsktellError):
    """An evaluator cannot be used, or returned something other than scores."""


class MissingExtraError(AsktellError, ImportError):
    """An optional package is missing. The message has the command that installs it."""


class ServiceError(StorageError):
    """The service of a study cannot be reached, or is not an asktell service."""


class AccessDeniedError(AsktellError):
    """The service of a study requires a token, or the token is wrong or has too few rights."""
