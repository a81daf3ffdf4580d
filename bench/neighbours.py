"""Cost of the work of one space for the calls of another: an append and a search in a small space,
alone and beside a space that floods, is stuck, is read anew, is embedded, takes notes or is backed
up.

`python -m bench.neighbours [--messages 20000] [--seconds 10] [--beside flood stuck ...] [--words]`

The small space is called 20 and 10 times a second, by one caller each, who waits for an answer. All
spaces are of one server, and the small one is called alone right before each.
"""

import argparse
import os
import random
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import cycle
from multiprocessing.connection import Connection
from pathlib import Path

import grpc
from recollect import Client, Message
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import message_pb2, recall_service_pb2
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub
from recollect.v1.recall_service_pb2_grpc import RecallServiceStub
from recollect_server.kernel.index import checking as index
from recollect_server.kernel.index.file import NAME
from recollect_server.recall.vectors import checking as vectors

from bench.append import text
from bench.calls import alongside, answer_of
from bench.corpus import Corpus, write_transcripts
from bench.figures import Figure, Goal
from bench.servers import recollect
from bench.spaces import fill, naming

_APPENDS, _SEARCHES = 20, 10  # a second
_FLOODERS, _FLOOD_BATCH = 4, 800
_MOST = 50.0  # ms that another's work may cost a call
CALM, OLD, LOUD, STUCK = "calm", "old", "loud", "stuck"


