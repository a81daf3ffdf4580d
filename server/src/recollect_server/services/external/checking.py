"""Compares the transcripts of third parties with the index. Changes nothing."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import partial

from recollect_server.domain.external import (
    Communication,
    Escalation,
    EscalationOpened,
    EscalationResolved,
    ExternalMessage,
)
from recollect_server.services.external.catching_up import folded
from recollect_server.storage.index.external_checking import ExternalContents
from recollect_server.storage.index.index import Index
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.logs.store import Kind


@dataclass(slots=True)
class Checked:
    """What was looked at, and what is wrong."""

    communications: int = 0
    messages: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Read:
    """A transcript that was read to its end."""

    communication: Communication | None = None
    size: int = 0
    lines: int = 0
    places: list[tuple[int, int, int]] = field(default_factory=list)
    wordless: list[int] = field(default_factory=list)
    """Lines whose words the index has otherwise."""
    deliveries: dict[str, int] = field(default_factory=dict)
    escalations: dict[str, Escalation] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)


def check(logs: FolderStore, index: Index | None) -> Checked:
    """Looks at every one. Raises LogUnavailable, IndexUnavailable."""
    done = Checked()
    contents = ExternalContents(index) if index else None
    known = set(index.external_progress()) if index else set()
    for name, size in sorted(logs.logs(Kind.COMMUNICATION)):
        read = _Read()
        stored = index.communication(name) if index else None
        words = partial(_has_words, contents, stored.number) if contents and stored else _unasked
        wrong = list(_transcript(logs, name, size, read, words))
        done.communications += 1
        done.messages += len(read.places)
        if index and contents:
            known.discard(name)
            wrong += _indexed(index, contents, name, read)
        done.problems += [f"{name}: {problem}" for problem in wrong]
    done.problems += [f"{name}: is in the index and has no transcript" for name in sorted(known)]
    return done


def index_problems(logs: FolderStore, index: Index) -> list[str]:
    """Return what the index has otherwise than the transcripts. Raises LogUnavailable, IndexUnavailable."""
    contents = ExternalContents(index)
    problems: list[str] = []
    for name, size in sorted(logs.logs(Kind.COMMUNICATION)):
        read = _Read()
        stored = index.communication(name)
        words = partial(_has_words, contents, stored.number) if stored else _unasked
        for _ in _transcript(logs, name, size, read, words):
            pass
        if read.communication is not None:
            problems += [f"{name}: {problem}" for problem in _indexed(index, contents, name, read)]
    return problems


def _has_words(contents: ExternalContents, number: int, message: ExternalMessage) -> bool:
    return contents.words(number, message.sequence) == contents.words_of(message)


def _unasked(_: ExternalMessage) -> bool:
    return True


def _transcript(
    logs: FolderStore, name: str, size: int, read: _Read, has_words: Callable[[ExternalMessage], bool]
) -> Iterator[str]:
    for line in logs.problems(name, size):
        if isinstance(line, str):
            yield line
            continue
        read.lines, read.size = line.sequence, line.end
        read.communication = folded(read.communication, line, name)
        if line.entry is None:
            continue
        if line.entry.stamp.request_id:
            read.requests.setdefault(line.entry.stamp.request_id, line.entry.stamp.request_hash)
        match line.entry.content:
            case ExternalMessage() as message:
                read.places.append((line.sequence, line.offset, line.length))
                if not has_words(message):
                    read.wordless.append(line.sequence)
                if message.provider_message_id in read.deliveries:
                    yield f"line {line.sequence} was delivered before, as line {read.deliveries[message.provider_message_id]}"
                elif message.provider_message_id:
                    read.deliveries[message.provider_message_id] = line.sequence
            case EscalationOpened() as it:
                read.escalations[it.id] = Escalation(it.id, name, it.sequence, it.question, it.time)
            case EscalationResolved() as it if asked := read.escalations.get(it.id):
                read.escalations[it.id] = Escalation(
                    asked.id, name, asked.sequence, asked.question, asked.create_time, it.answer, it.time
                )
            case _:
                pass
    if read.communication is None:
        yield "no line can be read"


def _indexed(index: Index, contents: ExternalContents, name: str, read: _Read) -> Iterator[str]:
    """What the index has otherwise than the transcript says."""
    stored = index.communication(name)
    if stored is None:
        yield "is not in the index"
        return
    if (stored.bytes, stored.lines) != (read.size, read.lines):
        yield f"{stored.bytes} bytes and {stored.lines} lines are indexed of {read.size} bytes and {read.lines} lines"
    for part in fields(Communication):
        if read.communication and getattr(stored.communication, part.name) != getattr(read.communication, part.name):
            yield f"the index has another {part.name} than the transcript"
    if contents.places(stored.number) != read.places:
        yield "its messages stand in the index otherwise"
    if read.wordless:
        yield f"the index has other words than the transcript, as of line {read.wordless[0]}"
    if contents.deliveries(stored.number) != read.deliveries:
        yield "the index has other deliveries than the transcript"
    if contents.escalations(stored.number) != read.escalations:
        yield "the index has other escalations than the transcript"
    requests = contents.requests(name)
    if lost := [request for request, value in read.requests.items() if requests.get(request) != value]:
        yield f"the index does not know {len(lost)} of its requests, as {lost[0]}"
