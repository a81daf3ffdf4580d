"""The audit: who was refused, who changed tokens, and who deleted or administered.

A record holds ids and codes only, never text of a request and never a secret. Changes are on the
disk before their caller is answered. Denials are not synced, and a flood of them becomes one record
a minute with a count: being refused must cost little. The audit never fails a call: what cannot be
written is counted, logged once, and recorded as lost as soon as the file takes records again.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import structlog

from recollect_server.access.audit_file import AuditLog
from recollect_server.access.principal import Principal
from recollect_server.kernel.domain.ids import is_communication_id, is_conversation_id
from recollect_server.kernel.domain.time import Clock, to_text

log = structlog.get_logger("recollect.audit")

_MINUTE = 60_000
# different ones in a minute, and the rest share one record: a caller who invents addresses and
# methods must not push older records out of the files that are kept
_MAX_DENIALS = 20
_OTHERS = Principal(peer="others", space="")


@dataclass(slots=True)
class _Denial:
    """Denials of one kind since their first one was recorded."""

    began: int
    fields: dict[str, Any]
    count: int = 0


class Audit:
    """The audit of a data folder. Safe to call from any thread."""

    def __init__(self, audit_log: AuditLog, clock: Clock) -> None:
        self._log = audit_log
        self._clock = clock
        self._guard = threading.Lock()  # guards the fields below; nothing slow happens under it
        self._denials: OrderedDict[tuple[str, ...], _Denial] = OrderedDict()
        self._lost = 0

    def record(
        self,
        principal: Principal,
        method: str,
        *targets: str,
        outcome: str = "OK",
    ) -> None:
        """Record changes, durably. `method` is `Service.Method`, or what a command did.

        `targets` are ids of conversations, communications or tokens, a record each; none: one
        record. `outcome` is OK, or a code with the reason.
        """
        every = [self._fields(principal, method, it, outcome) for it in targets or ("",)]
        self._write(*every, durable=True)

    def refuse(self, principal: Principal, method: str, outcome: str) -> None:
        """Record a call that was refused, or count it."""
        now = self._clock()
        host = host_of(principal.peer)
        key = (principal.token_id, host, method, principal.space, outcome)
        with self._guard:
            if key not in self._denials and len(self._denials) >= _MAX_DENIALS:
                principal, method = _OTHERS, ""
                key = ("", _OTHERS.peer, "", "", outcome)
            denial = self._denials.get(key)
            if denial and 0 <= now - denial.began < _MINUTE:  # the clock may be set back
                denial.count += 1
                return
            fields = self._fields(principal, method, "", outcome)
            self._denials[key] = _Denial(now, fields)
            self._denials.move_to_end(key)
        self.flush(now)
        if denial and denial.count:
            self._write(_counted(denial))
        self._write(fields)

    def flush(self, now: int | None = None) -> None:
        """Record the counts of the floods that are over; of all without `now`."""
        over = []
        with self._guard:
            while self._denials:
                key, denial = next(iter(self._denials.items()))
                if now is not None and 0 <= now - denial.began < _MINUTE:
                    break
                del self._denials[key]
                over.append(denial)
        for denial in over:
            if denial.count:
                self._write(_counted(denial))

    def close(self) -> None:
        """Record the counts, and close the file."""
        self.flush()
        self._log.close()

    def _fields(
        self, principal: Principal, method: str, target: str, outcome: str
    ) -> dict[str, Any]:
        fields = {
            "time": to_text(self._clock()),
            "method": method,
            "outcome": outcome,
            "token": principal.token_id,
            "kind": principal.kind,
            "peer": principal.peer,
            "space": principal.space,
            "object": target,
        }
        return {name: value for name, value in fields.items() if value}

    def _write(self, *fields: dict[str, Any], durable: bool = False) -> None:
        with self._guard:
            lost = self._lost
        records = [*fields]
        if lost:
            loss = {"time": fields[0]["time"], "method": "audit", "outcome": "LOST", "count": lost}
            records.insert(0, loss)
        try:
            self._log.append(*records, durable=durable)
        except OSError as error:
            with self._guard:
                self._lost += len(fields)
            if not lost:
                log.error("audit_not_written", reason=error.strerror or str(error))
            return
        if lost:
            with self._guard:
                self._lost -= lost
            log.warning("audit_resumed", lost=lost)


def object_of(request: Any, answer: Any) -> str:
    """Return the id of the setting, token or space that an answer is about, or of the conversation
    or communication that a request names; empty if there is none, or it has no valid id.
    """
    for part, name in (("setting", "key"), ("token", "id"), ("space", "name"), ("receipt", "name")):
        about = getattr(getattr(answer, part, None), name, "")
        if isinstance(about, str) and about:
            return about
    for name, is_id in (
        ("conversation_id", is_conversation_id),
        ("communication_id", is_communication_id),
    ):
        value = getattr(request, name, "")
        if isinstance(value, str) and is_id(value):
            return value
    return ""


def host_of(peer: str) -> str:
    """Return a peer without its port: `ipv4:127.0.0.1:50000` is `ipv4:127.0.0.1`."""
    kind, _, address = peer.partition(":")
    return f"{kind}:{address.rpartition(':')[0]}" if kind in ("ipv4", "ipv6") else peer


def _counted(denial: _Denial) -> dict[str, Any]:
    """Return the record of the denials that were only counted."""
    return denial.fields | {"count": denial.count}
