"""Composition of the callers of a server (who may call, how much they may use, what is noted of it)
and of AdminService, which is about the server as a whole: in a server, and for a command of the
machine's operator, who needs neither a server nor a token.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import grpc
from google.protobuf.message import Message as ProtoMessage

from recollect_server.access.audit import Audit, object_of
from recollect_server.access.audit_file import AuditLog
from recollect_server.access.limits import Allowance, Allowances, Limiter
from recollect_server.access.principal import Principal
from recollect_server.access.token_uses import TokenUses
from recollect_server.access.tokens import Tokens
from recollect_server.access.usage_file import UsageFile
from recollect_server.admin.backups import BackupAdministration
from recollect_server.admin.jobs import JobAdministration
from recollect_server.admin.server import ServerWatch
from recollect_server.admin.spaces import (
    RetentionAdministration,
    SpaceAdministration,
    VerificationAdministration,
)
from recollect_server.contract.admin_service import AdminHandlers
from recollect_server.contract.admin_token_service import TokenHandlers
from recollect_server.contract.checks import check
from recollect_server.contract.convert import CursorSeal
from recollect_server.contract.gate import Gate
from recollect_server.contract.handling import Call
from recollect_server.contract.rules import SizeLimits
from recollect_server.kernel.domain.live import Holder, Live
from recollect_server.kernel.domain.time import Clock, system_clock
from recollect_server.kernel.space.spaces import Spaces
from recollect_server.run.backup_keys import backup_keys
from recollect_server.run.jobs.loop import Loop
from recollect_server.run.parts.opening import Shared
from recollect_server.run.settings import Settings
from recollect_server.run.settings.in_force import SettingsAdministration
from recollect_server.run.stores import Stores, opened_tokens

_SAVE_SECONDS = 10.0  # between two times that counts are written down


@dataclass(frozen=True, slots=True)
class Callers:
    tokens: Tokens
    uses: TokenUses
    gate: Gate
    audit: Audit
    limiter: Limiter


def open_callers(
    live: Live[Settings], stores: Stores, clock: Clock, stops: list[Callable[[], None]]
) -> Callers:
    """Read the tokens, and count from now on what callers use. Raises StorageUnavailable."""
    settings = live.now
    tokens = Tokens(stores.tokens(), clock)
    uses = TokenUses(stores.token_uses(), clock)
    gate = Gate(settings.space, tokens, uses, token_required=settings.auth == "required")
    audit = Audit(AuditLog(settings.data_dir, settings.audit_bytes, settings.audit_files), clock)
    limiter = Limiter(clock, live.view(_allowances), tokens.limits_of, UsageFile(settings.data_dir))
    keep_books(limiter, audit, uses, clock, stops)
    return Callers(tokens, uses, gate, audit, limiter)


def keep_books(
    limiter: Limiter, audit: Audit, uses: TokenUses, clock: Clock, stops: list[Callable[[], None]]
) -> Loop:
    """Save what is counted now and then, in the background, and at the stop."""

    def save() -> float:
        limiter.save()
        audit.flush(clock())
        uses.save()
        return _SAVE_SECONDS

    loop = Loop("bookkeeper", save, wait=_SAVE_SECONDS)
    loop.start()
    stops += (uses.save, audit.close, limiter.save, loop.stop)
    return loop


def _allowances(settings: Settings) -> Allowances:
    """Return what a token and a space may use."""
    return Allowances(
        Allowance(
            settings.token_calls, settings.token_burst, settings.token_bytes, settings.token_streams
        ),
        Allowance(
            settings.space_calls, settings.space_burst, settings.space_bytes, settings.space_streams
        ),
    )


# Page tokens are of no space. No space has this name.
_SEAL = CursorSeal("*", is_default=False)
_NO_CONTEXT = cast(grpc.ServicerContext, None)  # which no call about tokens looks at


def admin_handlers(
    live: Holder[Settings],
    shared: Shared,
    callers: Callers,
    open_spaces: Spaces[Any],
    verifications: VerificationAdministration,
) -> AdminHandlers:
    settings, stores, clock = live.now, shared.stores, shared.clock
    data_dir = settings.data_dir
    spaces = SpaceAdministration(
        stores, data_dir, settings.space, open_spaces, shared.streams.ended_in, clock
    )
    return AdminHandlers(
        SettingsAdministration(live),
        spaces,
        ServerWatch(data_dir, callers.limiter.save, clock),
        BackupAdministration(
            stores.folder_of,
            settings.backup_dir,
            settings.backup_rules,
            settings.space,
            clock,
            lambda: backup_keys(settings.backup_key_file),
            settings.backup_url,
        ),
        JobAdministration(spaces, open_spaces),
        RetentionAdministration(
            stores,
            live.view(lambda it: it.retention_rules),
            shared.new_rules,
            open_spaces,
            clock,
        ),
        verifications,
        callers.tokens,
        callers.uses,
        _SEAL,
        clock,
    )


@dataclass(frozen=True, slots=True)
class TokenCommands:
    """AdminService's calls about tokens for the machine's operator. Who may write the data folder
    may do everything, so they need no token: also to make the first one, and to revoke the last.
    """

    settings: Settings
    handlers: TokenHandlers
    audit: Audit

    def call(self, method: str, request: ProtoMessage, command: str = "") -> Any:
        """Check a request, carry it out as the server does, and return the answer. The audit
        records it under the name of a command; empty: not at all. Raises RecollectError.
        """
        check(request, SizeLimits(), system_clock)
        operator = Principal(space=self.settings.space, peer=f"uid:{os.getuid()}")
        answer = getattr(self.handlers, method)(request, Call(_NO_CONTEXT, operator))
        if command:
            self.audit.record(operator, command, object_of(request, answer))
        return answer


@contextmanager
def token_commands(settings: Settings) -> Iterator[TokenCommands]:
    """Open the tokens of a data folder or a database for a command, while servers run or not.
    Raises CannotStart, LogUnavailable.
    """
    log = AuditLog(settings.data_dir, settings.audit_bytes, settings.audit_files)
    with (
        opened_tokens(settings) as (ledger, uses),
        closing(Audit(log, system_clock)) as audit,
    ):
        handlers = TokenHandlers(
            Tokens(ledger, system_clock), TokenUses(uses, system_clock), _SEAL, system_clock
        )
        yield TokenCommands(settings, handlers, audit)
