"""Deletes: one conversation, many one by one, and as many by one call of DeleteMany.

`python -m bench.deletes [--conversations 1000] [--rounds 3]`

Each conversation has two messages. The baseline of both is the median of single deletes, over the
same server in the same run: each syncs the folder, the audit and the index, which many share.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from recollect import Client, Message

from bench.corpus import Corpus
from bench.figures import Figure
from bench.servers import recollect


def _write(client: Client, conversations: int, channel: str) -> list[str]:
    """Write conversations, have them indexed, and return their ids."""
    texts = (text for made in Corpus(4 * conversations) for text in made.texts)
    names = []
    for _ in range(conversations):
        user, agent = islice(texts, 2)
        name = client.conversations.create(channel).id
        client.conversations.append_turn(name, [Message.user(user), Message.assistant(agent)])
        names.append(name)
    client.recall.search("indexed")
    return names


def _round(target: str, conversations: int) -> tuple[float, float, float]:
    """Return the median seconds of a delete, and the seconds of many one by one, and of one
    call.
    """
    with Client(target) as client:
        singly, _ = _write(client, conversations, "web"), _write(client, conversations, "cli")
        times = []
        for name in singly:
            began = time.perf_counter()
            client.conversations.delete(name)
            times.append(time.perf_counter() - began)
        began = time.perf_counter()
        receipt = client.conversations.delete_many(channels=["cli"], limit=conversations)
        seconds = time.perf_counter() - began
        assert len(receipt.conversation_ids) == conversations
    return statistics.median(times), sum(times), seconds


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--conversations", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    count = options.conversations
    rounds = []
    for _ in range(options.rounds):
        with (
            tempfile.TemporaryDirectory() as folder,
            recollect(Path(folder), "--embedder", "off") as (target, _),
        ):
            one, singly, together = _round(target, count)
        rounds.append((one, singly, together))
        print(
            f"a delete takes {1e3 * one:.1f} ms, {count} one by one {singly:.2f} s, by one call"
            f" {together:.2f} s: {together / one:.0f} times one (load {os.getloadavg()[0]:.1f})",
            flush=True,
        )
    one, singly, together = (statistics.median(it) for it in zip(*rounds, strict=True))
    ratio = statistics.median(together / one for one, _, together in rounds)
    of = {"baseline": one, "against": "one delete", "at": float(count), "of": "conversations"}
    return [
        Figure("a delete", 1e3 * one, "ms"),
        Figure("deletes one by one", singly, "s", ratio=singly / one, **of),
        Figure("deletes by one call", together, "s", ratio=ratio, **of),
    ]


if __name__ == "__main__":
    main()
