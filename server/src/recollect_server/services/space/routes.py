"""Routes of messages that come in over channels: what the index knows of them, behind the overlay.

A message that comes in must be routed at once, and an index that is asked waits until it has taken
in everything that was added before. So it is asked for what it has, without waiting, and the
overlay, which is asked before it, has what was added since.
"""

from collections.abc import Callable, Iterable

from recollect_server.domain.conversation import Continued, Conversation
from recollect_server.domain.routing import Place, place_of
from recollect_server.services.space.projection import Key, Projection
from recollect_server.storage.index.index import Index

_MAX_STEPS = 1000  # from one conversation to the one that continues it


class Routes:
    """The routes of a space. Safe to call from any thread; what reads them raises
    DataUnavailable.
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

    def pinned(self, place: Place) -> str | None:
        """Return the conversation that messages of a place join.

        Hold the place's lock: nobody else pins one there meanwhile.
        """
        if added := self._overlay.conversations_of(place):
            return added[-1]
        return next(iter(self._projection.index.routing.pinned(place, settled=False)), None)

    def threads(self, mails: Iterable[int]) -> set[str]:
        """Return the conversations that e-mails with these ids belong to
        (`domain.routing.mail_number`).
        """
        names = list(mails)
        threads = {it for name in names for it in self._overlay.conversations_of(name)}
        threads.update(self._projection.index.routing.mail(names, settled=False))
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
