"""The callers of a server: who may call, how much they may use, and what is noted of it."""

from collections.abc import Callable
from dataclasses import dataclass

from recollect_server.access.audit import Audit
from recollect_server.access.audit_file import AuditLog
from recollect_server.access.limits import Allowance, Allowances, Limiter
from recollect_server.access.token_uses import TokenUses
from recollect_server.access.tokens import Tokens
from recollect_server.access.usage_file import UsageFile
from recollect_server.contract.gate import Gate
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.time import Clock
from recollect_server.run.jobs.loop import Loop
from recollect_server.run.settings import Settings
from recollect_server.run.stores import Stores

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