@dataclass(frozen=True, slots=True)
class CallTimes:
    """Milliseconds that calls took, sorted. A call that failed took for ever."""

    appends: list[float]
    searches: list[float]

    def shares(self, name: str) -> tuple[float, float, float]:
        """Return of the calls of a name the median, the 99th percentile, and the longest."""
        times: list[float] = getattr(self, name)
        return times[len(times) // 2], times[int(0.99 * len(times))], times[-1]


def call_calmly(target: str, conversation: str, seconds: float) -> CallTimes:
    """Append to the small space and search it for so many seconds, in a process of its own."""
    answer = answer_of(_call, target, conversation, seconds)
    assert isinstance(answer, CallTimes)
    return answer


def _call(answer: Connection, target: str, conversation: str, seconds: float) -> None:
    randomness = random.Random(time.time())
    with grpc.insecure_channel(target) as channel:
        conversations, recall = ConversationServiceStub(channel), RecallServiceStub(channel)
        grpc.channel_ready_future(channel).result(60)

        def append() -> None:
            message = message_pb2.Message(role=message_pb2.ROLE_USER, content=text(randomness, 200))
            request = api.AppendTurnRequest(conversation_id=conversation, messages=[message])
            conversations.AppendTurn(request, metadata=naming(CALM), timeout=60)

        def search() -> None:
            request = recall_service_pb2.SearchRequest(query=text(randomness, 40), limit=10)
            recall.Search(request, metadata=naming(CALM), timeout=60)

        with ThreadPoolExecutor(2) as pool:
            appends = pool.submit(_in_turn, append, _APPENDS, seconds)
            searches = pool.submit(_in_turn, search, _SEARCHES, seconds)
            answer.send(CallTimes(appends.result(), searches.result()))


def _in_turn(call: Callable[[], None], rate: int, seconds: float) -> list[float]:
    first, times = time.perf_counter(), []
    while (began := time.perf_counter()) - first < seconds:
        try:
            call()
            times.append(1000 * (time.perf_counter() - began))
        except grpc.RpcError:
            times.append(float("inf"))
        time.sleep(max(0.0, began + 1 / rate - time.perf_counter()))  # the pace
    return sorted(times)


@contextmanager
def again_and_again(work: Callable[[], object], callers: int = 1) -> Iterator[None]:
    """Do something in turn for as long as the block runs, by so many callers."""
    is_over = threading.Event()

    def run() -> None:
        while not is_over.is_set():
            with suppress(grpc.RpcError):  # the stuck one's calls end so
                work()

    threads = [threading.Thread(target=run) for _ in range(callers)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def _new_words(randomness: random.Random) -> str:
    return " ".join(f"{randomness.getrandbits(48):x}" for _ in range(30))


def _flood(ends: Connection, target: str, space: str, batch: int, callers: int) -> None:
    with grpc.insecure_channel(target) as channel:
        stub = ConversationServiceStub(channel)
        randomness = random.Random(os.getpid())
        conversation = stub.Create(api.CreateRequest(channel="web"), metadata=naming(space))

        def append() -> None:
            messages = [message_pb2.Message(role=message_pb2.ROLE_USER, content=_new_words(randomness))
                        for _ in range(batch)]  # fmt: skip
            request = api.AppendTurnRequest(
                conversation_id=conversation.conversation.id, messages=messages
            )
            stub.AppendTurn(request, metadata=naming(space), timeout=10)

        append()
        with again_and_again(append, callers):
            ends.send(None)
            ends.recv()


def flooded(
    target: str, space: str, batch: int, callers: int
) -> AbstractContextManager[Connection]:
    """Append batches of messages with new words to a space, by a process of its own."""
    return alongside(_flood, target, space, batch, callers)


class Beside:
    """The other spaces of a server, and what can be done to them. Each method is a context: it goes
    on for as long as the block runs.
    """

    def __init__(
        self, target: str, data: Path, conversations: Sequence[str], *, words: bool
    ) -> None:
        """`conversations` are those of the old space, whose index nobody has made yet."""
        self._target, self._data, self._conversations = target, data, conversations
        self.names = [it for it in ("flood", "stuck", "anew", "embedded", "notes", "backup")
                      if not (words and it == "embedded")]  # fmt: skip

    @contextmanager
    def flood(self) -> Iterator[None]:
        """Let it take in batches of 800 messages, four at once."""
        with flooded(self._target, LOUD, _FLOOD_BATCH, _FLOODERS):
            yield

    @contextmanager
    def stuck(self) -> Iterator[None]:
        """Lock its index by another process, while it is appended to and searched."""
        with Client(self._target, space=STUCK) as client:
            client.conversations.create("web", messages=[Message.user("The roof leaks.")])
        file = self._data / STUCK / "conversations" / NAME
        with (
            sqlite3.connect(file, isolation_level=None) as lock,
            grpc.insecure_channel(self._target) as channel,
        ):
            recall = RecallServiceStub(channel)
            lock.execute("BEGIN EXCLUSIVE")
            request = recall_service_pb2.SearchRequest(query="roof")
            with (
                flooded(self._target, STUCK, 1, 4),
                again_and_again(
                    lambda: recall.Search(request, metadata=naming(STUCK), timeout=10), 4
                ),
            ):
                yield
            lock.execute("ROLLBACK")

    @contextmanager
    def anew(self) -> Iterator[None]:
        """Make its first call: its logs are read, and its index is made."""
        with Client(self._target, space=OLD) as client, ThreadPoolExecutor(1) as pool:
            first = pool.submit(client.recall.search, "which did we choose?")
            yield
            with suppress(Exception):
                first.result()

    @contextmanager
    def embedded(self) -> Iterator[None]:
        """Let its texts be embedded, as they are once its index is whole."""
        folder = self._data / OLD / "conversations"
        with Client(self._target, space=OLD) as client:
            client.recall.search("which did we choose?")  # opens it, if nothing did
        while len(index.state_of(folder).lines) < len(self._conversations):
            time.sleep(0.2)  # between two looks
        yield
        if vectors.state_of(folder).lines == index.state_of(folder).lines:
            raise SystemExit("all was embedded before the calls were over: take more messages")

    @contextmanager
    def notes(self) -> Iterator[None]:
        """Take notes of its conversations, one after the other."""
        chosen = cycle(self._conversations)
        with (
            Client(self._target, space=OLD) as client,
            again_and_again(lambda: client.conversations.regenerate_notes(next(chosen))),
        ):
            yield

    @contextmanager
    def backup(self) -> Iterator[None]:
        """Back up all spaces, again and again."""
        with (
            Client(self._target) as client,
            again_and_again(lambda: client.admin.backup(timeout=600)),
        ):
            yield


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=20_000, help="of the old space")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--beside", nargs="*", default=())
    parser.add_argument("--words", action="store_true", help="nothing is embedded")
    chosen = parser.parse_args(arguments)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        data = Path(folder) / "data"
        conversations = write_transcripts(data, Corpus(chosen.messages))
        (data / "default").rename(data / OLD)
        flags = ["--backup-dir", str(Path(folder) / "backups"), "--abbreviator", "extractive"]
        flags += ["--idle-timeout", "36500d", "--embedder", "off" if chosen.words else "onnx"]
        target, _ = stack.enter_context(recollect(data, *flags))
        with grpc.insecure_channel(target) as channel:
            calm = fill(ConversationServiceStub(channel), CALM, 200)
        others = Beside(target, data, conversations, words=chosen.words)
        call_calmly(target, calm, 2)
        for name in others.names:
            if chosen.beside and name not in chosen.beside:
                continue
            alone = call_calmly(target, calm, chosen.seconds)
            with getattr(others, name)():
                times = call_calmly(target, calm, chosen.seconds)
            for what in ("appends", "searches"):
                usual, before, _ = alone.shares(what)
                median, p99, longest = times.shares(what)
                print(
                    f"{what} beside {name}: p50 {median:.1f} ms, p99 {p99:.1f}, longest {longest:.0f};"
                    f" alone p50 {usual:.1f}, p99 {before:.1f}",
                    flush=True,
                )
                goal = Goal(_MOST) if chosen.messages >= 20_000 else None
                figures.append(
                    Figure(f"{what} p99", p99, "ms", before, "alone", p99 / before, goal, part=name)
                )
    return figures


if __name__ == "__main__":
    main()
