"""Compares the transcripts and the index, line by line and word by word. Changes nothing."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from recollect_server.domain.checkpoint import ThreadBegan, log_of
from recollect_server.domain.conversation import AnchorSet
from recollect_server.domain.errors import IndexUnavailable
from recollect_server.domain.text import counted
from recollect_server.services.recall.embedding_texts import text_of
from recollect_server.services.space.communication_logs import CommunicationLogs
from recollect_server.services.space.comparison import Comparison, see
from recollect_server.services.space.conversation_logs import ConversationLogs, ConversationReading
from recollect_server.services.space.logs import Indexed, Logs, Reading
from recollect_server.services.upkeep.recovery import Progress, no_progress
from recollect_server.storage.index.checking import Contents
from recollect_server.storage.index.file import NAME
from recollect_server.storage.index.index import Index
from recollect_server.storage.logs.anchors import forgotten_keys
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.logs.kinds import Kind
from recollect_server.storage.logs.ledger import forgotten_ledger, ledgers
from recollect_server.storage.logs.lines import Line
from recollect_server.storage.logs.received import forgotten_deliveries
from recollect_server.storage.logs.store import (
    ANCHORS,
    LEDGERS,
    Version,
)
from recollect_server.storage.vectors.checking import outside
from recollect_server.storage.vectors.checking import problems as vector_problems
from recollect_server.storage.vectors.file import NAME as NAME_OF_VECTORS
from recollect_server.storage.vectors.file import VectorsUnavailable
from recollect_server.storage.vectors.store import ABBREVIATION, hash_of


@dataclass(slots=True)
class Verified:
    """Result of a verification: counts, and the problems."""

    conversations: int = 0
    messages: int = 0
    communications: int = 0
    """External communications."""
    threads: int = 0
    """Threads of checkpoints."""
    problems: list[str] = field(default_factory=list)


def verify(logs: FolderStore, progress: Progress) -> Verified:
    """Verify everything. Nobody may have the folder open. Raises LogUnavailable, OSError."""
    done = Verified()
    done.problems += [
        f"{name}: its delete has begun and not ended: the next start ends it"
        for name, _ in logs.logs(Kind.CONVERSATION, Version.DELETED)
    ]
    index = _open(logs, done)
    try:
        _verify(logs, Contents(index) if index else None, index, done, progress)
    except IndexUnavailable as error:
        done.problems.append(f"index: {error}")
    finally:
        if index:
            index.close()
    return done


def _open(logs: FolderStore, done: Verified) -> Index | None:
    if not (logs.root / NAME).exists():
        done.problems.append("index: there is none: the next start makes it")
        return None
    index: Index | None = None
    try:
        index = Index(logs.root)
        problem = index.problem()
        problems = (
            [f"{problem}: the next start makes it anew"] if problem else Contents(index).problems()
        )
        if not problems:
            return index
    except IndexUnavailable as error:
        problems = [f"cannot be used: {error}"]
    done.problems += [f"index: {problem}" for problem in problems]
    if index is not None:
        index.close()
    return None


def _verify(
    store: FolderStore,
    contents: Contents | None,
    index: Index | None,
    done: Verified,
    progress: Progress,
) -> None:
    names = {name for name, _ in store.logs(Kind.CONVERSATION)}
    embedded = _embedded(store, names, done)
    forgotten = forgotten_keys(store)

    def of_conversation(
        name: str, stored: Indexed[Any] | None, reading: Reading[Any]
    ) -> Iterator[str]:
        assert isinstance(reading, ConversationReading)
        if index and stored:
            yield from anchor_differences(index, stored.number, reading, forgotten)
        yield from vector_differences(embedded.get(name, {}), reading)

    done.problems += _anchors(store, names)
    done.conversations, done.messages = _verify_all(
        ConversationLogs(store), contents, index, done, progress, of_conversation
    )
    done.problems += [f"{NAME_OF_VECTORS}: {problem}" for problem in vector_problems(store.root)]
    done.problems += _ledgers(store, contents)
    done.problems += store.strays()
    done.communications, _ = _verify_all(
        CommunicationLogs(store), contents, index, done, no_progress, _nothing_more
    )
    done.threads = _verify_threads(store, done)
    if contents:
        if (more := contents.count() - done.messages) > 0:
            done.problems.append(f"index: it has {counted(more, 'message')} that no transcript has")
        if left := contents.left():
            of_messages = counted(left, "message")
            done.problems.append(f"index: it has words of {of_messages} that no transcript has")


def _verify_threads(store: FolderStore, done: Verified) -> int:
    """Look through the threads' logs, of which the index knows nothing. Return how many there
    are.
    """
    names = sorted(store.logs(Kind.THREAD))
    for name, size in names:
        thread_id: str | None = None
        for line in store.problems(name, size):
            if isinstance(line, str):
                done.problems.append(f"{name}: {line}")
            elif line.entry is not None and isinstance(line.entry.content, ThreadBegan):
                thread_id = line.entry.content.thread_id
        if thread_id is None:
            done.problems.append(f"{name}: no line says which thread it is")
        elif log_of(thread_id) != name:
            done.problems.append(f"{name}: it is of a thread whose log is {log_of(thread_id)}")
    return len(names)


def _verify_all(
    logs: Logs[Any],
    contents: Contents | None,
    index: Index | None,
    done: Verified,
    progress: Progress,
    more: Callable[[str, Indexed[Any] | None, Reading[Any]], Iterator[str]],
) -> tuple[int, int]:
    """Compare all logs of a kind with the index. Return how many logs and messages there are;
    `more` is looked at too.
    """
    assert isinstance(logs.store, FolderStore)
    indexed = set(logs.progress(index)) if index else set()
    names = sorted(logs.store.logs(logs.kind))
    messages = 0
    for number, (name, size) in enumerate(names):
        progress(number, len(names))
        stored = logs.find(index, name) if index else None
        reading = logs.reading(contents, stored.number if stored else None)
        wrong: list[str] = []
        for line in logs.store.problems(name, size):
            if isinstance(line, str):
                wrong.append(line)
            else:
                see(logs, reading, line, name)
        wrong += [*reading.gaps, *reading.problems()]
        wrong += ["no line can be read"] if reading.state is None else []
        messages += reading.messages
        if contents:
            indexed.discard(name)
            wrong += (
                Comparison(logs, contents).differences(name, stored, reading)
                if stored
                else ["is not in the index"]
            )
        wrong += more(name, stored, reading)
        done.problems += [f"{name}: {problem}" for problem in wrong]
    done.problems += [f"{name}: is in the index and has no transcript" for name in sorted(indexed)]
    return len(names), messages


def _nothing_more(
    _name: str, _stored: Indexed[Any] | None, _reading: Reading[Any]
) -> Iterator[str]:
    yield from ()


def _embedded(logs: FolderStore, names: set[str], done: Verified) -> dict[str, dict[int, bytes]]:
    """Return the hashes of the embedded texts by conversation and line."""
    try:
        with outside(logs.root) as vectors:
            return {name: vectors.hashes(name)[0] for name in names} if vectors else {}
    except VectorsUnavailable as error:
        done.problems.append(f"{NAME_OF_VECTORS}: cannot be used: {error}")
        return {}


def vector_differences(embedded: dict[int, bytes], reading: ConversationReading) -> Iterator[str]:
    """Yield vectors of other texts than the transcript has. A missing one is worked out while a
    server runs: no problem.
    """
    texts: dict[int, str] = {}
    if reading.state is None or not reading.state.unindexed:
        texts = {message.sequence: text_of(message) for _, message in reading.messages_read}
        texts[ABBREVIATION] = reading.state.abbreviation if reading.state else ""
    for line, embedded_hash in sorted(embedded.items()):
        if line not in texts or embedded_hash != hash_of(texts[line]):
            yield f"{NAME_OF_VECTORS} has another text than {f'line {line}' if line else 'the abbreviation'}"


def _anchors(logs: FolderStore, names: set[str]) -> Iterator[str]:
    """Yield the anchors of conversations that do not exist. Damage is reported with the other
    ledgers.
    """
    path = logs.path(ANCHORS)
    for line in logs.problems(ANCHORS) if path.exists() else ():
        content = line.entry.content if isinstance(line, Line) and line.entry else None
        if (
            isinstance(line, Line)
            and isinstance(content, AnchorSet)
            and content.conversation_id not in ("", *names)
        ):
            yield f"{path.name}: line {line.sequence} is of {content.conversation_id}, which has no transcript"


def anchor_differences(
    index: Index, number: int, reading: ConversationReading, forgotten: dict[str, int]
) -> Iterator[str]:
    """Yield the anchors that differ between index and transcript, except those forgotten (up to a
    time, by key).
    """
    expected = {
        (line, it.key, it.value, it.confidence, it.sequence, it.time)
        for line, it in reading.anchors
        if it.time > forgotten.get(it.key, -1)
    }
    indexed = {
        (it.line, it.key, it.value, it.confidence, it.source, it.time)
        for it in index.anchors.of(number)
    }
    for line in sorted({anchor[0] for anchor in expected ^ indexed}):
        yield f"line {line}: the index has another anchor than the transcript"


def _ledgers(logs: FolderStore, contents: Contents | None) -> Iterator[str]:
    """Yield the problems of the ledgers, and of the index's copy of them."""
    for name in LEDGERS:
        path = logs.path(name)
        if path.exists():
            yield from (f"{path.name}: {it}" for it in logs.problems(name) if isinstance(it, str))
    for ledger in ledgers(logs):
        yield from (f"{logs.path(ledger.name).name}: {it}" for it in ledger.misplaced())
    forgotten = len(set(forgotten_deliveries(forgotten_ledger(logs))))
    if contents and contents.forgotten_deliveries() != forgotten:
        yield f"index: it knows {contents.forgotten_deliveries()} of {forgotten} forgotten messages"
