"""AppendTurn, durable and indexed, against a bare unary echo of the same request on the same kind
of server.

Nothing is embedded meanwhile: it would take the processor from the echo, which comes after appends.
`bench.meaning` has what that costs appends.

With `--secure`, also with TLS and a token against neither, both servers running, round by round.

With `--observed`, also with metrics against none, likewise in pairs of rounds. What they cost is
shown by the processor time of an append too, which other programs disturb less than its rate.

`python -m bench.append [--rounds 3] [--calls 4000] [--secure] [--observed]`
"""

import argparse
import random
import statistics
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from subprocess import Popen

import grpc
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import message_pb2
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub

from bench.calls import Access, Measured, measure, open_channel
from bench.figures import Figure, Goal
from bench.servers import ECHO, echo, guarded, processor_seconds, recollect

APPEND = "/recollect.v1.ConversationService/AppendTurn"
_WORDS = [
    w for w in (Path(__file__).read_text() + Path(grpc.__file__).read_text()).split() if w.isalpha()
]


def text(randomness: random.Random, size: int = 500) -> str:
    """Return random words that take `size` bytes together."""
    words: list[str] = []
    while sum(map(len, words)) + len(words) < size:
        words.append(randomness.choice(_WORDS))
    return " ".join(words)[:size]


