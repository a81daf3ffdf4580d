"""Routes of messages that come in over channels: what the index knows of them, behind the overlay.

A message that comes in must be routed at once, and an index that is asked waits until it has taken
in everything that was added before. So it is asked for what it has, without waiting, and the
overlay has what was added since. The index's answers are cached for the next message.
"""

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from recollect_server.domain.conversation import Continued, Conversation
from recollect_server.domain.routing import Place, place_of
from recollect_server.services.space.overlay import Key
from recollect_server.services.space.projection import Projection
from recollect_server.storage.index.index import Index

K = TypeVar("K")
V = TypeVar("V")

_MAX_CACHED = 10_000  # places and Message-IDs whose answers are cached, of each: some 2 MB
_MAX_STEPS = 1000  # from one conversation to the one that continues it


class Routes:
    """The routes of a space. Safe to call from any thread; what reads them raises
    IndexUnavailable.
    """

    def __init__(
        self,
        projection: Projection,
        exists: Callable[[str], bool],
        is_pinned: Callable[[str], bool],
    ) -> None:
        """`exists` tells whether there is a conversation of that id.

        `is_pinned` tells whether there is, and it is known to be pinned: nothing continues it then.
        """
        self._projection = projection
        self._overlay = projection.overlay
        self._exists = exists
        self._is_pinned = is_pinned
        self._guard = threading.Lock()  # guards everything below; nothing slow happens under it
        self._age = 0  # grows with `changed`
        self._pins: dict[Place, str] = {}  # answers of the index, with what was added since
        self._mails: dict[int, tuple[str, ...]] = {}

    def learn(
        self,
        index: Index,
        before: Conversation | None,
        after: Conversation,
        contents: Iterable[object],
        mail: Iterable[int],
    ) -> None:
        """Note lines that may route messages, and the Message-IDs that they name.

        Call it after they are put into the index.
        """
        facts: dict[Key, str] = dict.fromkeys(mail, after.id)
        was_pinned = before is not None and before.pinned
        place = place_of(after.channel, after.party)
        if after.pinned and not was_pinned and place.known:
            facts[place] = after.id
        for content in contents:
            if isinstance(content, Continued):
                facts[after.id] = content.conversation_id
        if facts:
            self._overlay.add_facts(index, facts)
        # The cache follows the overlay, so that a thread that fills it meanwhile sees the facts.
        with self._guard:
            if after.pinned != was_pinned:
                self._pins.pop(place, None)
            for key in facts:
                if (
                    isinstance(key, int)
                    and (cached := self._mails.get(key)) is not None
                    and after.id not in cached
                ):
                    self._mails[key] = (*cached, after.id)

    def changed(self) -> None:
        """Drop the cached answers: the index has learned more than `learn` was given."""
        with self._guard:
            self._age += 1
            self._pins.clear()
            self._mails.clear()

    def forget(self, conversation_id: str) -> None:
        """Drop a conversation, which is deleted."""
        self._overlay.forget(conversation_id)
        with self._guard:
            self._pins = {
                place: pinned for place, pinned in self._pins.items() if pinned != conversation_id
            }

    def pinned(self, place: Place) -> str | None:
        """Return the conversation that messages of a place join.

        Hold the place's lock: nobody else pins one there meanwhile.
        """
        if added := self._overlay.conversations_of(place):
            return added[-1]
        with self._guard:
            cached = self._pins.get(place)
        if cached is not None:
            return cached
        pinned = self._projection.index.routing.pinned(place, settled=False)
        if not pinned:
            return None
        with self._guard:
            _cache(self._pins, place, pinned[0])
        return pinned[0]

    def threads(self, mails: Iterable[int]) -> set[str]:
        """Return the conversations that e-mails with these ids belong to
        (`domain.routing.mail_number`).
        """
        threads: set[str] = set()
        conversations: dict[int, tuple[str, ...]] = {}
        ages = self._ages
        for name in mails:
            with self._guard:
                cached = self._mails.get(name)
            if cached is not None:
                threads.update(cached)
            else:
                conversations[name] = self._overlay.conversations_of(name)
        if conversations:
            routing = self._projection.index.routing
            for name, conversation_id in routing.mail(conversations, settled=False):
                conversations[name] += (conversation_id,)
            with self._guard:
                for name, them in conversations.items():
                    threads.update(them)
                    now = tuple({*them, *self._overlay.conversations_of(name)})
                    if ages == self._ages:  # else the answer may lack what the index took in since
                        _cache(self._mails, name, now)
        # One that is deleted may be among them still.
        return {
            end
            for it in threads
            if self._is_pinned(end := it) or self._exists(end := self.successor(it))
        }

    def successor(self, conversation_id: str) -> str:
        """Return the conversation that takes what comes in for this one: itself, or the last that
        continues it.

        One that is gone has nothing behind it: the last that is there takes it.
        """
        routing = self._projection.index.routing
        chain = [conversation_id]
        while len(chain) < _MAX_STEPS:
            added = self._overlay.conversations_of(chain[-1])
            following = added[-1] if added else routing.continued(chain[-1], settled=False)
            if following is None or following in chain or not self._exists(following):
                break
            chain.append(following)
        return chain[-1]

    @property
    def _ages(self) -> tuple[int, int]:
        return self._overlay.age, self._age


def _cache(answers: dict[K, V], key: K, value: V) -> None:
    """Add an answer; the oldest one makes room for it."""
    if len(answers) >= _MAX_CACHED:
        answers.pop(next(iter(answers)))
    answers[key] = value
