"""AdminService: backups."""

from recollect.v1 import admin_service_pb2 as api

from recollect_server.domain.errors import SpaceNotFound
from recollect_server.services.administration.backups import BackupAdministration
from recollect_server.services.administration.spaces import SpaceAdministration
from recollect_server.transport.handling import Call

_MAX_PROBLEMS = 100


class BackupHandlers:
    def __init__(self, backups: BackupAdministration, spaces: SpaceAdministration) -> None:
        self._backups = backups
        self._spaces = spaces

    def Backup(self, request: api.BackupRequest, call: Call) -> api.BackupResponse:
        self._backups.check_folder()
        spaces = self._spaces.names(call.principal.is_for)
        if not spaces:
            raise SpaceNotFound(call.principal.space)
        is_whole = call.principal.is_for_every_space
        made = self._backups.make(request.name, spaces, is_whole=is_whole)
        return api.BackupResponse(
            path=str(made.path),
            spaces=made.spaces,
            conversations=made.copied.conversations,
            external_communications=made.copied.communications,
            bytes=made.copied.bytes,
            problem_count=len(made.copied.problems),
            problems=made.copied.problems[:_MAX_PROBLEMS],
        )
