"""Where messages of channels go, a part of the space: what the index knows, and what it has not taken in yet.

A message that comes in must be routed at once, and an index that is asked waits until it has taken in everything that was added
before. So it is asked for what it has, without waiting, and what was added since is kept here until it is taken in: nothing falls
between, for it is looked for here first. What the index said is remembered for the next message.
"""

import threading
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from recollect_server.domain.conversation import Content, Continued, Conversation
from recollect_server.domain.frozen import frozen
from recollect_server.domain.routing import Place, place_of
from recollect_server.services.space.index_lag import IndexLag
from recollect_server.storage.index.index import Index

K = TypeVar("K")
V = TypeVar("V")

_PRUNE = 1024  # additions between two looks at what the index has taken in
_MOST_KNOWN = 10_000  # places and Message-IDs of which is remembered what the index said, of each: some 2 MB
_MAX_STEPS = 1000  # from one conversation to the one that goes on for it


@frozen
class _Fresh:
    """A fact that the index may not have yet: `puts` things were put in when it was."""

    conversations: tuple[str, ...]
    index: Index
    puts: int


class Routes:
    """The routes of a space. Safe to call from any thread; what reads them raises IndexUnavailable."""

    def __init__(self, behind: IndexLag, exists: Callable[[str], bool], is_pinned: Callable[[str], bool]) -> None:
        """`exists` says whether there is a conversation of that id; `is_pinned` whether there is, and it is known to be pinned:
        nothing goes on for it then.
        """
        self._behind = behind
        self._exists = exists
        self._is_pinned = is_pinned
        self._guard = threading.Lock()  # guards everything below; nothing slow happens under it
        self._fresh: dict[Hashable, _Fresh] = {}
        self._room = _PRUNE
        self._age = 0  # grows when things are dropped here: an answer that was asked for before may lack what was added since
        self._pins: dict[Place, str] = {}  # what the index was asked for and said, with what was added since
        self._mails: dict[int, tuple[str, ...]] = {}

    def learn(
        self, index: Index, before: Conversation | None, after: Conversation, contents: Iterable[Content], mail: Iterable[int]
    ) -> None:
        """What may say where messages go was added, with the Message-IDs that it names. Call it after it is put into the index."""
        facts: dict[Hashable, str] = dict.fromkeys(mail, after.id)
        if after.pinned != (before is not None and before.pinned):
            with self._guard:
                self._pins.pop(place_of(after.channel, after.party), None)
        if after.pinned and not (before and before.pinned) and (place := place_of(after.channel, after.party)).known:
            facts[place] = after.id
        for content in contents:
            if isinstance(content, Continued):
                facts[after.id] = content.conversation_id
        if not facts:
            return
        _, puts = index.taken()
        with self._guard:
            for key, conversation_id in facts.items():
                # A Message-ID leads to every conversation that named it; a place and a conversation to the last one only.
                others: tuple[str, ...] = ()
                if isinstance(key, int):
                    others = self._fresh_of(key)
                    if conversation_id in others:
                        continue
                    if (known := self._mails.get(key)) is not None and conversation_id not in known:
                        self._mails[key] = (*known, conversation_id)
                self._fresh[key] = _Fresh((*others, conversation_id), index, puts)
            if len(self._fresh) > self._room:
                self._prune(index)

    def changed(self) -> None:
        """The index knows more than was told here: what it said is asked anew."""
        with self._guard:
            self._age += 1
            self._pins.clear()
            self._mails.clear()

    def forget(self, conversation_id: str) -> None:
        """A conversation is gone."""
        with self._guard:
            for key, fresh in list(self._fresh.items()):
                if key == conversation_id or fresh.conversations == (conversation_id,):
                    del self._fresh[key]
                elif conversation_id in fresh.conversations:
                    left = tuple(it for it in fresh.conversations if it != conversation_id)
                    self._fresh[key] = _Fresh(left, fresh.index, fresh.puts)
            self._pins = {place: pinned for place, pinned in self._pins.items() if pinned != conversation_id}

    def pinned(self, index: Index, place: Place) -> str | None:
        """The conversation that messages of a place join. Hold what orders these: nobody else pins one there meanwhile."""
        with self._guard:
            fresh, known = self._fresh.get(place), self._pins.get(place)
        if fresh is not None or known is not None:
            return fresh.conversations[-1] if fresh else known
        found = index.routing.pinned(place, settled=False)
        if not found:
            return None
        with self._guard:
            _remember(self._pins, place, found[0])
        return found[0]

    def threads(self, index: Index, names: Iterable[int]) -> set[str]:
        """The conversations that messages with these ids belong to."""
        found: set[str] = set()
        asked: dict[int, tuple[str, ...]] = {}
        with self._guard:
            age = self._age
            for name in names:
                if (known := self._mails.get(name)) is not None:
                    found.update(known)
                else:
                    asked[name] = self._fresh_of(name)
        if asked:
            for name, conversation_id in index.routing.mail(asked, settled=False):
                asked[name] += (conversation_id,)
            with self._guard:
                for name, them in asked.items():
                    found.update(them)
                    if age == self._age:
                        _remember(self._mails, name, tuple({*them, *self._fresh_of(name)}))
        # One that is deleted may be among them still.
        return {end for it in found if self._is_pinned(end := it) or self._exists(end := self.end(index, it))}

    def end(self, index: Index, conversation_id: str) -> str:
        """The conversation that takes what comes in for this one, itself or one that goes on for it.

        One that is gone has nothing behind it: the last that is there takes it.
        """
        seen = [conversation_id]
        while len(seen) < _MAX_STEPS:
            with self._guard:
                fresh = self._fresh.get(seen[-1])
            following = fresh.conversations[-1] if fresh else index.routing.continued(seen[-1], settled=False)
            if following is None or following in seen or not self._exists(following):
                break
            seen.append(following)
        return seen[-1]

    def _fresh_of(self, name: int) -> tuple[str, ...]:
        fresh = self._fresh.get(name)
        return fresh.conversations if fresh else ()

    def _prune(self, index: Index) -> None:
        """Drops what the index has taken in. What was put into an index that is not used any more waits once more."""
        self._age += 1
        taken, puts = index.taken()
        for key, fresh in list(self._fresh.items()):
            if any(self._behind.has(conversation_id) for conversation_id in fresh.conversations):
                continue
            if fresh.index is not index:
                self._fresh[key] = _Fresh(fresh.conversations, index, puts)
            elif fresh.puts <= taken:
                del self._fresh[key]
        self._room = len(self._fresh) + _PRUNE


def _remember(known: dict[K, V], key: K, value: V) -> None:
    """Adds what the index said; what was added first makes room for it."""
    if len(known) >= _MOST_KNOWN:
        known.pop(next(iter(known)))
    known[key] = value
