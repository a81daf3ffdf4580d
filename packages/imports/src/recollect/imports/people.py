"""Talk between people, as messengers export it.

The service keeps strangers' words apart from the owner's conversations (`docs/guides/channels.md`),
where a reply has the time at which it is recorded and a message asks the owner how far to trust its
sender. A history fits neither. So it comes as a conversation, and only where the caller says who of
its people the owner is: from then on it is the owner's own record.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from recollect import Role
from recollect.imports.forms import Options
from recollect.imports.plans import Plan, Skip, skip_of
from recollect.imports.reading import Reading
from recollect.imports.talks import Talk, attachment
from recollect.imports.transcript import Damaged

_SHOWN = 8


def forwarded(text: str, sender: str = "") -> str:
    """Return what somebody else said first, with the mark by which it counts as no words of the one
    who sends it.
    """
    return f"---------- Forwarded message{sender and f' from {sender}'} ----------\n{text}"


class Chat:
    """A chat of people on its way into a plan."""

    def __init__(self, product: str, own: str, where: str, *, title: str) -> None:
        self.talk = Talk(product, own, where, title=title)
        self._product = product
        self._people: dict[str, None] = {}

    def say(
        self, import_id: str, sender: str, text: str, time: Any, files: Iterable[str] = ()
    ) -> bool:
        """Add a message of one of the people. Return False for one that is empty."""
        self._people[sender] = None
        attachments = [
            attachment(it if "://" in it else f"{self._product}:{it}", it.partition("?")[0])
            for it in files
        ]
        return self.talk.say(
            Role.USER, import_id, text, time, attachments=attachments, sender=sender
        )

    def plan(self, owner: str, *, is_part: bool = False) -> Plan | Skip:
        """Return the plan of the chat; Skip where it has no messages, or not of the owner. In a
        part of a chat the owner may be silent.
        """
        plan = self.talk.plan()
        is_owners = owner in self._people or (is_part and owner)
        if isinstance(plan, Plan) and not is_owners:
            names = ", ".join(list(self._people)[:_SHOWN])
            others = len(self._people) - _SHOWN
            names += f" and {others} others" if others > 0 else ""
            what = f"{owner!r} is none of its people" if owner else "it is talk between people"
            return Skip(self.talk.where, f"{what}: --owner says who of them you are: {names}")
        return plan


def chats(
    exports: Callable[[Any], list[dict[str, Any]]],
    plan: Callable[[dict[str, Any], str, Options], Plan | Skip],
) -> Callable[[Reading, Options], Iterator[Plan | Skip]]:
    """Return the reader of a format of which `exports` returns the chats of a JSON value."""

    def read(reading: Reading, options: Options) -> Iterator[Plan | Skip]:
        for where, value in reading.items(lambda it: bool(exports(it))):
            values = exports(value)
            if not values:
                yield skip_of(where, value, "it is no chat")
            for number, chat in enumerate(values, start=1):
                place = f"{reading.name} chat {number}"
                try:
                    yield plan(chat, place, options)
                except Damaged as error:
                    yield Skip(place, str(error))

    return read
