"""Cost of search by meaning besides the search: delay until a message is found, loss of appends,
rate of catching up.

`python -m bench.meaning [--rounds 3] [--calls 2000] [--callers 8]`

Appends are measured against the same server that embeds nothing, in turns.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from recollect import Client, Message
from recollect_server.recall.vectors.checking import state_of

from bench.append import APPEND, requests
from bench.calls import measure
from bench.figures import Figure, Goal
from bench.search import until_whole
from bench.servers import embedded, recollect, resident_bytes

_QUESTIONS = (
    ("We fly to Kyoto in April", "a journey to Japan"),
    ("The car needs new tyres before winter", "vehicle upkeep"),
    ("Bread and milk are gone", "groceries"),
)


def latency(client: Client, rounds: int, pause: float) -> list[float]:
    """Return the seconds from an answered append to the first answer that finds it by meaning, on
    a server that is idle for `pause` seconds before it.
    """
    times = []
    for number in range(rounds):
        text, question = _QUESTIONS[number % len(_QUESTIONS)]
        time.sleep(pause)  # so that nothing of the round before is under way
        conversation = client.conversations.create("web").id
        client.conversations.append_turn(conversation, [Message.user(text)])
        began = time.perf_counter()
        while not client.recall.search(question, conversation_id=conversation).results:
            time.sleep(0.005)  # how exact the time is
        times.append(time.perf_counter() - began)
    return sorted(times)


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds before each search")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        with (
            recollect(Path(folder) / "idle", "--embedder", "onnx") as (target, process),
            Client(target) as client,
        ):
            times = latency(client, 3 * chosen.rounds, chosen.pause)
            print(
                f"found by meaning after {statistics.median(times):.2f} s (median), {times[-1]:.2f} s at the most, when idle"
            )
        ratios: list[float] = []
        rates: list[float] = []
        bases: list[float] = []
        for number in range(chosen.rounds):
            for embedder, cases in (("off", bases), ("onnx", rates)):
                data = Path(folder) / f"{embedder} {number}"
                with recollect(data, "--embedder", embedder) as (target, process):
                    until_whole(target)
                    cases.append(
                        measure(
                            target, APPEND, requests(target, chosen.callers, chosen.calls, 1)
                        ).rate
                    )
                    if embedder == "onnx":
                        lag = state_of(data / "default" / "conversations").vectors
                        began = time.perf_counter()
                        embedded(data)
                        caught = (chosen.calls - lag) / (time.perf_counter() - began)
                        memory = resident_bytes(process) / 2**20
            ratios.append(rates[-1] / bases[-1])
        print(
            f"{chosen.callers} callers: {statistics.median(rates):.0f} appends/s while messages are embedded,"
            f" {statistics.median(bases):.0f} without; ratio {statistics.median(ratios):.2f}"
        )
        print(
            f"catches up with {caught:.0f} messages of 500 bytes a second; memory {memory:.0f} MiB"
        )
    rate, base, ratio = (statistics.median(each) for each in (rates, bases, ratios))
    goal = Goal(0.8, least=True, of_ratio=True)
    return [
        Figure("found by meaning after", statistics.median(times), "s", goal=Goal(2)),
        Figure(
            "appends while embedding",
            rate,
            "/s",
            base,
            "embeds nothing",
            ratio,
            goal,
            chosen.callers,
            "callers",
        ),
        Figure("messages embedded", caught, "/s"),
    ]


if __name__ == "__main__":
    main()
