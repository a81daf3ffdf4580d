"""Receive against AppendTurn in the same run, and how long it takes to find a message's
conversation among very many.

`python -m bench.receive [--rounds 3] [--calls 3000] [--contacts 100000] [--threads 100000] [--mails
1000000]`
"""

import argparse
import itertools
import os
import random
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import apsw
import grpc
from recollect.v1 import channel_service_pb2 as api
from recollect.v1.channel_pb2 import EmailOrigin
from recollect.v1.channel_service_pb2_grpc import ChannelServiceStub
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.space.projection import Overlay
from recollect_server.people.routing import Place, mail_number
from recollect_server.people.routing_table import Routes
from recollect_server.run.features import FEATURES
from ulid import ULID

from bench.append import APPEND, requests, text
from bench.calls import Measured, measure
from bench.figures import Figure, Goal
from bench.servers import recollect

RECEIVE = "/recollect.v1.ChannelService/Receive"


def deliveries(target: str, channel: str, callers: int, calls: int, run: int) -> list[list[bytes]]:
    """Return for every caller the messages of a contact of its own, who is an owner. On e-mail each
    answers the one before.
    """
    randomness = random.Random(1)
    made = []
    with grpc.insecure_channel(target) as connection:
        stub = ChannelServiceStub(connection)
        for caller in range(callers):
            sender = (
                f"{run}-{caller}@example.org" if channel == "email" else f"49{run:03}{caller:04}"
            )
            stub.AddOwnerIdentity(api.AddOwnerIdentityRequest(channel=channel, identity=sender))
            own = []
            for number in range(calls // callers):
                request = api.ReceiveRequest(
                    channel=channel,
                    provider_message_id=uuid.uuid4().hex,
                    sender=sender,
                    text=text(randomness),
                )
                if channel == "email":
                    name = f"<{run}.{caller}.{number}@bench>"
                    before = f"<{run}.{caller}.{number - 1}@bench>" if number else ""
                    request.email.CopyFrom(EmailOrigin(message_id=name, in_reply_to=before))
                own.append(request.SerializeToString())
            made.append(own)
    return made


def against_append(rounds: int, calls: int, callers: int) -> list[Figure]:
    """Print the rate of Receive beside that of AppendTurn on the same server."""
    runs = itertools.count()
    results = []
    with (
        tempfile.TemporaryDirectory() as folder,
        recollect(Path(folder) / "data", "--embedder", "off") as (target, _),
    ):
        appends: list[Measured] = []
        received: dict[str, list[Measured]] = {"whatsapp": [], "email": []}
        for _ in range(rounds):
            appends.append(measure(target, APPEND, requests(target, callers, calls, 1)))
            for channel, measured in received.items():
                measured.append(
                    measure(
                        target, RECEIVE, deliveries(target, channel, callers, calls, next(runs))
                    )
                )
        base = statistics.median(it.rate for it in appends)
        for channel, measured in received.items():
            ratio = statistics.median(
                r.rate / a.rate for r, a in zip(measured, appends, strict=True)
            )
            rate = statistics.median(it.rate for it in measured)
            p50, p99 = (
                statistics.median(it.milliseconds(share) for it in measured)
                for share in (0.5, 0.99)
            )
            print(
                f"{callers} callers, {channel}: {rate:.0f} received/s, p50 {p50:.2f} ms, p99 {p99:.2f} ms;"
                f" AppendTurn {base:.0f}/s; ratio {ratio:.2f}",
                flush=True,
            )
            goal = Goal(0.8, least=True, of_ratio=True) if callers in (8, 32) else None
            results.append(
                Figure(
                    f"received, {channel}",
                    rate,
                    "/s",
                    base,
                    "AppendTurn",
                    ratio,
                    goal,
                    callers,
                    "callers",
                )
            )
    return results


def fill(index: Index, contacts: int, threads: int, mails: int) -> None:
    """Put in so many contacts with a pinned conversation each, and threads that share so many
    Message-IDs.
    """
    columns = (
        "id, channel, create_time, update_time, title, request, topics, participants, turn_count, message_count, manually_named,"
        " pinned, model, contact, group_id, thread_id, subject, usage_input, usage_output, cost_total, text_bytes,"
        " compressed_through, abbreviated_through"
    )
    with index.reading() as reader:
        first = int(reader.execute("SELECT coalesce(max(number), 0) + 1 FROM conversations").get)

    def row(number: int) -> tuple[object, ...]:
        channel = (
            ("whatsapp", str(490_000_000 + number))
            if number < contacts
            else ("email", f"{number}@example.org")
        )
        return (first + number, f"conv-{ULID()}", channel[0], 1, 1, "[]", channel[1])

    def job(connection: apsw.Connection, _: int) -> None:
        values = (
            "?1, ?2, ?3, ?4, ?5, '', '', ?6, ?6, 1, 1, 0, 1, '', ?7, '', '', '', 0, 0, 0.0, 1, 0, 0"
        )
        connection.executemany(
            f"INSERT INTO conversations(number, {columns}) VALUES({values})",
            (row(number) for number in range(contacts + threads)),
        )
        connection.executemany(
            "INSERT INTO mail VALUES(?, ?)",
            ((mail_number(name(mail)), first + contacts + mail % threads) for mail in range(mails)),
        )

    index.write(job)  # as one change: what is measured is the look-up


def name(mail: int) -> str:
    """Return the Message-ID of a mail."""
    return f"{mail}.{mail % 97}@mail.example.org"


def look_up(what: str, calls: int, ask: Callable[[int], bool]) -> Figure:
    """Print how long so many look-ups took, each of which must find what it is for."""
    randomness = random.Random(2)
    times = []
    for _ in range(calls):
        chosen = randomness.randrange(1 << 30)
        began = time.perf_counter()
        answer = ask(chosen)
        times.append(time.perf_counter() - began)
        if not answer:
            raise SystemExit(f"{what}: a look-up found nothing")
    times.sort()
    p50, p99 = (times[int(share * (len(times) - 1))] * 1000 for share in (0.5, 0.99))
    print(f"{what}: p50 {p50:.3f} ms, p99 {p99:.3f} ms", flush=True)
    return Figure(f"{what} p50", p50, "ms", goal=Goal(1))


def routing(contacts: int, threads: int, mails: int, calls: int) -> list[Figure]:
    """Print how long a look-up takes, in process, on an index filled with so much."""
    with tempfile.TemporaryDirectory() as folder:
        index = Index(Path(folder), FEATURES.tables)
        try:
            fill(index, contacts, threads, mails)
            index.close()
            # it knows from here on which Message-IDs it has
            index = Index(Path(folder), FEATURES.tables)
            routes = Routes(lambda: index, Overlay(), lambda _: True, lambda _: False)
            size = sum(it.stat().st_size for it in Path(folder).iterdir()) >> 20
            print(
                f"{contacts} contacts, {threads} threads with {mails} Message-IDs, index of {size} MiB"
            )

            def contact(chosen: int) -> bool:
                return (
                    routes.pinned(Place("whatsapp", str(490_000_000 + chosen % contacts)))
                    is not None
                )

            def reply(chosen: int) -> bool:
                ids = [f"new.{chosen}@x", name(chosen % mails)]
                return len(routes.threads(map(mail_number, ids))) == 1

            def long_reply(chosen: int) -> bool:
                ids = [
                    f"new.{chosen}@x",
                    *(
                        name((chosen + step * threads) % mails)
                        for step in range(min(20, mails // threads))
                    ),
                ]
                return len(routes.threads(map(mail_number, ids))) >= 1

            return [
                look_up("a contact's conversation", calls, contact),
                look_up("a reply's thread, by one known id", calls, reply),
                look_up("a reply's thread, by up to twenty known ids", calls, long_reply),
                look_up(
                    "a thread nobody knows",
                    calls,
                    lambda it: not routes.threads([mail_number(f"{it}@nobody")]),
                ),
            ]
        finally:
            index.close()


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--callers", type=int, nargs="*", default=[8, 32])
    parser.add_argument("--contacts", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=100_000)
    parser.add_argument("--mails", type=int, default=1_000_000)
    chosen = parser.parse_args(arguments)
    results = routing(chosen.contacts, chosen.threads, chosen.mails, chosen.calls)
    for callers in chosen.callers:
        results += against_append(chosen.rounds, chosen.calls, callers)
    print("load average: {:.1f} {:.1f} {:.1f}".format(*os.getloadavg()))
    return results


if __name__ == "__main__":
    main()
