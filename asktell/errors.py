"""Every exception raised on purpose, under one base class.

A message says what came, what was expected, and what to do.
"""

from collections.abc import Sequence


class AsktellError(Exception):
    """Base class of every error that asktell raises on purpose.

    Docstrings leave out what holds everywhere: an argument that cannot be used is an
    InvalidArgumentError, before anything has changed; an optional package that is
    missing is a MissingExtraError; a study's methods raise a StorageError if its
    storage cannot be used.
    """


class InvalidArgumentError(AsktellError, ValueError):
    """An argument has the wrong type, value, length or name."""


class InvalidScoresError(InvalidArgumentError):
    """Scores cannot be used: NaN, infinite, missing, or of the wrong length. The trial stays pending."""


class BudgetTooSmallError(InvalidArgumentError):
    """The budget is too small for the chosen method."""


class IncompatibleMethodError(InvalidArgumentError):
    """The parts of a method do not go together, or do not fit the goal or the data given."""


class UnknownTrialError(AsktellError, KeyError):
    """A trial, prompt or example that is not (or no longer) pending was named."""

    __str__ = Exception.__str__  # a KeyError shows its message in quotes


class ConflictingTellError(AsktellError):
    """A trial was told again, with other scores than the first time."""


class TellManyError(AsktellError):
    """Some scores of a batch were refused; all others of it are recorded, durably where the study is.

    Attributes:
        outcomes: of each, in the order given, what `tell` would have returned, or the
            error that it would have raised.
    """

    def __init__(self, message: str, outcomes: Sequence[bool | Exception] = ()) -> None:
        super().__init__(message, outcomes)
        self.outcomes = tuple(outcomes)

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidStateError(AsktellError, ValueError):
    """A saved state is malformed, truncated, foreign, or of an unknown version. Nothing was loaded."""


class MissingMethodError(InvalidStateError):
    """A study or a saved selector was made with a method of your own, which must be given again: `method=...`."""


class NotPicklableError(AsktellError, TypeError):
    """A selector was pickled; it is saved as JSON text instead."""


class ConfigError(InvalidArgumentError):
    """A configuration file cannot be used; the message names the file and the place in it."""


class FolderBusyError(AsktellError):
    """Another process is running in the same output folder."""


class StorageError(AsktellError):
    """A study's storage cannot be used: damaged, full, read-only, or out of reach."""


class StorageBusyError(StorageError):
    """Another process has held the storage for too long. Nothing was changed; try again."""


class StudyExistsError(InvalidArgumentError):
    """There is a study of this name already."""


class StudyNotFoundError(AsktellError, KeyError):
    """There is no study of this name, or no storage at this place."""

    __str__ = Exception.__str__


class EvaluatorError(AsktellError):
    """An evaluator could not be used, or returned something that is not scores."""


class MissingExtraError(AsktellError, ImportError):
    """An optional package is missing; the message says what to install."""


class ServiceError(StorageError):
    """The service of a study cannot be reached, or is not asktell's."""


class AccessDeniedError(AsktellError):
    """The service of a study wants a token, knows another one, or one that may do more."""
