"""The times at which rules of retention were first in force: `<data-dir>/retention.json`."""

from pathlib import Path

import orjson

from recollect_server.kernel.domain.errors import StorageUnavailable
from recollect_server.kernel.log.files import read_file, write_private

NAME = "retention.json"


class RuleTimesFile:
    """Times of rules, in milliseconds by the rule's text."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / NAME

    def read(self) -> dict[str, int]:
        """Return the times; none if the file is missing or damaged, so that every rule is new."""
        try:
            record = orjson.loads(read_file(self._path))
            return {str(rule): int(time) for rule, time in record.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}

    def write(self, times: dict[str, int]) -> None:
        """Keep the times. Raises StorageUnavailable."""
        try:
            write_private(self._path, orjson.dumps(times), sync=True)
        except OSError as error:
            raise StorageUnavailable(
                f"the times of the rules of retention cannot be kept: {error.strerror}"
            ) from error
