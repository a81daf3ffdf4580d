"""Deliveries of providers: how their ids stand in transcripts, and what is kept of them once their
conversation is deleted.

A message that a provider delivers again after the owner deleted its conversation must not come
back. So before the transcript goes, the ids that it has are added to the ledger `forgotten`, as
hashes: of what was said, and by whom, nothing is left.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator

from recollect_server.domain.conversation import CommandRun
from recollect_server.storage.logs.ledger import Forgotten, Ledger
from recollect_server.storage.logs.lines import line_of

_LINE = 1000  # hashes of one line of the ledger
# a line without it has no delivery, and is not decoded
_DELIVERED = re.compile(rb'"requestId":"[^"]* |"event":"command"')


def key_of_delivery(channel: str, sender: str, place: str, provider_message_id: str) -> str:
    """Return a delivery as the `requestId` of the lines that it wrote. No caller's request id has a
    space, and no channel an `@`.

    Senders choose ids, and messengers number each chat, so an id says nothing without both.
    """
    origin = hashlib.sha256(f"{sender}\0{place}".encode()).hexdigest()[:24]
    return f"@{channel} {origin} {provider_message_id}"


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
    for line in (line_of(raw, 1, 0) for raw in lines if _DELIVERED.search(raw)):
        key = line.entry.stamp.request_id if line.entry else ""
        if " " in key or (key and line.entry and isinstance(line.entry.content, CommandRun)):
            hashes[hash_of_delivery(key)] = None
    return list(hashes)


def forget_deliveries(ledger: Ledger[Forgotten], hashes: list[str]) -> None:
    """Add deliveries to the ledger, durably. Raises LogUnavailable."""
    for start in range(0, len(hashes), _LINE):
        ledger.add(Forgotten(tuple(hashes[start : start + _LINE])))


def forgotten_deliveries(ledger: Ledger[Forgotten]) -> Iterator[str]:
    """Yield all hashes of the ledger. Raises LogUnavailable."""
    for entry in ledger.entries():
        yield from entry.deliveries
