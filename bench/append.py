"""AppendTurn, durable and indexed, against a bare durable append of the same request on the same
kind of server (`bench.servers.durable`), which is the baseline that counts, and a bare unary echo.

What both appends cost is shown by their processor time too, which other programs disturb less than
their rate.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

import grpc
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import message_pb2
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub

from bench.calls import Access, Measured, measure, open_channel
from bench.figures import Figure, Goal
from bench.servers import (
    BARE_APPEND,
    ECHO,
    durable,
    echo,
    guarded,
    processor_seconds,
    recollect,
)

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


@dataclass
class ServerRuns:
    """A server that is called in rounds: what was measured of it, and what it used."""

    target: str
    process: Popen[str]
    method: str = APPEND
    runs: list[Measured] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    """Microseconds of processor time for each call, a number a round."""

    def measure(self, requests: list[list[bytes]]) -> None:
        """Make the calls of a round."""
        before = processor_seconds(self.process)
        self.runs.append(measure(self.target, self.method, requests))
        used = processor_seconds(self.process) - before
        self.processor.append(1e6 * used / sum(map(len, requests)))

    def rate(self) -> float:
        """Return the median rate of calls."""
        return statistics.median(it.rate for it in self.runs)

    def milliseconds(self, share: float) -> float:
        """Return the median of a quantile of how long calls took."""
        return statistics.median(it.milliseconds(share) for it in self.runs)

    def over(self, base: "ServerRuns", value: Callable[[Measured], float]) -> float:
        """Return the median ratio of a value to that of the base in the same round."""
        pairs = zip(self.runs, base.runs, strict=True)
        return statistics.median(value(it) / value(other) for it, other in pairs)


def figures(
    callers: int, batch: int, append: ServerRuns, bare: ServerRuns, echo: ServerRuns
) -> list[Figure]:
    """Return the figures of the rounds of a measurement."""
    size, of = callers, "callers"
    many = batch > 1
    name = f"messages, {batch} a call" if many else "appends"
    against = "bare durable append"
    to_bare, to_echo = (append.over(it, lambda run: run.rate) for it in (bare, echo))
    rate, processor = batch * append.rate(), statistics.median(append.processor)
    bare_processor = statistics.median(bare.processor)
    least = {(8, 1): 0.8, (32, 1): 0.8, (8, 10): 0.6}.get((callers, batch))
    goal = None if least is None else Goal(least, least=True, of_ratio=True)
    rates = [
        Figure(name, rate, "/s", echo.rate(), "echo", batch * to_echo, None, size, of),
        Figure(
            f"{name}, to a bare one", rate, "/s", batch * bare.rate(), against, to_bare, goal, size, of
        ),
    ]  # fmt: skip
    if many:
        return rates
    p99, bare_p99 = append.milliseconds(0.99), bare.milliseconds(0.99)
    slower = append.over(bare, lambda run: run.milliseconds(0.99))
    most = Goal(2, of_ratio=True) if callers == 8 else None
    more = processor / bare_processor if bare_processor else None
    return [
        *rates,
        Figure("p99", p99, "ms", bare_p99, against, slower, most, size, of),
        Figure("processor", processor, "us", bare_processor, against, more, None, size, of),
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
        echo() as of_echo,
        durable(Path(folder) / "bare") as of_bare,
        recollect(Path(folder) / "data", "--embedder", "off") as (target, process),
    ):
        for callers, batch in [(n, 1) for n in chosen.callers] + [(8, 10)]:
            append = ServerRuns(target, process)
            bare, echoes = ServerRuns(*of_bare, BARE_APPEND), ServerRuns(*of_echo, ECHO)
            for number in range(chosen.rounds):
                calls = chosen.calls if batch == 1 else chosen.calls // 4
                made = requests(target, callers, calls, batch)
                for side in (echoes, *((append, bare) if number % 2 else (bare, append))):
                    side.measure(made)
            those = figures(callers, batch, append, bare, echoes)
            p50, p99 = append.milliseconds(0.5), append.milliseconds(0.99)
            print(
                f"{callers} callers, batches of {batch}: {append.rate():.0f} appends/s, p50 {p50:.2f} ms, p99 {p99:.2f} ms;"
                f" bare durable {bare.rate():.0f}, p99 {bare.milliseconds(0.99):.2f} ms, ratio {those[1].ratio:.2f};"
                f" echo {echoes.rate():.0f}, ratio {those[0].ratio:.2f}; processor {statistics.median(append.processor):.0f} us,"
                f" bare {statistics.median(bare.processor):.0f}"
            )
            results += those
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
                recollect(beside, "--embedder", "off") as alone,
            ):
                for callers in chosen.callers:
                    results += observed(watched, alone, callers, chosen.rounds, chosen.calls)
    return results


def observed(
    watched: tuple[str, Popen[str]],
    alone: tuple[str, Popen[str]],
    callers: int,
    rounds: int,
    calls: int,
) -> list[Figure]:
    """Return the rate of appends, and the processor's time of each, with metrics against none."""
    both = ServerRuns(*watched), ServerRuns(*alone)
    for number in range(rounds):
        for side in both if number % 2 else reversed(both):
            side.measure(requests(side.target, callers, calls, 1))
    figures = []
    for name, unit, values in (
        ("appends, with metrics", "/s", [[run.rate for run in side.runs] for side in both]),
        ("processor of an append, with metrics", "us", [side.processor for side in both]),
    ):
        ratio = statistics.median(a / b for a, b in zip(*values, strict=True))
        value, base = map(statistics.median, values)
        print(f"{callers} callers, {name}: {value:.0f} {unit}; none {base:.0f}; ratio {ratio:.3f}")
        goal = Goal(0.97, least=True, of_ratio=True) if unit == "/s" and callers == 8 else None
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
