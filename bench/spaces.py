"""Many spaces on one server: how long the first call to a space at rest takes, the memory of the
server, and appends to all spaces in random order against appends to one.

`python -m bench.spaces [--spaces 1000] [--messages 100] [--open 1000] [--calls 4000] [--on-disk
10000] [--embedder off]`
"""

import argparse
import random
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import message_pb2
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub

from bench.append import text
from bench.figures import Figure, Goal
from bench.servers import recollect, resident_bytes
from bench.start import start

_CALLERS = 8
_AWAKE = 100  # spaces that a server has the files of open, if no more are used at once
_PART = 50  # messages in one append while the spaces are filled


def naming(space: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a call to a space."""
    return (("recollect-space", space),)


def fill(stub: ConversationServiceStub, space: str, messages: int) -> str:
    """Write a conversation to a space, and return its id."""
    randomness = random.Random(space)
    metadata = naming(space)
    conversation = stub.Create(api.CreateRequest(channel="web"), metadata=metadata).conversation.id
    for first in range(0, messages, _PART):
        batch = [
            message_pb2.Message(
                role=message_pb2.ROLE_ASSISTANT if number % 2 else message_pb2.ROLE_USER,
                content=text(randomness, 200),
            )
            for number in range(first, min(first + _PART, messages))
        ]
        stub.AppendTurn(
            api.AppendTurnRequest(conversation_id=conversation, messages=batch), metadata=metadata
        )
    return str(conversation)


def first_calls(
    stub: ConversationServiceStub, conversations: dict[str, str]
) -> tuple[list[float], list[float]]:
    """Load the conversation of each space twice. Return the seconds of the first calls, and of the
    second ones.
    """
    seconds: tuple[list[float], list[float]] = ([], [])
    for space, conversation in conversations.items():
        for of_call in seconds:
            began = time.perf_counter()
            stub.Load(api.LoadRequest(conversation_id=conversation), metadata=naming(space))
            of_call.append(time.perf_counter() - began)
    return seconds


def rate(
    stub: ConversationServiceStub, conversations: dict[str, str], names: list[str], callers: int
) -> float:
    """Append a message to each named space in this order, by so many callers. Return appends per
    second.
    """
    randomness = random.Random(2)
    made = [
        (
            api.AppendTurnRequest(
                conversation_id=conversations[name],
                messages=[
                    message_pb2.Message(role=message_pb2.ROLE_USER, content=text(randomness))
                ],
                request_id=uuid.uuid4().hex,
            ),
            naming(name),
        )
        for name in names
    ]
    with ThreadPoolExecutor(callers) as pool:
        began = time.perf_counter()
        list(pool.map(lambda it: stub.AppendTurn(it[0], metadata=it[1], timeout=60), made))
        return len(made) / (time.perf_counter() - began)


def copies(data: Path, name: str, count: int) -> None:
    """Copy one space to many, as a server leaves them."""
    for number in range(count):
        shutil.copytree(data / name, data / f"copy-{number}")


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spaces", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=100)
    parser.add_argument("--open", type=int, default=1000)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--on-disk", type=int, default=10_000)
    parser.add_argument("--embedder", choices=("shipped", "off"), default="off")
    chosen = parser.parse_args(arguments)
    flags = [f"--max-open-spaces={chosen.open}"]
    flags += ["--embedder=off"] if chosen.embedder == "off" else []
    names = [f"space-{number}" for number in range(chosen.spaces)]
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with recollect(data, *flags) as (target, server), grpc.insecure_channel(target) as channel:
            stub = ConversationServiceStub(channel)
            with ThreadPoolExecutor(_CALLERS) as pool:
                ids = pool.map(lambda name: fill(stub, name, chosen.messages), names)
                conversations = dict(zip(names, ids, strict=True))
            firsts, seconds = first_calls(stub, conversations)
            figures += _of_opening(chosen, firsts, seconds)
            figures += _of_appends(stub, conversations, chosen)
            resident = resident_bytes(server) / (1 << 20)
            print(f"memory with {chosen.spaces} spaces used: {resident:.0f} MiB")
            at_full_size = (chosen.spaces, chosen.open) == (1000, 1000)
            goal = Goal(400) if at_full_size else None
            figures.append(
                Figure("memory", resident, "MiB", goal=goal, at=chosen.spaces, of="spaces")
            )
        if chosen.on_disk:
            copies(data, names[0], chosen.on_disk)
            empty, many = start(Path(folder) / "empty").listens, start(data).listens
            print(f"start with {chosen.on_disk} spaces on disk: {many:.2f} s; empty {empty:.2f} s")
            goal = Goal(1) if chosen.on_disk == 10_000 else None
            against = "an empty folder"
            figures.append(
                Figure(
                    "start", many, "s", empty, against, many / empty, goal, chosen.on_disk, "spaces"
                )
            )
    return figures


def _of_opening(
    chosen: argparse.Namespace, firsts: list[float], seconds: list[float]
) -> list[Figure]:
    first, second = (statistics.median(them) * 1000 for them in (firsts, seconds))
    p90 = sorted(firsts)[len(firsts) * 9 // 10] * 1000
    print(
        f"first call to a space at rest, which takes another's place: p50 {first:.1f} ms,"
        f" p90 {p90:.1f} ms; to an open one p50 {second:.2f} ms"
    )
    goal = Goal(30) if (chosen.spaces, chosen.open, chosen.messages) == (1000, 1000, 100) else None
    return [
        Figure(
            "first call p50",
            first,
            "ms",
            second,
            "an open space",
            first / second,
            goal,
            chosen.spaces,
            "spaces",
        )
    ]


def _of_appends(
    stub: ConversationServiceStub, conversations: dict[str, str], chosen: argparse.Namespace
) -> list[Figure]:
    randomness, names = random.Random(3), list(conversations)
    orders = {
        "one space": [names[0]] * chosen.calls,
        "half of the spaces awake": [
            randomness.choice(names[: _AWAKE // 2]) for _ in range(chosen.calls)
        ],
        "all spaces": [randomness.choice(names) for _ in range(chosen.calls)],
    }
    rates: dict[str, list[float]] = {name: [] for name in orders}
    for _ in range(3):
        for name, order in orders.items():
            rates[name].append(rate(stub, conversations, order, _CALLERS))
    base = rates.pop("one space")
    figures = []
    for name, them in rates.items():
        ratio = statistics.median(it / of for it, of in zip(them, base, strict=True))
        value, one = statistics.median(them), statistics.median(base)
        print(f"appends to {name} in random order: {value:.0f}/s; to one {one:.0f}/s; {ratio:.2f}")
        goal = Goal(0.7, least=True, of_ratio=True) if name == "all spaces" else None
        goal = goal if chosen.spaces == 1000 else None
        figures.append(Figure(f"appends to {name}", value, "/s", one, "one space", ratio, goal))
    return figures


if __name__ == "__main__":
    main()
