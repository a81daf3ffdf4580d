"""Deliveries of providers: how their ids stand in transcripts, and what is kept of them once their
conversation, or their communication with a third party, is deleted.

A message that a provider delivers again after the owner deleted where it stood must not come back.
So before the transcript goes, the ids that it has are added to the ledger `forgotten`, as hashes:
of what was said, and by whom, nothing is left.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from recollect_server.kernel.compare.checks import Checker, Findings, again
from recollect_server.kernel.domain.conversation import CommandRun
from recollect_server.kernel.erase.erasing import DeletedLog, Participant
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.index.derived import Removed
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.codec import TEXTS, Codec, Field
from recollect_server.kernel.log.ledger import Ledger
from recollect_server.kernel.log.lines import line_of
from recollect_server.kernel.log.store import FORGOTTEN, LogConflict, LogStore
from recollect_server.people.communication import CommunicationBegan, ExternalMessage
from recollect_server.people.routing_table import routing_of
from recollect_server.text.addresses import spellings

_LINE = 1000  # hashes of one line of the ledger
# a line without it has no delivery, and is not decoded
_DELIVERED = re.compile(
    rb'"requestId":"[^"]* |"event":"command"|"type":"meta"|"providerMessageId":"'
)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Messages of providers that were in conversations which are deleted."""

    deliveries: tuple[str, ...]
    """Hashes of their keys (see `hash_of_delivery`)."""


_FORGOTTEN = Codec(Forgotten, Field("deliveries", TEXTS), head={"type": "forgotten"})


def forgotten_ledger(store: LogStore) -> Ledger[Forgotten]:
    """Return the ledger of messages that must not come back."""
    return Ledger(store, FORGOTTEN, _FORGOTTEN)


def key_of_delivery(channel: str, sender: str, place: str, provider_message_id: str) -> str:
    """Return a delivery as the `requestId` of the lines that it wrote. No caller's request id has a
    space, and no channel an `@`.

    Senders choose ids, and messengers number each chat, so an id says nothing without both.
    """
    origin = hashlib.sha256(f"{sender}\0{place}".encode()).hexdigest()[:24]
    return f"@{channel} {origin} {provider_message_id}"


def name_of_party(channel: str, party: str) -> str:
    """Return the name of a party on a channel, whichever spelling its address has."""
    return f"{channel} {spellings(channel, party)[0]}"


def key_of_partys_delivery(channel: str, party: str, group: str, provider_message_id: str) -> str:
    """Return the delivery of a third party's message, in a group or, where that is empty, alone."""
    return key_of_delivery(channel, name_of_party(channel, party), group, provider_message_id)


def former_key_of_delivery(channel: str, provider_message_id: str) -> str:
    """Return a delivery as versions before wrote it, without its sender and place."""
    return f"{channel} {provider_message_id}"


def hash_of_delivery(key: str) -> str:
    """Return what is kept of a delivery: 96 bits of its SHA-256, in hex."""
    return hashlib.sha256(key.encode()).hexdigest()[:24]


def deliveries(lines: Iterable[bytes]) -> list[str]:
    """Return the hashes of the deliveries that lines of a transcript have, and of the requests that
    ran commands, none twice.
    """
    hashes: dict[str, None] = {}
    party: CommunicationBegan | None = None
    for entry in (line_of(raw, 1, 0).entry for raw in lines if _DELIVERED.search(raw)):
        key = entry.stamp.request_id if entry else ""
        match entry.content if entry else None:
            case CommunicationBegan() as party:
                continue
            case ExternalMessage(provider_message_id=delivered, origin=origin) if party:
                key = key_of_partys_delivery(party.channel, party.party, origin.group, delivered)
                is_kept = bool(delivered)
            case content:
                is_kept = " " in key or (bool(key) and isinstance(content, CommandRun))
        if is_kept:
            hashes[hash_of_delivery(key)] = None
    return list(hashes)


def forget_deliveries(ledger: Ledger[Forgotten], hashes: list[str], size: int) -> int:
    """Add deliveries to the ledger, durably, of which the index has `size` bytes. Return how many
    it has once it has these: none behind what another process added meanwhile. Raises
    LogUnavailable.
    """
    for start in range(0, len(hashes), _LINE):
        entry = Forgotten(tuple(hashes[start : start + _LINE]))
        try:
            size = ledger.append(entry, size)
        except LogConflict:
            ledger.add(entry)
    return size


def forgotten_deliveries(ledger: Ledger[Forgotten], until: int | None = None) -> Iterator[str]:
    """Yield the hashes of the ledger; `until`: of its first bytes. Raises LogUnavailable."""
    for entry in ledger.entries(until):
        yield from entry.deliveries


class Deliveries(Participant):
    """The ledger of forgotten messages, and what the index has of it."""

    ledgers = (FORGOTTEN,)

    def erase(self, index: Index, deleted: Sequence[DeletedLog]) -> Removed:
        """Add to the ledger what providers delivered into deleted logs."""
        logs = self.store
        hashes: list[str] = []
        for it in deleted:
            own = deliveries(it.lines())
            # a new ledger would let a deleted space be there again
            if own and not (logs.sharing and logs.sharing.is_deleted_with_space(it.name)):
                hashes += own
        if hashes and logs.sharing is not None:
            self.before_logs(index)  # another process may have written some there
            hashes = [it for it in hashes if not routing_of(index).is_forgotten(it)]
        if hashes:
            routing = routing_of(index)
            size = forget_deliveries(forgotten_ledger(logs), hashes, routing.forgotten_bytes())
            hit("delete.forgotten")
            routing.forget_deliveries(hashes, size)
        return {}

    def before_logs(self, index: Index) -> None:
        """Index the ledger."""
        ledger = forgotten_ledger(self.store)
        ledger.recover()
        if (size := ledger.size()) != routing_of(index).forgotten_bytes():
            routing_of(index).forget_deliveries(forgotten_deliveries(ledger), size)

    follow = before_logs


class DeliveryChecker(Checker):
    """Comparison of the index with the ledger of forgotten messages."""

    def of_space(self, findings: Findings) -> None:
        """Name what the index does not know of the ledger, as far as it has that."""
        comparison = self.comparison
        if (index := comparison.index) is not None:
            problems = again(lambda: self._problems(index))
            findings.add("", [f"index: {problem}" for problem in problems])

    def _problems(self, index: Index) -> list[str]:
        self.comparison.follow()
        with index.moment(settled=True):  # first: the ledger has each before the index
            count = int(index.value("SELECT count(*) FROM forgotten"))
            size = routing_of(index).forgotten_bytes()
        ledger = forgotten_ledger(self.comparison.store)
        there = len(set(forgotten_deliveries(ledger, size)))
        return [f"it knows {count} of {there} forgotten messages"] if count < there else []
