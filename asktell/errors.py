"""Every exception that asktell raises on purpose, under one base class.

Each message has three parts: the value that came, the expected value, and the cure.
"""

from collections.abc import Sequence


class AsktellError(Exception):
    """Base class of every error that asktell raises on purpose.

    Three rules hold everywhere, even if a docstring does not list these errors:

    - If an argument cannot be used, an `InvalidArgumentError` is raised. Nothing was
      changed then.
    - If an optional package is missing, a `MissingExtraError` is raised.
    - If the storage of a study cannot be used, its methods raise a `StorageError`.
    """


class InvalidArgumentError(AsktellError, ValueError):
    """An argument has the wrong type, value, length or name."""


class InvalidScoresError(InvalidArgumentError):
    """A score is missing, NaN, infinite or not a number, or the number of scores is wrong. The trial stays pending."""


class BudgetTooSmallError(InvalidArgumentError):
    """The budget is too small for the chosen method."""


class IncompatibleMethodError(InvalidArgumentError):
    """The method, or a part of it, does not support the goal, the budget, the data, or a change such as `add`."""


class UnknownTrialError(AsktellError, KeyError):
    """A trial is unknown, has failed or belongs to another selection.

    This error also comes if you passed a prompt instead of a trial, and the prompt has
    no pending trial.
    """

    __str__ = Exception.__str__  # a KeyError shows its message in quotes


class ConflictingTellError(AsktellError):
    """Other scores were recorded for the same trial before. The recorded scores stay."""


class ConflictingWorkerError(AsktellError):
    """Two processes act as the same worker: another one has got this worker's trials.

    The worker that started last keeps the name. The other one gets this error when it
    asks, or sends a heartbeat. Its `tell` still records scores.
    """


class TellManyError(AsktellError):
    """`tell_many` refused the scores of some trials. The scores of all others are recorded.

    Attributes:
        outcomes: for each trial, in the order given: the value that `tell` would have
            returned, or the error that it would have raised.
    """

    def __init__(self, message: str, outcomes: Sequence[bool | Exception] = ()) -> None:
        super().__init__(message, outcomes)
        self.outcomes = tuple(outcomes)

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidStateError(AsktellError, ValueError):
    """A selector or study cannot be loaded or saved.

    When it is loaded, the stored data is malformed, cut off, not from asktell or of an
    unknown version. Or the method that you passed differs from the stored method.
    Nothing was loaded then. When it is saved, a parameter of your own method is not a
    plain value, such as a number or a text. Nothing was saved then.
    """


class MissingMethodError(InvalidStateError):
    """The method of a study or of a saved selector is your own code, which is not stored. Pass it as `method=...`."""


class NotPicklableError(AsktellError, TypeError):
    """A selector cannot be pickled. Save it with `to_json` instead."""


class ConfigError(InvalidArgumentError):
    """A configuration file cannot be used. The message has the file, and the line or the table."""


class FolderBusyError(AsktellError):
    """Another `asktell run` is running in the same output folder."""


class StorageError(AsktellError):
    """The storage of a study is damaged, full, read-only or unreachable."""


class StorageBusyError(StorageError):
    """Another process has locked the storage for too long. Nothing was changed. Try again."""


class StudyExistsError(InvalidArgumentError):
    """The storage already has a study with this name.

    With `exist_ok=True`, this is an error only if the existing study was created with
    other settings.
    """


class StudyNotFoundError(AsktellError, KeyError):
    """The storage has no study with this name, the storage does not exist, or the study was deleted."""

    __str__ = Exception.__str__


class EvaluatorError(AsktellError):
    """An evaluator cannot be used or returned no scores, or a run was stopped because its evaluations failed."""


class MissingExtraError(AsktellError, ImportError):
    """An optional package is missing. The message has the command that installs it."""


class ServiceError(StorageError):
    """The service of a study cannot be reached, or is not an asktell service."""


class AccessDeniedError(AsktellError):
    """The service of a study requires a token, and the token is missing, wrong or has too few rights."""
