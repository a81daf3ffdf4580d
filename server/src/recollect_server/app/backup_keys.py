"""Keys of encrypted backups: from a file that a setting names, or from the environment."""

import os
from pathlib import Path

from recollect_server.domain.keys import Keyring
from recollect_server.services.upkeep.backing_up import CannotCopy

VARIABLE = "RECOLLECT_BACKUP_KEY"


def backup_keys(file: Path | None) -> Keyring | None:
    """Return the keys; None if there are none, and backups are not encrypted. Raises CannotCopy.

    They are read at each backup, so a key that is put first in the file counts for the next one.
    """
    variable = os.environ.get(VARIABLE, "")
    if file is not None and variable:
        raise CannotCopy(
            f"both --backup-key-file and {VARIABLE} are given: put all keys in one of them"
        )
    if file is None and not variable:
        return None
    try:
        return Keyring.parse(variable if file is None else file.read_text("ascii"))
    except ValueError as error:
        reason = "is not a text of keys" if isinstance(error, UnicodeDecodeError) else error
        raise CannotCopy(f"{file or VARIABLE}: {reason}") from None
    except OSError as error:
        raise CannotCopy(
            f"{file}: {error.strerror}: name another with --backup-key-file"
        ) from error
