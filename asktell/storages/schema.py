"""Schema versions: a database is brought up to date by the steps that it lacks, in one transaction."""

from asktell.errors import StorageError


def steps_to_take(version: object, n_steps: int, where: str) -> range:
    """The numbers of the steps that bring a database from its version (0: empty) to the newest.

    Raises:
        StorageError: the version is unknown.
    """
    if type(version) is not int or version < 0:
        raise StorageError(f"{where} has schema version {version!r}, which is none of asktell's.")
    if version > n_steps:
        raise StorageError(
            f"{where} has schema version {version}, and this asktell knows versions up to {n_steps}: it was made by a "
            "newer asktell. Upgrade this one; nothing was changed."
        )
    return range(version, n_steps)
