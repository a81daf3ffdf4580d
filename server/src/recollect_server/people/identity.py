"""Owners, and the addresses that belong to one person."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from recollect_server.text.addresses import normal_address, spellings


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
