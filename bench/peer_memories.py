"""Memories that `bench.peers` measures: libraries in processes of their own, Recollect's server."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import orjson
from recollect import Client, Message, TurnRange
from recollect.imports.plans import Plan
from recollect_server.recall.model.weights import shipped

from bench.peer_environments import (
    RECOLLECT,
    RECOLLECT_WORDS,
    ROOT,
    Failed,
    Peer,
    environment,
    last_line,
)
from bench.recall import DEPTHS, whole
from bench.servers import embedded, processor_seconds, recollect, resident_bytes

_DRIVERS = Path(__file__).with_name("peer_drivers.py")
_LIMIT = max(DEPTHS)
_PATIENCE = 900.0
"""Seconds that a request may take."""


@dataclass(frozen=True, slots=True)
class Item:
    """A message of a history."""

    id: str
    conversation: str
    plan: Plan
    message: Message
    time: datetime

    def line(self) -> dict[str, str]:
        """Return the message as a driver takes it: speaker and date are in the text.

        Of five forms of the text, this is the one in which words, vectors, and plain FTS5 found
        most on the first dialogue of LoCoMo; without speaker and date they found least.
        """
        speaker = self.message.sender or self.message.role
        return {
            "id": self.id,
            "conversation": self.conversation,
            "role": self.message.role,
            "speaker": speaker,
            "time": self.time.isoformat(),
            "text": f"{speaker} ({self.time.day} {self.time:%B %Y}): {self.message.content}",
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a question: ids, best first, and seconds."""

    ids: list[str]
    time: float
    embedding: float


class Memory(Protocol):
    """A memory under test."""

    def store(self, items: Sequence[Item]) -> tuple[list[float], float]:
        """Store messages, each by a call. Return the seconds of each, and those of them all that
        were spent embedding.
        """

    def settle(self) -> None:
        """Wait until everything stored can be found by all retrievers."""

    def search(self, query: str) -> Answer:
        """Return the first ten."""

    def save(self) -> None:
        """Write what is in memory, where that is left to the user."""

    def stop(self, *, kill: bool = False) -> None:
        """End its process: in order, or by SIGKILL."""

    def start(self) -> None:
        """Start a process over its files."""

    def held(self, items: Sequence[Item]) -> int:
        """Return how many of the messages can be read."""

    def memory(self) -> int:
        """Return the resident bytes of its process."""

    def processor(self) -> float:
        """Return the seconds of processor that its process has used."""


class Driven:
    """A library, in a process of its own."""

    def __init__(
        self, peer: Peer, python: Path | str, folder: Path, vectors: Path | None, closing: ExitStack
    ) -> None:
        self._log = folder.with_suffix(".log")
        # The driver of a baseline imports the baseline; that of a library must not see this tree.
        own = not peer.packages and peer.driver.startswith("plain")
        program = ["-m", "bench.peer_drivers"] if own else ["-P", str(_DRIVERS)]
        self._command = [str(python), *program, peer.driver, str(folder), str(shipped())]
        self._loads = peer.embeds and vectors is None
        if vectors is not None:
            self._command.append(str(vectors))
        closing.callback(self.stop, kill=True)  # it may end before it answers
        self.start()

    def start(self) -> None:
        """Start the driver."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env=environment,
            )
        self._answer()
        if self._loads:
            self._ask("load")

    def stop(self, *, kill: bool = False) -> None:
        """End the driver: it ends with its standard input."""
        if kill:
            self._process.kill()
        self._process.communicate(timeout=_PATIENCE)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _PATIENCE)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            raise Failed(last_line(self._log.read_text()) if ready else "no answer in time")
        answer: dict[str, Any] = orjson.loads(line)
        return answer

    def _ask(self, what: str, **more: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(orjson.dumps({"do": what} | more).decode() + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed(last_line(self._log.read_text())) from None
        return self._answer()

    def store(self, items: Sequence[Item]) -> tuple[list[float], float]:
        """Have the library store them."""
        answer = self._ask("store", messages=[it.line() for it in items])
        return answer["times"], answer["embedding"]

    def settle(self) -> None:
        """Wait for nothing: what a library stored it has embedded."""

    def search(self, query: str) -> Answer:
        """Have the library search."""
        answer = self._ask("search", query=query, limit=_LIMIT)
        return Answer(answer["ids"], answer["time"], answer["embedding"])

    def save(self) -> None:
        """Have the driver save."""
        self._ask("save")

    def held(self, items: Sequence[Item]) -> int:
        """Have the library read each."""
        count: int = self._ask("holds", messages=[it.line() for it in items])["count"]
        return count

    def memory(self) -> int:
        """Return the resident bytes of the driver."""
        return resident_bytes(self._process)

    def processor(self) -> float:
        """Return the processor's time of the driver."""
        return processor_seconds(self._process)


