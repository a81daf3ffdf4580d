"""Events: what a space tells those who subscribed to it.

A handler is called in the thread that made the change, in the order of subscriptions, and before
the call that made it returns. It must not raise, and must not write to the space: each type says
which locks are held. A handler that needs more time notes the event and returns.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.index.derived import Removed
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.lines import Line

E = TypeVar("E")


@frozen
class Appended:
    """Lines that are durable, and on their way into the index. The conversation's lock is held."""

    conversation_id: str
    lines: list[Line]
    conversation: Conversation
    """The conversation behind them."""


@frozen
class Reloaded:
    """A transcript that another hand changed, or that is gone: what is remembered of it is void.

    The conversation's lock is held.
    """

    conversation_id: str


@frozen
class CaughtUp:
    """Lines of a conversation that the index had lacked, and has now. Its lock is held."""

    conversation_id: str


@frozen
class Deleted:
    """Conversations that are durably deleted, while their last traces are removed. No lock is held.

    It follows every other event of these conversations.
    """

    numbers: Mapping[str, int | None]
    """Their numbers in the index, by id; None if the index did not have one."""
    removed: Removed
    """The receipt: a handler adds what it removed itself."""


@frozen
class Redacted:
    """Messages whose text is durably removed from their transcript and the index. The
    conversation's lock is held.
    """

    conversation_id: str
    number: int
    sequences: tuple[int, ...]


@frozen
class Redacting:
    """A log, no conversation, of which messages' text is durably removed, and is about to be
    removed from the index. Its lock is held.
    """

    name: str


@frozen
class LogsErased:
    """Deleted logs that the index does not find any more; of those that another process deleted it
    may have words yet. No lock is held.
    """

    names: tuple[str, ...]


@frozen
class Unindexed:
    """A conversation whose words are out of the index. Its lock is held."""

    conversation_id: str
    number: int


@frozen
class IndexReplaced:
    """Another index, made from the transcripts, is used from here on.

    Every conversation's lock is held: nobody writes meanwhile.
    """

    index: Index


@frozen
class CursorsLost:
    """Cursors that were answered will never be delivered, for the index refused their updates.

    The lock of one conversation is held.
    """


@frozen
class ChangedElsewhere:
    """A log that is no conversation, and that another process wrote to. No lock is held."""

    name: str
    """Empty: any of them, in any way."""
    kind: str
    """As `kernel.domain.ids.Kind`, or `ledger`."""


@frozen
class Resting:
    """The files of the space are closed, and its caches are dropped. Nobody uses the space."""


class Subscribers:
    """The handlers of a space's events, by type. They subscribe before anybody calls."""

    def __init__(self) -> None:
        self._handlers: defaultdict[type, list[tuple[Callable[[Any], None], frozenset[type], str]]]
        self._handlers = defaultdict(list)

    def add(
        self,
        kind: type[E],
        handler: Callable[[E], None],
        of: frozenset[type] = frozenset(),
        channel: str = "",
    ) -> None:
        """Call the handler with every event of a type from now on; of `Appended` with those alone
        that have an entry of these types, or are on this channel.
        """
        self._handlers[kind].append((handler, of, channel))

    def publish(self, event: object) -> None:
        """Call the handlers of this event's type."""
        contents: set[type] = set()
        where = ""
        if isinstance(event, Appended):
            where = event.conversation.channel
            for line in event.lines:
                if line.entry is not None:
                    contents.add(type(line.entry.content))
        for handler, of, channel in self._handlers.get(type(event), ()):
            if not (of or channel) or not of.isdisjoint(contents) or channel == where != "":
                handler(event)
