"""What is shown of a message that was found: the part that has the words, or that means most of what was asked."""

import structlog

from recollect_server.domain.conversation import Conversation, opening_of
from recollect_server.domain.errors import StorageUnavailable
from recollect_server.domain.message import Message
from recollect_server.domain.snippets import LENGTH, has_match, plain, snippet
from recollect_server.domain.text import composed, sentences
from recollect_server.inference.embedder import CannotEmbed
from recollect_server.services.recall.meaning import Scans
from recollect_server.services.space.space import Space
from recollect_server.services.working_context import read_found
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.turns import Place
from recollect_server.storage.index.words import Term

log = structlog.get_logger("recollect.recall")

_SPENT = 320  # word pieces that one answer may embed to find sentences: some 0.1 s of one processor


class Showing:
    """Reads what one answer shows, and makes its snippets."""

    def __init__(self, space: Space, index: Index, terms: list[Term], scans: Scans | None) -> None:
        self.terms = terms
        self.unread: set[str] = set()
        """Conversations whose transcripts cannot be read now."""
        self._space = space
        self._index = index
        self._scans = scans
        self._stems = {term.stem for term in terms if not term.prefix}
        self._prefixes = {term.stem for term in terms if term.prefix}
        self._left = _SPENT
        self._messages: dict[tuple[str, int], Message | None] = {}
        self._shown: dict[tuple[str, int], str] = {}
        self._conversations: dict[int, Conversation] = {}

    def conversation(self, number: int) -> Conversation | None:
        """The conversation of a number; None of one that is gone."""
        if number not in self._conversations:
            self._conversations |= self._index.by_number({number})
        return self._conversations.get(number)

    def message(self, conversation_id: str, place: Place) -> Message | None:
        """The message at a place of a transcript; None if its line is damaged, or its conversation gone or among the `unread`."""
        name = (conversation_id, place[0])
        if name not in self._messages:  # most are shown twice: alone, and for their conversation
            self._messages[name] = self._message(conversation_id, place)
        return self._messages[name]

    def _message(self, conversation_id: str, place: Place) -> Message | None:
        if conversation_id in self.unread:
            return None
        try:
            found = read_found(self._space, conversation_id, [place])
        except StorageUnavailable as error:
            log.warning("transcript_passed_over", conversation=conversation_id, reason=str(error))
            self.unread.add(conversation_id)
            return None
        return found[0] if found else None

    def snippet(self, conversation_id: str, message: Message) -> str:
        """The part of the message with the most of the words; without any, the sentence that is nearest in meaning.

        Sentences of long messages are looked for as far as `_SPENT` goes, the best answers first; then it is the beginning.
        """
        name = (conversation_id, message.sequence)
        if name not in self._shown:
            self._shown[name] = self._snippet(message)
        return self._shown[name]

    def _snippet(self, message: Message) -> str:
        content = composed(message.content)
        tokens = self._index.tokens(content)
        if self._scans and len(content) > LENGTH and not has_match(content, tokens, self._stems, self._prefixes):
            return self._nearest(self._scans, content)
        return snippet(content, tokens, self._stems, self._prefixes)

    def _nearest(self, scans: Scans, content: str) -> str:
        if len(content.split()) > self._left:  # as many word pieces at the least
            return opening_of(plain(content))
        told = [" ".join(sentence.split()) for sentence in sentences(content)]
        if len(told) < 2:
            return opening_of(plain(content))
        pieces = [scans.embedder.cut(sentence)[0] for sentence in told]
        cost = sum(map(len, pieces))
        if cost > self._left:
            return opening_of(plain(content))
        self._left -= cost
        try:
            near = scans.embedder.embed_pieces(pieces) @ scans.question
        except CannotEmbed:
            return opening_of(plain(content))
        best = int(near.argmax())
        shown = opening_of(plain(told[best]))
        return f"{'…' if best else ''}{shown}{'…' if best < len(told) - 1 and not shown.endswith('…') else ''}"
