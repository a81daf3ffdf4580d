"""Compares the transcripts and the index, line by line and word by word. Changes nothing."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from recollect_server.domain.conversation import AnchorSet
from recollect_server.domain.errors import IndexUnavailable
from recollect_server.domain.message import Message
from recollect_server.services.external.checking import check as check_external
from recollect_server.services.recall.embedding import text_of
from recollect_server.services.space.comparing import Read, differences
from recollect_server.services.upkeep.recovery import Progress
from recollect_server.storage.index.checking import Contents
from recollect_server.storage.index.conversations import Stored
from recollect_server.storage.index.file import NAME
from recollect_server.storage.index.index import Index
from recollect_server.storage.logs.anchors import forgotten_keys
from recollect_server.storage.logs.files import TranscriptFolder
from recollect_server.storage.logs.ledger import ANCHORS, FORGOTTEN, LEDGERS, Ledger
from recollect_server.storage.logs.reader import Line
from recollect_server.storage.logs.received import forgotten_deliveries
from recollect_server.storage.logs.soundness import look_through
from recollect_server.storage.vectors.checking import hashes
from recollect_server.storage.vectors.checking import problems as vector_problems
from recollect_server.storage.vectors.file import NAME as NAME_OF_VECTORS
from recollect_server.storage.vectors.file import VectorsUnavailable
from recollect_server.storage.vectors.store import ABBREVIATION, hash_of


@dataclass(slots=True)
class Verified:
    """What was looked at, and what is wrong."""

    conversations: int = 0
    messages: int = 0
    communications: int = 0
    """External communications."""
    problems: list[str] = field(default_factory=list)


def verify(folder: TranscriptFolder, progress: Progress) -> Verified:
    """Looks at everything. Nobody may have the folder open. Raises OSError."""
    done = Verified()
    done.problems += [f"{name}: its delete has begun and not ended: the next start ends it" for name in folder.deleting()]
    index = _open(folder, done)
    try:
        _verify(folder, Contents(index) if index else None, index, done, progress)
    except IndexUnavailable as error:
        done.problems.append(f"index: {error}")
    finally:
        if index:
            index.close()
    return done


def _open(folder: TranscriptFolder, done: Verified) -> Index | None:
    if not (folder.root / NAME).exists():
        done.problems.append("index: there is none: the next start makes it")
        return None
    try:
        index = Index(folder.root)
    except IndexUnavailable as error:
        done.problems.append(f"index: cannot be used: {error}")
        return None
    try:
        found = [problem] if (problem := index.problem()) else Contents(index).problems()
    except IndexUnavailable as error:
        found = [str(error)]
    if not found:
        return index
    done.problems += [f"index: {problem}" for problem in found]
    index.close()
    return None


def _verify(folder: TranscriptFolder, contents: Contents | None, index: Index | None, done: Verified, progress: Progress) -> None:
    known = set(index.conversations.progress()) if index else set()
    embedded = _embedded(folder, done)
    names = sorted(folder.sizes())
    done.problems += _anchors(folder, {name for name, _ in names})
    gone = forgotten_keys(folder)
    for number, (name, size) in enumerate(names):
        progress(number, len(names))
        done.conversations += 1
        read = Read()
        wrong = [*_transcript(folder, name, size, read)]
        done.messages += len(read.messages)
        if index and contents:
            known.discard(name)
            stored = index.conversations.find(name)
            wrong += ["is not in the index"] if stored is None else differences(folder, contents, stored, read)
            wrong += _indexed_anchors(index, stored, read, gone) if stored else []
        wrong += _vectors(embedded.get(name, {}), read)
        done.problems += [f"{name}: {problem}" for problem in wrong]
    done.problems += [f"{name}: is in the index and has no transcript" for name in sorted(known)]
    done.problems += [f"{NAME_OF_VECTORS}: {problem}" for problem in vector_problems(folder.root)]
    done.problems += _ledgers(folder, contents)
    external = check_external(folder.external, index)
    done.communications = external.communications
    done.problems += external.problems
    if contents:
        if (more := contents.count() - done.messages) > 0:
            done.problems.append(f"index: {more} messages are indexed and in no transcript")
        if left := contents.left():
            done.problems.append(f"index: it has words of {left} messages that are in no transcript")


def _embedded(folder: TranscriptFolder, done: Verified) -> dict[str, dict[int, bytes]]:
    try:
        return hashes(folder.root)
    except VectorsUnavailable as error:
        done.problems.append(f"{NAME_OF_VECTORS}: cannot be used: {error}")
        return {}


def _vectors(embedded: dict[int, bytes], read: Read) -> Iterator[str]:
    """Vectors of other texts than the transcript has. One that is missing is worked out while a server runs: no problem."""
    texts = {message.sequence: text_of(message) for message, _, _ in read.messages}
    texts[ABBREVIATION] = read.conversation.abbreviation if read.conversation else ""
    for line, found in sorted(embedded.items()):
        if line not in texts or found != hash_of(texts[line]):
            yield f"{NAME_OF_VECTORS} has another text than {f'line {line}' if line else 'the abbreviation'}"


def _transcript(folder: TranscriptFolder, name: str, size: int, read: Read) -> Iterator[str]:
    """Reads a transcript, and says what is wrong with it by itself."""
    turn = 0
    for line in look_through(folder.path(name), size):
        if isinstance(line, str):
            yield line
            continue
        read.add(line, name)
        if line.entry is not None and isinstance(content := line.entry.content, Message):
            if not 1 <= content.turn_number <= turn + 1:  # a late message is of an earlier turn
                yield f"line {line.sequence} is of turn {content.turn_number} and follows turn {turn}"
            turn = max(turn, content.turn_number)
    if read.conversation is None:
        yield "no line can be read"


def _anchors(folder: TranscriptFolder, names: set[str]) -> Iterator[str]:
    """Anchors of conversations that are not there. Damage is looked for with the other ledgers."""
    path = folder.ledger_path(ANCHORS)
    for line in look_through(path, path.stat().st_size) if path.exists() else ():
        content = line.entry.content if isinstance(line, Line) and line.entry else None
        if isinstance(line, Line) and isinstance(content, AnchorSet) and content.conversation_id not in ("", *names):
            yield f"{path.name}: line {line.sequence} is of {content.conversation_id}, which has no transcript"


def _indexed_anchors(index: Index, stored: Stored, read: Read, gone: dict[str, int]) -> Iterator[str]:
    """The anchors that the index has otherwise than the transcript, but for those that were forgotten (up to a time, by key)."""
    expected = {
        (line, it.key, it.value, it.confidence, it.sequence, it.time) for line, it in read.anchors if it.time > gone.get(it.key, -1)
    }
    found = {(it.line, it.key, it.value, it.confidence, it.source, it.time) for it in index.anchors.of(stored.number)}
    for line in sorted({anchor[0] for anchor in expected ^ found}):
        yield f"line {line}: the index has another anchor than the transcript"


def _ledgers(folder: TranscriptFolder, contents: Contents | None) -> Iterator[str]:
    """What is wrong with the ledgers, or with what the index has of them."""
    for name in LEDGERS:
        path = folder.ledger_path(name)
        if path.exists():
            yield from (f"{path.name}: {it}" for it in look_through(path, path.stat().st_size) if isinstance(it, str))
    known = len(set(forgotten_deliveries(Ledger(folder, FORGOTTEN))))
    if contents and contents.forgotten_deliveries() != known:
        yield f"index: it knows {contents.forgotten_deliveries()} of {known} forgotten messages"
