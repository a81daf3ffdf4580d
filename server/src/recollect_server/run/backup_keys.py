"""Keys of encrypted backups: from a file that a setting names, or from the environment."""

import os
from collections.abc import Callable
from pathlib import Path

import structlog

from recollect_server.backup.manifest import CannotCopy
from recollect_server.kernel.domain.keys import Keyring
from recollect_server.kernel.log.files import exposure

log = structlog.get_logger("recollect.app")

VARIABLE = "RECOLLECT_BACKUP_KEY"


def _log(warning: str) -> None:
    log.warning("key_exposed", reason=warning)


def backup_keys(file: Path | None, warn: Callable[[str], None] = _log) -> Keyring | None:
    """Return the keys; None if there are none, and backups are not encrypted. Raises CannotCopy.

    They are read at each backup, so a key that is put first in the file counts for the next one.
    A file that everybody can read is used: a backup that is not made is worse. `warn` is called.
    """
    variable = os.environ.get(VARIABLE, "")
    if file is not None and variable:
        raise CannotCopy(
            f"both --backup-key-file and {VARIABLE} are given: put all keys in one of them"
        )
    if file is None and not variable:
        return None
    if file is not None and (warning := exposure(file)):
        warn(warning)
    try:
        return Keyring.parse(variable if file is None else file.read_text("ascii"))
    except ValueError as error:
        reason = "is not a text of keys" if isinstance(error, UnicodeDecodeError) else error
        raise CannotCopy(f"{file or VARIABLE}: {reason}") from None
    except OSError as error:
        raise CannotCopy(
            f"{file}: {error.strerror}: name another with --backup-key-file"
        ) from error
