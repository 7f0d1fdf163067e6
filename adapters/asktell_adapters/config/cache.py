"""The table `[cache]`: where answers are kept."""

from asktell_adapters.cache import AnswerCache
from asktell_adapters.config.tables import Table, key

_MEGABYTE, _DAY = 10**6, 86400.0


class CacheTable(Table, table="cache"):
    """Keeps answers on disk."""

    file: str | None = key(None, "File of the answers.", said="one for all runs, in the user's cache folder")
    max_mb: float = key(1000, "Largest size; answers that were not used for longest are removed first.")
    max_age_days: float | None = key(None, "Older answers are asked for again.", said="for ever")

    def make(self) -> AnswerCache:
        days = self.max_age_days
        with self.named():
            return AnswerCache(
                None if self.file is None else self.beside(self.file),
                max_bytes=int(self.max_mb * _MEGABYTE),
                max_age=None if days is None else days * _DAY,
            )
