"""Where messages go: what the index knows, and what it has not taken in yet.

A message that comes in must be routed at once, and an index that is asked waits until it has taken in everything that was added
before. So it is asked for what it has, without waiting, and what was added since is kept here until it is taken in: nothing falls
between, for it is looked for here first.
"""

import threading
from collections.abc import Callable, Hashable, Iterable

from recollect_server.domain.addresses import EMAIL
from recollect_server.domain.conversation import Continued, Conversation
from recollect_server.domain.frozen import frozen
from recollect_server.domain.routing import Place, mail_ids_of, place_of
from recollect_server.services.behind import Behind
from recollect_server.storage.index.index import Index
from recollect_server.storage.transcript.reader import Line, contents_of

_PRUNE = 1024  # additions between two looks at what the index has taken in
_MOST_PINS = 10_000  # that are remembered
_MAX_STEPS = 1000  # from one conversation to the one that goes on for it


@frozen
class _Fresh:
    """A fact that the index may not have yet: `puts` things were put in when it was."""

    conversations: tuple[str, ...]
    index: Index
    puts: int


class Routes:
    """The routes of a space. Safe to call from any thread; what reads them raises IndexUnavailable."""

    def __init__(self, behind: Behind, exists: Callable[[str], bool]) -> None:
        """`exists` says whether there is a conversation of that id."""
        self._behind = behind
        self._exists = exists
        self._guard = threading.Lock()  # guards `_fresh`; nothing slow happens under it
        self._fresh: dict[Hashable, _Fresh] = {}
        self._room = _PRUNE
        self._pins: dict[Place, str] = {}  # what the index was asked for and said

    def learn(self, index: Index, before: Conversation | None, after: Conversation, lines: list[Line]) -> None:
        """Lines were added that may say where messages go. Call it after they are put into the index."""
        facts: dict[Hashable, str] = {}
        if after.pinned != (before is not None and before.pinned):
            with self._guard:
                self._pins.pop(place_of(after.channel, after.party), None)
        if after.channel == EMAIL:
            facts.update(dict.fromkeys(mail_ids_of(contents_of(lines)), after.id))
        if after.pinned and not (before and before.pinned) and (place := place_of(after.channel, after.party)).known:
            facts[place] = after.id
        for content in contents_of(lines):
            if isinstance(content, Continued):
                facts[after.id] = content.conversation_id
        if not facts:
            return
        _, puts = index.taken()
        with self._guard:
            for key, conversation_id in facts.items():
                known = self._fresh.get(key)
                # A Message-ID leads to every conversation that named it; a place and a conversation to the last one only.
                others = known.conversations if known and isinstance(key, int) else ()
                self._fresh[key] = _Fresh((*(it for it in others if it != conversation_id), conversation_id), index, puts)
            if len(self._fresh) > self._room:
                self._prune(index)

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
        found = index.pinned(place, settled=False)
        if not found:
            return None
        with self._guard:
            if len(self._pins) >= _MOST_PINS:
                self._pins.pop(next(iter(self._pins)))
            self._pins[place] = found[0]
        return found[0]

    def threads(self, index: Index, names: Iterable[int]) -> set[str]:
        """The conversations that messages with these ids belong to."""
        wanted = set(names)
        with self._guard:
            found = {it for name in wanted if (fresh := self._fresh.get(name)) for it in fresh.conversations}
        known = index.mail(wanted, settled=False)
        with self._guard:
            # Asked for once here, not once each: most conversations go on themselves.
            ends = {it for it, following in known if following is None and it not in self._fresh}
        found.update(it for it, _ in known)
        return {end for it in found if self._exists(end := it if it in ends else self.end(index, it))}

    def end(self, index: Index, conversation_id: str) -> str:
        """The conversation that takes what comes in for this one, itself or one that goes on for it.

        One that is gone has nothing behind it: the last that is there takes it.
        """
        seen = [conversation_id]
        while len(seen) < _MAX_STEPS:
            with self._guard:
                fresh = self._fresh.get(seen[-1])
            following = fresh.conversations[-1] if fresh else index.continued(seen[-1], settled=False)
            if following is None or following in seen or not self._exists(following):
                break
            seen.append(following)
        return seen[-1]

    def _prune(self, index: Index) -> None:
        """Drops what the index has taken in. What was put into an index that is not used any more waits once more."""
        taken, puts = index.taken()
        for key, fresh in list(self._fresh.items()):
            if any(self._behind.has(conversation_id) for conversation_id in fresh.conversations):
                continue
            if fresh.index is not index:
                self._fresh[key] = _Fresh(fresh.conversations, index, puts)
            elif fresh.puts <= taken:
                del self._fresh[key]
        self._room = len(self._fresh) + _PRUNE
