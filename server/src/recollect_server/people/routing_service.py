"""Routes of messages that come in over channels: which conversation takes them."""

from collections.abc import Callable, Iterable
from functools import partial

from recollect_server.kernel.domain.conversation import Began, Continued, MetaUpdated
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.lines import contents_of
from recollect_server.kernel.log.store import has_conversation
from recollect_server.kernel.space.events import Appended, CaughtUp
from recollect_server.kernel.space.projection import Key, Overlay
from recollect_server.kernel.space.space import Space
from recollect_server.people.routing import Place, mail_ids_of, place_of
from recollect_server.people.routing_table import routing_of
from recollect_server.text.addresses import EMAIL

_MAX_STEPS = 1000  # from one conversation to the one that continues it


class Routes:
    """Routes of messages that come in over channels. Safe to call from any thread; what reads them
    raises DataUnavailable.

    A message that comes in must be routed at once, and an index that is asked waits until it has
    taken in everything that was added before. So it is asked for what it has, without waiting, and
    the overlay, which is asked before it, has what was added since.
    """

    def __init__(
        self,
        index: Callable[[], Index],
        overlay: Overlay,
        exists: Callable[[str], bool],
        is_pinned: Callable[[str], bool],
    ) -> None:
        """`index` returns the one that is used now. `exists` tells whether there is a conversation
        of that id.

        `is_pinned` tells whether there is, and it is known to be pinned: nothing continues it then.
        """
        self._index = index
        self._overlay = overlay
        self._exists = exists
        self._is_pinned = is_pinned

    @classmethod
    def of(cls, space: Space) -> "Routes":
        """Return the routes of a space, which learn what is written to it from now on."""
        exists = partial(has_conversation, space.store)
        routes = cls(lambda: space.index, space.overlay, exists, space.is_pinned)
        routing = frozenset({Began, MetaUpdated, Continued})
        space.subscribe(Appended, routes.learn, of=routing, channel=EMAIL)
        # lines that another process wrote, and that came into the index without an event each
        space.subscribe(CaughtUp, lambda _: space.overlay.prune_facts(space.index))
        return routes

    def learn(self, event: Appended) -> None:
        """Note lines that may route messages, and the Message-IDs that they name. They are put into
        the index.
        """
        name, after = event.conversation_id, event.conversation
        contents = contents_of(event.lines)
        mail = mail_ids_of(contents) if after.channel == EMAIL else ()
        facts: dict[Key, str] = dict.fromkeys(mail, name)
        place = place_of(after.channel, after.party)
        for content in contents:
            if isinstance(content, Continued):
                facts[name] = content.conversation_id
            elif isinstance(content, Began | MetaUpdated) and content.pinned and place.known:
                facts[place] = name
        if facts:
            self._overlay.add_facts(self._index(), facts)

    def pinned(self, place: Place) -> str | None:
        """Return the conversation that messages of a place join.

        Hold the place's lock: nobody else pins one there meanwhile.
        """
        if added := self._overlay.conversations_of(place):
            return added[-1]
        return next(iter(routing_of(self._index()).pinned(place, settled=False)), None)

    def all_pinned(self, place: Place) -> set[str]:
        """Return the conversations that are pinned at a place: one, or two after a crash. Hold the
        place's lock.
        """
        newest = self.pinned(place)
        indexed = routing_of(self._index()).pinned(place, settled=True)
        return {*indexed, *([newest] if newest else [])}

    def threads(self, mails: Iterable[int]) -> set[str]:
        """Return the conversations that e-mails with these ids belong to
        (`people.routing.mail_number`).
        """
        names = list(mails)
        threads = {it for name in names for it in self._overlay.conversations_of(name)}
        threads.update(routing_of(self._index()).mail(names, settled=False))
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
        routing = routing_of(self._index())
        chain = [conversation_id]
        while len(chain) < _MAX_STEPS:
            added = self._overlay.conversations_of(chain[-1])
            following = added[-1] if added else routing.continued(chain[-1], settled=False)
            if following is None or following in chain or not self._exists(following):
                break
            chain.append(following)
        return chain[-1]
