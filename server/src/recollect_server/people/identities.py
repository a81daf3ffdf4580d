"""Owners' identities: kept in a ledger of their own, which nothing else tells; read at the start,
answered from memory.

Nobody is an owner on a channel until somebody says so: what comes in from a stranger is external,
also where no owner is known yet. On the web and on a command line nobody else can write.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import structlog

from recollect_server.kernel.domain.errors import IdentityNotFound
from recollect_server.kernel.domain.filters import Filter
from recollect_server.kernel.log.codec import TEXT, TIME, Codec, Field
from recollect_server.kernel.log.ledger import Ledger
from recollect_server.kernel.log.store import IDENTITIES, LogConflict, LogNotFound, LogStore
from recollect_server.kernel.space.requests import key_of
from recollect_server.kernel.space.space import Space
from recollect_server.text.addresses import OWNERS_ALONE, normal_address, spellings

log = structlog.get_logger("recollect.identities")

_ADDED, _REMOVED, _LINKED, _UNLINKED = "added", "removed", "linked", "unlinked"


@dataclass(frozen=True, slots=True)
class Identity:
    """An owner's address on a channel, normalised. `person` empty: it stands alone."""

    channel: str
    address: str
    person: str = ""


@dataclass(frozen=True, slots=True)
class IdentityChange:
    """A change of owners' addresses, as the ledger of identities keeps it."""

    event: str
    """One of `added`, `removed`, `linked` and `unlinked`."""
    identities: tuple[Identity, ...]
    """The addresses, without their persons."""
    person: str
    time: int
    request_id: str = ""
    request_hash: str = ""


class People:
    """The identities of a space, in memory: a handful."""

    def __init__(self) -> None:
        self._identities: dict[tuple[str, str], Identity] = {}

    def find(self, channel: str, address: str) -> Identity | None:
        """Return the identity of an address, in whichever spelling it was added, or None."""
        for form in spellings(channel, address):
            if identity := self._identities.get((channel, form)):
                return identity
        return None

    def addresses(self, channel: str, address: str) -> tuple[str, ...]:
        """Return the addresses on a channel that are one person's with this one, itself among them,
        in order and in all spellings.
        """
        identity = self.find(channel, address)
        linked = self.listed(channel, identity.person) if identity and identity.person else ()
        forms = {form for it in linked for form in spellings(channel, it.address)}
        return tuple(sorted(forms.union(spellings(channel, address))))

    def listed(self, channel: str = "", person: str = "") -> tuple[Identity, ...]:
        """Return the identities on a channel, of a person, or all, by channel, then address."""
        chosen = (
            it
            for it in self._identities.values()
            if channel in ("", it.channel) and person in ("", it.person)
        )
        return tuple(sorted(chosen, key=lambda it: (it.channel, it.address)))

    def add(self, identity: Identity) -> Identity:
        """Add an identity. A known one keeps its person if no other is named."""
        if previous := self.find(identity.channel, identity.address):
            identity = replace(previous, person=identity.person or previous.person)
        self._identities[identity.channel, identity.address] = identity
        return identity

    def remove(self, channel: str, address: str) -> Identity | None:
        """Remove an identity and return it; None if there is none."""
        identity = self.find(channel, address)
        return self._identities.pop((channel, identity.address)) if identity else None

    def link(self, person: str, them: Iterable[tuple[str, str]]) -> tuple[Identity, ...]:
        """Record that these addresses are a person's, and return all of that person's."""
        for channel, address in them:
            if previous := self.find(channel, address):
                self.add(replace(previous, person=person))
        return self.listed(person=person)

    def unlink(self, channel: str, address: str) -> Identity | None:
        """Remove an address from its person and return it; None if there is none."""
        if identity := self.find(channel, address):
            identity = replace(identity, person="")
            self._identities[channel, identity.address] = identity
        return identity

    def of(self, names: Iterable[str]) -> tuple[Identity, ...]:
        """Return all identities of the given names: persons, or one of a person's addresses in any
        usual form.
        """
        given = set(names)
        persons = {
            it.person for it in self._identities.values() if it.person and it.person in given
        }
        alone: list[Identity] = []
        for identity in self._identities.values():
            forms = spellings(identity.channel, identity.address)
            if any(normal_address(identity.channel, name) in forms for name in given):
                persons.add(identity.person)
                alone.append(identity)
        of_persons = {it for it in self._identities.values() if it.person and it.person in persons}
        return tuple(sorted({*of_persons, *alone}, key=lambda it: (it.channel, it.address)))


_Answer = tuple[Identity, ...]


_IDENTITY = Codec(Identity, Field("channel", TEXT), Field("identity", TEXT, "address"))
_IDENTITY_CHANGE = Codec(
    IdentityChange,
    Field("event", TEXT),
    Field("identities", _IDENTITY.values),
    Field("person", TEXT, default=""),
    Field("timestamp", TIME, "time"),
    Field("requestId", TEXT, "request_id", ""),
    Field("requestHash", TEXT, "request_hash", ""),
    head={"type": "identity"},
)


def identity_ledger(store: LogStore) -> Ledger[IdentityChange]:
    """Return the ledger that says who is an owner."""
    return Ledger(store, IDENTITIES, _IDENTITY_CHANGE)


@dataclass(frozen=True, slots=True)
class _Answered:
    """A request that changed identities."""

    hash: str
    answer: _Answer


