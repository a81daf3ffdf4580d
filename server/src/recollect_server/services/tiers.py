"""Tiers of conversations: hot, warm and cold, and the moves between them.

- **Hot**: a context was built for it within the time that is set (`warm_for`), and its newest turns
  are in memory.
- **Warm**: it was hot before, or something of it was recalled within that time: turns were fetched,
  it was among the best three of a search, or messages of it were packed into another conversation's
  context. That changes nothing of what is recalled.
- **Cold**: everything else.

This is kept in memory and written behind the calls, within a second; nothing of what is answered
waits for it. It is no truth: a restart goes on with what was written, an index that is made anew
begins with every conversation cold.
"""

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from contextlib import suppress

from recollect_server.domain.context import Context, Tier
from recollect_server.domain.errors import IndexUnavailable
from recollect_server.domain.live import Live
from recollect_server.services.space.events import Deleted
from recollect_server.services.space.space import Space
from recollect_server.storage.index.tiers import Transition

# conversations that are hot or warm; of more the one that was touched longest ago is cold
_MOST = 20_000
_WAITING = 10_000  # moves that wait to be written: of more the oldest are lost


class Tiers:
    """The tiers of a space. Safe to call from any thread; never waits for the disk, but in `flush`,
    `listed` and `forget`.
    """

    def __init__(self, space: Space, warm_for: Live[int]) -> None:
        """`warm_for` is in milliseconds."""
        self._space = space
        self._warm_for = warm_for
        self._guard = threading.Lock()  # guards everything below; only arithmetic happens under it
        # with when it was touched, the longest ago first
        self._places: OrderedDict[str, tuple[Tier, int]] = OrderedDict()
        self._waiting: deque[Transition] = deque(maxlen=_WAITING)
        self._hits: Counter[str] = Counter()
        # held while moves are written, so that they are written in order
        self._flushing = threading.Lock()
        space.subscribe(Deleted, self._forget)
        try:
            before = space.index.tiers.last(_MOST)
        except IndexUnavailable:
            return  # then all are cold
        self._places.update(
            (last.conversation_id, (Tier(last.to_tier), last.time))
            for last in before
            if last.to_tier != Tier.COLD
        )
        self._expire()
        for name in [name for name, (tier, _) in self._places.items() if tier is Tier.HOT]:
            self._move(name, Tier.WARM, "the server started, with nothing in memory")

    def built(self, conversation_id: str, context: Context, *, in_memory: bool) -> None:
        """Note that a context was built for a conversation."""
        with self._guard:
            self._expire()
            self._move(conversation_id, Tier.HOT, "a context was built for it")
            for name in dict.fromkeys(
                candidate.conversation_id for candidate in context.cold.packed
            ):
                self._warm(name, "messages of it were packed into a context")
            self._hits["contexts"] += 1
            self._hits["hot_in_memory"] += in_memory
            self._hits["cold_asked"] += context.cold.considered > 0
            for packed in context.tiers:
                self._hits[packed.tier.name.lower()] += len(packed.packed)

    def fetched(self, conversation_id: str) -> None:
        """Note that turns of a conversation were fetched."""
        with self._guard:
            self._expire()
            self._warm(conversation_id, "turns of it were fetched")

    def found(self, conversation_ids: Iterable[str]) -> None:
        """Note the best conversations of a search."""
        with self._guard:
            self._expire()
            for name in conversation_ids:
                self._warm(name, "a search found it")

    def left_memory(self, conversation_id: str) -> None:
        """Note that a conversation's newest turns were evicted from memory."""
        with self._guard:
            if self._places.get(conversation_id, (Tier.COLD, 0))[0] is Tier.HOT:
                self._move(conversation_id, Tier.WARM, "its newest turns left the memory")

    def _forget(self, event: Deleted) -> None:
        """Drop a deleted conversation. It is no part of the receipt."""
        conversation_id = event.conversation_id
        with self._flushing:
            with self._guard:
                self._places.pop(conversation_id, None)
                others = [it for it in self._waiting if it.conversation_id != conversation_id]
                self._waiting.clear()
                self._waiting.extend(others)
            with suppress(IndexUnavailable):  # it is made anew, without them
                self._space.index.tiers.forget(conversation_id)

    def flush(self) -> None:
        """Write the waiting moves and counts. Raises DataUnavailable, and then keeps them for the
        next call.
        """
        with self._flushing:
            with self._guard:
                self._expire()
                moved, hits = list(self._waiting), Counter(self._hits)
            if not moved and not hits:
                return
            self._space.index.tiers.add(moved, hits)
            with self._guard:
                self._hits = Counter(
                    {name: count for name in self._hits if (count := self._hits[name] - hits[name])}
                )
                written = set(map(id, moved))
                while self._waiting and id(self._waiting[0]) in written:
                    self._waiting.popleft()

    def listed(self, conversation_id: str, before: int, limit: int) -> list[Transition]:
        """Return the newest moves before an id (0: all), of a conversation (empty: of all)."""
        self.flush()
        return self._space.index.tiers.select(conversation_id, before, limit)

    # Under the guard ------------------------------------------------------------------------------

    def _warm(self, conversation_id: str, reason: str) -> None:
        entry = self._places.get(conversation_id)
        self._move(
            conversation_id, entry[0] if entry and entry[0] is Tier.HOT else Tier.WARM, reason
        )

    def _move(self, conversation_id: str, to: Tier, reason: str) -> None:
        now = self._space.clock()
        before = self._places.get(conversation_id, (Tier.COLD, now))[0]
        if to is Tier.COLD:
            self._places.pop(conversation_id, None)
        else:
            self._places[conversation_id] = (to, now)
            self._places.move_to_end(conversation_id)
        if to is not before:
            self._waiting.append(Transition(conversation_id, before, to, reason, now))
        while len(self._places) > _MOST:
            self._move(next(iter(self._places)), Tier.COLD, f"{_MOST} others were touched since")

    def _expire(self) -> None:
        """Move conversations that were touched too long ago a tier down."""
        now = self._space.clock()
        while self._places:
            name = next(iter(self._places))
            tier, time = self._places[name]
            if time + self._warm_for.now > now:
                return
            if tier is Tier.HOT and time + 2 * self._warm_for.now > now:
                self._move(name, Tier.WARM, "no context was built for it for a while")
            else:
                self._move(name, Tier.COLD, "nothing of it was recalled for a while")
