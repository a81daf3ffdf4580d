"""Rate of embedding: messages that a server embeds, against a plain loop that runs the same model
over the same texts with as many threads, in turns.

`python -m bench.embedding [--messages 600] [--rounds 3]`

A plain loop cuts the texts into word pieces and runs the model over batches like the server's. It
keeps nothing, and makes no codes of word pieces. Both have the model loaded before the clock
starts; the server's time is from the first append to the last vector.
"""

import argparse
import os
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from recollect import Client, Message
from recollect_server.recall.model.weights import MINILM, TOKENIZER, shipped

from bench.background import processor_seconds
from bench.calls import answer_of
from bench.corpus import Corpus
from bench.figures import Figure, Goal
from bench.servers import embedded, recollect
from bench.vectors import FLAGS

_THREADS = 2  # the server's default
_STEP, _ALONE, _BATCH = 8, 64, 2048  # word pieces, as in `recall.model.embedder`
_APPENDED = 100  # messages of one append


def plain_loop(answer: Connection, texts: list[str]) -> None:
    """Send the seconds and the processor seconds of a plain loop."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime
    from tokenizers import Tokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    folder = shipped()
    session = onnxruntime.InferenceSession(folder / MINILM.model, options)
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    tokenizer.no_padding()

    def run(rows: list[list[int]]) -> None:
        ids = np.zeros((len(rows), -(-max(map(len, rows)) // _STEP) * _STEP), np.int64)
        for at, row in enumerate(rows):
            ids[at, : len(row)] = row
        session.run(None, {"input_ids": ids, "attention_mask": (ids > 0).astype(np.int64)})

    run([tokenizer.encode(texts[0]).ids])
    with ThreadPoolExecutor(_THREADS) as pool:
        began, used = time.perf_counter(), time.process_time()
        by_length: defaultdict[int, list[list[int]]] = defaultdict(list)
        for it in tokenizer.encode_batch_fast(texts):
            by_length[-(-len(it.ids) // _STEP) * _STEP].append(it.ids)
        batches = [
            rows[start : start + size]
            for length, rows in sorted(by_length.items())
            for size in [1 if length >= _ALONE else _BATCH // length]
            for start in range(0, len(rows), size)
        ]
        list(pool.map(run, batches))
        answer.send((time.perf_counter() - began, time.process_time() - used))


def by_server(data: Path, texts: list[str]) -> tuple[float, float]:
    """Return the seconds and the processor seconds of a server that embeds the texts."""
    with recollect(data, *FLAGS) as (target, process), Client(target) as client:
        conversation = client.conversations.create("web").id
        client.conversations.append_turn(conversation, [Message.user("The model is loaded.")])
        embedded(data)
        began, used = time.perf_counter(), processor_seconds(process)
        for start in range(0, len(texts), _APPENDED):
            turn = [Message.user(it) for it in texts[start : start + _APPENDED]]
            client.conversations.append_turn(conversation, turn)
        embedded(data)
        return time.perf_counter() - began, processor_seconds(process) - used


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args(arguments)
    corpus, randomness = Corpus(2 * chosen.messages), random.Random(7)
    # of all lengths up to one piece of the model
    words = [text.split() for made in corpus for text in made.texts][: chosen.messages]
    texts = [" ".join(it[: randomness.randint(5, 60)]) for it in words]
    ours: list[tuple[float, float]] = []
    plain: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(chosen.rounds):
            plain.append(answer_of(plain_loop, texts))  # type: ignore[arg-type]  # what it sends
            ours.append(by_server(Path(folder) / str(number), texts))
    rate, base, ratio, processor = (
        statistics.median(it)
        for it in (
            [len(texts) / it[0] for it in ours],
            [len(texts) / it[0] for it in plain],
            [it[0] / of[0] for it, of in zip(plain, ours, strict=True)],
            [it[1] / of[1] for it, of in zip(plain, ours, strict=True)],
        )
    )
    print(
        f"embeds {rate:.0f} messages a second, a plain loop {base:.0f}: {ratio:.2f};"
        f" for a second of the processor {processor:.2f} of its; load {os.getloadavg()[0]:.1f}"
    )
    goal = Goal(0.8, least=True, of_ratio=True)
    return [
        Figure("messages embedded", rate, "/s", base, "a plain loop", ratio, goal),
        Figure("for a second of processor", processor, "of the loop's"),
    ]


if __name__ == "__main__":
    main()
