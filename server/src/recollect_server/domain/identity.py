"""Owners, and the addresses that belong to one person."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from recollect_server.domain.addresses import normal_address


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
        self._known: dict[tuple[str, str], Identity] = {}

    def find(self, channel: str, address: str) -> Identity | None:
        """Return the identity of an address, or None."""
        return self._known.get((channel, address))

    def listed(self, channel: str = "", person: str = "") -> tuple[Identity, ...]:
        """Return the identities on a channel, of a person, or all, by channel, then address."""
        chosen = (
            it
            for it in self._known.values()
            if channel in ("", it.channel) and person in ("", it.person)
        )
        return tuple(sorted(chosen, key=lambda it: (it.channel, it.address)))

    def add(self, identity: Identity) -> Identity:
        """Add an identity. A known one keeps its person if no other is named."""
        known = self.find(identity.channel, identity.address)
        if known and not identity.person:
            return known
        self._known[identity.channel, identity.address] = identity
        return identity

    def remove(self, channel: str, address: str) -> Identity | None:
        """Remove an identity and return it; None if there is none."""
        return self._known.pop((channel, address), None)

    def link(self, person: str, them: Iterable[tuple[str, str]]) -> tuple[Identity, ...]:
        """Record that these addresses are a person's, and return all of that person's."""
        for key in them:
            if known := self._known.get(key):
                self._known[key] = replace(known, person=person)
        return self.listed(person=person)

    def unlink(self, channel: str, address: str) -> Identity | None:
        """Remove an address from its person and return it; None if there is none."""
        if known := self.find(channel, address):
            known = self._known[channel, address] = replace(known, person="")
        return known

    def of(self, names: Iterable[str]) -> tuple[Identity, ...]:
        """Return all identities of the given names: persons, or one of a person's addresses in any
        usual form.
        """
        wanted = set(names)
        persons = {it.person for it in self._known.values() if it.person and it.person in wanted}
        alone: list[Identity] = []
        for identity in self._known.values():
            if any(normal_address(identity.channel, name) == identity.address for name in wanted):
                persons.add(identity.person)
                alone.append(identity)
        found = {it for it in self._known.values() if it.person and it.person in persons}
        return tuple(sorted({*found, *alone}, key=lambda it: (it.channel, it.address)))
