#!/usr/bin/env python3
"""Writes questions.npy: what the questions of a language have in common in the vectors of multilingual-e5-small.

  PYTHONPATH=. python models/e5/questions.py models/e5/questions.npy     # in the root of the tree, where the server is installed

One row a language: the mean of its questions, as the server embeds them without this file. A question's own vector is half made of it ("where is",
"wo ist", 0.33 to 0.54 of its length), and any short text of that language is near to it. The questions are those of bench/statements (tasks and
talk, written for the project); a mark at the end tells them from the others.
"""
import json, sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
import numpy as np
from recollect_server.recall.model.embedder import Embedder
from recollect_server.recall.model.weights import E5, look, shipped

SENTENCES = Path(__file__).parents[2] / "bench" / "statements"
MARKS, LONGEST = ("?", "？"), 120

def main(out):
    embedder, of = Embedder(look(shipped(E5), replace(E5, questions=""))), defaultdict(list)
    for path in sorted(SENTENCES.glob("??.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            text = json.loads(line)["text"].rstrip()
            if text.endswith(MARKS) and len(text) < LONGEST:
                of[path.stem].append(embedder.ask(text).vector)
    np.save(out, np.array([np.mean(rows, axis=0) for rows in of.values()], np.float32))
    print({language: len(rows) for language, rows in of.items()})

if __name__ == "__main__": main(*sys.argv[1:])