class Service:
    """Recollect, called over gRPC."""

    def __init__(self, folder: Path, closing: ExitStack, *, words: bool) -> None:
        self._data, self._words = folder / "data", words
        self._running = closing.enter_context(ExitStack())
        self._ids: dict[str, str] = {}
        self._names: dict[tuple[str, int], str] = {}
        self.start()

    def start(self) -> None:
        """Start the server."""
        flags = ("--embedder", "off" if self._words else "onnx")
        target, self._process = self._running.enter_context(recollect(self._data, *flags))
        self._client = self._running.enter_context(Client(target))

    def store(self, items: Sequence[Item]) -> tuple[list[float], float]:
        """Append each message."""
        times = []
        for item in items:
            began = time.perf_counter()
            if item.conversation not in self._ids:
                beginning = item.plan.beginning
                self._ids[item.conversation] = self._client.conversations.create(
                    beginning.channel,
                    participants=beginning.participants,
                    create_time=beginning.create_time,
                ).id
            there = self._ids[item.conversation]
            [stored] = self._client.conversations.append_turn(there, [item.message]).messages
            times.append(time.perf_counter() - began)
            self._names[there, stored.sequence] = item.id
        return times, 0.0

    def settle(self) -> None:
        """Wait for the vectors."""
        if not self._words:
            embedded(self._data)

    def search(self, query: str) -> Answer:
        """Search."""
        took = 0.0

        def ask() -> Any:
            nonlocal took
            began = time.perf_counter()
            answer = self._client.recall.search(query, limit=_LIMIT)
            took = time.perf_counter() - began
            return answer

        hits = whole(ask).hits
        return Answer([self._names[it.conversation_id, it.sequence] for it in hits], took, 0.0)

    def save(self) -> None:
        """Do nothing: what is acknowledged is on the disk."""

    def stop(self, *, kill: bool = False) -> None:
        """End the server."""
        if kill:
            self._process.kill()
            self._process.wait()
        self._running.close()

    def held(self, items: Sequence[Item]) -> int:
        """Fetch the conversations."""
        contents = set()
        for name in {it.conversation for it in items}:
            there = self._ids[name]
            turns = TurnRange(1, max(1, self._client.conversations.get(there).turn_count))
            every = self._client.recall.fetch_context(there, turns).messages
            contents |= {(name, it.content) for it in every}
        return sum((it.conversation, it.message.content) in contents for it in items)

    def memory(self) -> int:
        """Return the resident bytes of the server."""
        return resident_bytes(self._process)

    def processor(self) -> float:
        """Return the processor's time of the server; that of its client is not in it."""
        return processor_seconds(self._process)


@contextmanager
def opened(
    peer: Peer, folder: Path, environments: Path, vectors: Path | None, *, here: bool
) -> Iterator[Memory]:
    """Open a memory over an empty folder."""
    with ExitStack() as closing:
        if peer in (RECOLLECT, RECOLLECT_WORDS):
            yield Service(folder, closing, words=peer is RECOLLECT_WORDS)
        else:
            own = bool(peer.packages) and not here
            python = environment(peer, environments) if own else sys.executable
            yield Driven(peer, python, folder, vectors, closing)