def requests(
    target: str, callers: int, calls: int, batch: int, access: Access | None = None
) -> list[list[bytes]]:
    """Begin a conversation for every caller, and return the requests that append to it."""
    randomness = random.Random(1)
    made = []
    metadata = None if access is None else access.metadata
    with open_channel(target, access) as channel:
        stub = ConversationServiceStub(channel)
        for _ in range(callers):
            created = stub.Create(api.CreateRequest(channel="web"), metadata=metadata)
            conversation = created.conversation.id
            own = []
            for _ in range(calls // callers):
                messages = [
                    message_pb2.Message(
                        role=message_pb2.ROLE_ASSISTANT if i else message_pb2.ROLE_USER,
                        content=text(randomness),
                    )
                    for i in range(batch)
                ]
                request = api.AppendTurnRequest(
                    conversation_id=conversation, messages=messages, request_id=uuid.uuid4().hex
                )
                own.append(request.SerializeToString())
            made.append(own)
    return made


def figures(
    callers: int, batch: int, appends: list[Measured], echoes: list[Measured]
) -> list[Figure]:
    """Return the figures of some rounds of the same measurement."""
    ratio = statistics.median(batch * a.rate / e.rate for a, e in zip(appends, echoes, strict=True))
    rate, base = (batch * statistics.median(it.rate for it in runs) for runs in (appends, echoes))
    p99, echo99 = (
        statistics.median(it.milliseconds(0.99) for it in runs) for runs in (appends, echoes)
    )
    if batch > 1:
        goal = Goal(1.75, least=True, of_ratio=True) if (callers, batch) == (8, 10) else None
        return [
            Figure(
                f"messages, {batch} a call",
                rate,
                "/s",
                base / batch,
                "echo",
                ratio,
                goal,
                callers,
                "callers",
            )
        ]
    goal = Goal(0.55, least=True, of_ratio=True) if callers in (8, 32) else None
    return [
        Figure("appends", rate, "/s", base, "echo", ratio, goal, callers, "callers"),
        Figure("p99", p99, "ms", echo99, "echo", p99 / echo99, None, callers, "callers"),
    ]


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--callers", type=int, nargs="*", default=[8, 32])
    parser.add_argument("--secure", action="store_true")
    parser.add_argument("--observed", action="store_true")
    chosen = parser.parse_args(arguments)
    results = []
    with (
        tempfile.TemporaryDirectory() as folder,
        echo() as (echo_target, _),
        recollect(Path(folder) / "data", "--embedder", "off") as (target, _),
    ):
        for callers, batch in [(n, 1) for n in chosen.callers] + [(8, 10)]:
            appends: list[Measured] = []
            echoes: list[Measured] = []
            for _ in range(chosen.rounds):
                made = requests(
                    target, callers, chosen.calls if batch == 1 else chosen.calls // 4, batch
                )
                echoes.append(measure(echo_target, ECHO, made))
                appends.append(measure(target, APPEND, made))
            ratio = statistics.median(a.rate / e.rate for a, e in zip(appends, echoes, strict=True))
            rate = statistics.median(a.rate for a in appends)
            base = statistics.median(e.rate for e in echoes)
            p50, p99 = (
                statistics.median(a.milliseconds(share) for a in appends) for share in (0.5, 0.99)
            )
            print(
                f"{callers} callers, batches of {batch}: {rate:.0f} appends/s ({rate * batch:.0f} messages/s), p50 {p50:.2f} ms,"
                f" p99 {p99:.2f} ms; echo {base:.0f} calls/s; ratio {ratio:.2f}"
            )
            results += figures(callers, batch, appends, echoes)
        if chosen.secure:
            with guarded(Path(folder) / "guarded", "--embedder", "off") as (secure, access):
                sides = [(target, None), (secure, access)]
                for callers in chosen.callers:
                    results.append(secured(sides, callers, chosen.rounds, chosen.calls))
        if chosen.observed:
            metrics = ("--metrics", "127.0.0.1:0")
            data, beside = Path(folder) / "observed", Path(folder) / "beside"
            with (
                recollect(data, "--embedder", "off", *metrics) as watched,
                recollect(beside, "--embedder", "off") as bare,
            ):
                for callers in chosen.callers:
                    results += observed(watched, bare, callers, chosen.rounds, chosen.calls)
    return results


Side = tuple[str, Popen[str]]
"""A server: its address and its process."""


def observed(watched: Side, bare: Side, callers: int, rounds: int, calls: int) -> list[Figure]:
    """Return the rate of appends, and the processor's time of each, with metrics against none."""
    runs: dict[str, list[tuple[float, float]]] = {watched[0]: [], bare[0]: []}
    for number in range(rounds):
        for target, process in (watched, bare) if number % 2 else (bare, watched):
            made = requests(target, callers, calls, 1)
            before = processor_seconds(process)
            rate = measure(target, APPEND, made).rate
            used = processor_seconds(process) - before
            runs[target].append((rate, 1e6 * used / (calls // callers * callers)))
    with_metrics, without = runs.values()
    figures = []
    for at, (name, unit) in enumerate(
        [("appends, with metrics", "/s"), ("processor of an append, with metrics", "us")]
    ):
        ratio = statistics.median(a[at] / b[at] for a, b in zip(with_metrics, without, strict=True))
        value, base = (statistics.median(it[at] for it in side) for side in (with_metrics, without))
        print(f"{callers} callers, {name}: {value:.0f} {unit}; none {base:.0f}; ratio {ratio:.3f}")
        goal = Goal(0.97, least=True, of_ratio=True) if at == 0 and callers == 8 else None
        figures.append(Figure(name, value, unit, base, "none", ratio, goal, callers, "callers"))
    return figures


def secured(
    sides: list[tuple[str, Access | None]], callers: int, rounds: int, calls: int
) -> Figure:
    """Return the rate of appends with TLS and a token, of the second side, against the first, which
    has neither.
    """
    runs: dict[str, list[Measured]] = {target: [] for target, _ in sides}
    for number in range(rounds):
        for target, access in sides if number % 2 else reversed(sides):
            made = requests(target, callers, calls, 1, access)
            runs[target].append(measure(target, APPEND, made, access))
    without, with_both = runs.values()
    ratio = statistics.median(a.rate / b.rate for a, b in zip(with_both, without, strict=True))
    rate, base = (statistics.median(it.rate for it in side) for side in (with_both, without))
    print(
        f"{callers} callers, TLS and a token: {rate:.0f} appends/s; neither {base:.0f}; ratio {ratio:.2f}"
    )
    goal = Goal(0.85, least=True, of_ratio=True) if callers in (8, 32) else None
    against = "neither"
    return Figure(
        "appends, TLS and a token", rate, "/s", base, against, ratio, goal, callers, "callers"
    )


if __name__ == "__main__":
    main()
