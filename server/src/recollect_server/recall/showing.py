"""Snippets of messages: the part that has the words, or that is nearest to the question in
meaning.
"""

import structlog

from recollect_server.kernel.domain.conversation import Conversation, opening_of
from recollect_server.kernel.domain.errors import StorageUnavailable
from recollect_server.kernel.domain.ids import message_id
from recollect_server.kernel.domain.message import Message
from recollect_server.kernel.domain.time import Deadline
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.messages import Place
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.space.turns import read_several
from recollect_server.recall.embedding.texts import text_of
from recollect_server.recall.meaning import Scans
from recollect_server.recall.word_matches import compare, met_words
from recollect_server.text.analysis import tokenizer_of
from recollect_server.text.snippets import CHUNK, LENGTH, PassageFinder, passage_at, plain
from recollect_server.text.words import QueryTerms

log = structlog.get_logger("recollect.recall")


class Showing:
    """Reads what one answer shows, and makes its snippets."""

    def __init__(
        self,
        space: Space,
        index: Index,
        query: QueryTerms,
        scans: Scans | None,
        deadline: Deadline,
    ) -> None:
        terms = query.chosen
        self.unread: set[str] = set()
        """Conversations whose transcripts cannot be read now."""
        self._space = space
        self._index = index
        self._scans = scans
        self._words = next((it for it in (scans.words if scans else ()) if it.is_main), None)
        pieces = self._words.question.words if self._words else ()
        self._rare = [at for at, it in enumerate(pieces) if it in query.rarities]
        self._deadline = deadline
        stems, prefixes = (
            {term.stem for term in terms if term.prefix == prefix} for prefix in (False, True)
        )
        self._passages = PassageFinder(
            stems,
            prefixes,
            tokenizer_of(index),
            deadline,
            query.only_english,
            query.words.only_stops,
        )
        self._messages: dict[tuple[str, int], Message | None] = {}
        self._shown: dict[tuple[str, int], str] = {}
        self._conversations: dict[int, Conversation] = {}

    def prepare(self, places: dict[int, list[Place]]) -> None:
        """Read these conversations and messages, by number: index and logs are asked once for
        all.
        """
        self._conversations |= self._index.conversations.by_number({*places})
        self._read(
            {
                conversation.id: sorted(own)
                for number, own in places.items()
                if own and (conversation := self._conversations.get(number)) is not None
            }
        )

    def conversation(self, number: int) -> Conversation | None:
        """Return the conversation of a number, or None if it was deleted."""
        if number not in self._conversations:
            self._conversations |= self._index.conversations.by_number({number})
        return self._conversations.get(number)

    def message(self, conversation_id: str, place: Place) -> Message | None:
        """Return the message at a place of a transcript. None if its line is damaged, or its
        conversation deleted or `unread`.
        """
        name = (conversation_id, place[0])
        if name not in self._messages:
            self._read({conversation_id: [place]})
        return self._messages[name]

    def _read(self, places: dict[str, list[Place]]) -> None:
        """Read the messages at these places of transcripts, ascending."""
        self._deadline.check()
        for name, own in places.items():
            self._messages |= {(name, place[0]): None for place in own}
        readable = {name: own for name, own in places.items() if name not in self.unread}
        for name, messages in read_several(self._space, readable).items():
            if isinstance(messages, StorageUnavailable):
                log.warning("transcript_passed_over", conversation=name, reason=str(messages))
                self.unread.add(name)
            else:
                self._messages |= {(name, message.sequence): message for message in messages}

    def snippet(self, conversation_id: str, number: int, message: Message) -> str:
        """Return the part of the message with the most of the words; without any, the part that is
        nearest in meaning.
        """
        name = (conversation_id, message.sequence)
        if name not in self._shown:
            met = self._met(conversation_id, message)
            self._shown[name] = self._snippet(
                message_id(number, message.sequence), message.content, met
            )
        return self._shown[name]

    def notes(self, conversation: Conversation) -> str:
        """Return the part of the abbreviation with the most of the words, or the title or the
        topics if only those have any.
        """
        texts = conversation.abbreviation, conversation.title, ", ".join(conversation.topics)
        for text in texts:
            if passage := self._passages.best(text):
                return passage.rendered(text)
        return opening_of(plain(texts[0] or texts[1]))

    def _met(self, conversation_id: str, message: Message) -> list[tuple[int, int]]:
        """Return the words of a message that met those of the question by their meaning."""
        text = text_of(message)
        if self._words is None or not self._rare or not _is_short(message):
            return []
        before = len(text) - len(message.content)
        name = (conversation_id, message.sequence)
        if name not in self._words.cosines:  # of all that was read by now: one query
            short = {it for it, read in self._messages.items() if read and _is_short(read)}
            compare(self._words, sorted(short - self._words.cosines.keys()))
        met = met_words(self._words, self._rare, self._words.cosines[name], text)
        return [(first - before, last - before) for first, last in met if first >= before]

    def _snippet(self, identity: int, content: str, met: list[tuple[int, int]]) -> str:
        if passage := self._passages.best(content, met):
            return passage.rendered(content)
        if self._scans is None or len(content) <= LENGTH:
            return opening_of(plain(content))
        # The model is asked once for each search: the vectors that are kept say which piece of a
        # long message is nearest.
        piece, count = self._scans.messages.best_piece(identity)
        return passage_at(content, len(content) * piece // count)


def _is_short(message: Message) -> bool:
    """Return whether what is embedded of a message is short enough for marks by meaning."""
    return len(text_of(message)) <= CHUNK
