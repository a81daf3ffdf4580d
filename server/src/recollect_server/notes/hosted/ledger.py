"""Cost of a day's model calls, for the whole server: `<data-dir>/spending.json`."""

from pathlib import Path

import orjson

from recollect_server.kernel.domain.errors import StorageUnavailable
from recollect_server.kernel.log.files import read_file, write_private

NAME = "spending.json"


class SpendingFile:
    """Calls, tokens and US dollars of the last day that a model was called on."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / NAME

    def last(self) -> tuple[str, int, int, float]:
        """Return the day with its calls, tokens and US dollars; an empty day if there is none."""
        try:
            record = orjson.loads(read_file(self._path))
            return (
                str(record["day"]),
                int(record["calls"]),
                int(record["tokens"]),
                float(record["cost"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return "", 0, 0, 0.0

    def write(self, day: str, calls: int, tokens: int, cost: float) -> None:
        """Keep the calls, tokens and US dollars of a day. Raises StorageUnavailable."""
        data = orjson.dumps({"day": day, "calls": calls, "tokens": tokens, "cost": cost})
        try:
            write_private(self._path, data, sync=False)
        except OSError as error:
            raise StorageUnavailable(
                f"the spending on the model cannot be kept: {error.strerror}"
            ) from error
