"""Composition of AdminService, which is about the server as a whole."""

from dataclasses import dataclass
from typing import Any

from recollect_server.app.backup_keys import backup_keys
from recollect_server.app.settings import SettingsAdministration
from recollect_server.app.stores import Stores
from recollect_server.domain.live import Holder
from recollect_server.domain.time import Clock
from recollect_server.services.administration.backups import BackupAdministration
from recollect_server.services.administration.jobs import JobAdministration
from recollect_server.services.administration.retention import RetentionAdministration
from recollect_server.services.administration.server import ServerWatch
from recollect_server.services.administration.spaces import SpaceAdministration
from recollect_server.services.administration.verifications import VerificationAdministration
from recollect_server.services.limits import Limiter
from recollect_server.services.spaces.spaces import Spaces
from recollect_server.services.tokens import Tokens
from recollect_server.settings import Settings
from recollect_server.transport.admin_service import AdminHandlers
from recollect_server.transport.pages import CursorSeal
from recollect_server.transport.streams import Streams


@dataclass(frozen=True, slots=True)
class Administered:
    """Parts of a server that its administrators deal with."""

    settings: Holder[Settings]
    stores: Stores
    clock: Clock
    tokens: Tokens
    limiter: Limiter
    spaces: Spaces[Any]
    streams: Streams
    verifications: VerificationAdministration


def admin_handlers(parts: Administered) -> AdminHandlers:
    settings = parts.settings.now
    data_dir = settings.data_dir
    # Page tokens are of no space. No space has this name.
    seal = CursorSeal("*", is_default=False)
    spaces = SpaceAdministration(
        parts.stores,
        data_dir,
        settings.space,
        parts.spaces,
        parts.streams.ended_in,
        parts.clock,
    )
    return AdminHandlers(
        SettingsAdministration(parts.settings),
        spaces,
        ServerWatch(data_dir, parts.limiter, parts.clock),
        BackupAdministration(
            parts.stores.folder_of,
            settings.backup_dir,
            settings.backup_rules,
            settings.space,
            parts.clock,
            lambda: backup_keys(settings.backup_key_file),
        ),
        JobAdministration(spaces, parts.spaces),
        RetentionAdministration(
            parts.stores, parts.settings.view(lambda it: it.retention_rules), parts.spaces
        ),
        parts.verifications,
        parts.tokens,
        seal,
        parts.clock,
    )