class Identities:
    """The identities of a space. Safe to call from any thread."""

    def __init__(self, space: Space, ledger: Ledger[IdentityChange]) -> None:
        """Read the ledger. Raises LogUnavailable."""
        self._space = space
        self._ledger = ledger
        self._guard = threading.Lock()  # one change at a time: each is written before it counts
        self._answered: dict[str, _Answered] = {}
        ledger.recover()
        self._read()
        space.requests.ask(self._answered.get)

    def changed(self, name: str) -> None:
        """Read the ledger anew if another process wrote to it; empty: to any log. Raises
        LogUnavailable.
        """
        if name in ("", self._ledger.name):
            with self._guard:
                self._read()

    def _read(self) -> None:
        changes, self._size = self._ledger.read()  # first: it may take long, or fail
        people, answered = People(), dict[str, _Answered]()
        for change in changes:
            try:
                answer = _apply(people, change)
            except ValueError as error:
                log.warning("line_not_known", ledger=self._ledger.name, reason=str(error))
                continue
            if change.request_id:
                answered[change.request_id] = _Answered(change.request_hash, answer)
        # only now, and none is missing meanwhile: others ask for them
        self._people = people
        self._answered |= answered
        for removed in self._answered.keys() - answered.keys():
            del self._answered[removed]

    def is_owner(self, channel: str, address: str) -> bool:
        """Return whether an address on a channel is the owner's. The address is normalised."""
        return channel in OWNERS_ALONE or self._people.find(channel, address) is not None

    def addresses(self, channel: str, address: str) -> tuple[str, ...]:
        """Return the addresses on a channel that are one person's with this one: see `People`."""
        with self._guard:
            return self._people.addresses(channel, address)

    def listed(self, channel: str, person: str) -> _Answer:
        """Return the identities on a channel or of a person (empty: all), by channel, then
        address.
        """
        with self._guard:
            return self._people.listed(channel, person)

    def add(self, channel: str, address: str, person: str, request_id: str) -> Identity:
        """Record that a normalised address is an owner's. Raises StorageUnavailable,
        RequestIdReused.
        """
        return self._record(_ADDED, [(channel, address)], person, request_id)[0]

    def remove(self, channel: str, address: str, request_id: str) -> Identity:
        """Record that an address is no longer an owner's. Raises IdentityNotFound,
        StorageUnavailable, RequestIdReused.
        """
        return self._record(_REMOVED, [(channel, address)], "", request_id)[0]

    def link(self, person: str, them: list[tuple[str, str]], request_id: str) -> _Answer:
        """Record that addresses belong to one person, and return all of that person's. Raises
        IdentityNotFound, StorageUnavailable, RequestIdReused.
        """
        return self._record(_LINKED, them, person, request_id)

    def unlink(self, channel: str, address: str, request_id: str) -> Identity:
        """Remove an address from its person. Raises IdentityNotFound, StorageUnavailable,
        RequestIdReused.
        """
        return self._record(_UNLINKED, [(channel, address)], "", request_id)[0]

    def widened(self, chosen: Filter) -> Filter:
        """Return the filter with all addresses of the persons among its participants."""
        return chosen.with_identities(self.addresses_of(chosen.participants, ()))

    def addresses_of(
        self, names: Sequence[str], channels: Iterable[str]
    ) -> tuple[tuple[str, str], ...]:
        """Return channels and addresses there in all spellings: those of the persons that are named
        so or have such an address, and each name as an address on these channels.
        """
        with self._guard:
            identities = self._people.of(names) if names else ()
        addresses = {(it.channel, it.address): None for it in identities}
        addresses |= {(it, normal_address(it, name)): None for it in channels for name in names}
        return tuple(
            dict.fromkeys(
                (channel, form)
                for channel, address in addresses
                for form in spellings(channel, address)
            )
        )

    def _record(
        self, event: str, them: list[tuple[str, str]], person: str, request_id: str
    ) -> _Answer:
        named = [{"channel": channel, "identity": address} for channel, address in them]
        request = key_of(event, request_id, {"identities": named, "person": person})
        with self._guard:
            if request and self._space.requests.is_recorded(request):
                return self._answered[request.id].answer
            if event != _ADDED:
                for channel, address in them:
                    if self._people.find(channel, address) is None:
                        raise IdentityNotFound(channel, address)
            change = IdentityChange(
                event,
                tuple(Identity(channel, address) for channel, address in them),
                person,
                self._space.clock(),
                request.id if request else "",
                request.hash if request else "",
            )
            try:
                self._size = self._ledger.append(change, self._size)
            except (LogConflict, LogNotFound):
                # The ledger is another one: the repeat is decided behind what it says now.
                self._read()
                raise
            answer = _apply(self._people, change)
            if request:
                self._answered[request.id] = _Answered(request.hash, answer)
            return answer


def _apply(people: People, change: IdentityChange) -> _Answer:
    """Apply a change. Return the answer that its caller got."""
    person = change.person
    them = [(it.channel, normal_address(it.channel, it.address)) for it in change.identities]
    match change.event:
        case "added":
            return tuple(
                people.add(Identity(channel, address, person)) for channel, address in them
            )
        case "removed":
            # Of two servers that removed one at once both wrote so, in versions before.
            return tuple(people.remove(*key) or Identity(*key) for key in them)
        case "linked":
            return people.link(person, them)
        case "unlinked":
            return tuple(people.unlink(*key) or Identity(*key) for key in them)
        case event:
            raise ValueError(f"{event!r} is of another version")
