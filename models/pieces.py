#!/usr/bin/env python3
"""Write pieces.npy: a static vector for each word piece of all-MiniLM-L6-v2, int8 [30522, 96].

  python pieces.py FOLDER     # with model.int8w.onnx and tokenizer.json

It needs numpy, onnxruntime and tokenizers. A piece's vector is what the model gives for the piece
alone, less the mean of all, in the 96 directions of the highest variance (those of whole words,
which are the pieces from 1996 on), scaled to bytes. Marks and unused pieces are zero: nothing is
near them. The server compares the words of a question with those of messages by these. On another
processor the model's sums round otherwise: a few values then differ by one.
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

FIRST_WORD, DIMENSIONS, BATCH = 1996, 96, 1024


def outputs(folder: Path, count: int, begin: int, end: int) -> np.ndarray:
    """Return what the model gives for each piece alone."""
    model = folder / "model.int8w.onnx"
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    parts = []
    for start in range(0, count, BATCH):
        pieces = np.arange(start, min(count, start + BATCH))
        ids = np.stack([np.full_like(pieces, begin), pieces, np.full_like(pieces, end)], axis=1)
        parts.append(session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0])
    return np.concatenate(parts)


def reduced(vectors: np.ndarray) -> np.ndarray:
    """Return the vectors less their mean, in the directions of the highest variance, as bytes."""
    vectors = vectors.astype(np.float64)
    words = vectors[FIRST_WORD:]
    _, directions = np.linalg.eigh(np.cov(words.T))
    vectors = (vectors - words.mean(axis=0)) @ directions[:, ::-1][:, :DIMENSIONS]
    highest = np.abs(vectors).max(axis=1, keepdims=True)
    return np.rint(vectors / np.where(highest > 0, highest, 1) * 127).astype(np.int8)


def main(folder: Path) -> None:
    """Write the file into the folder."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    begin, end = tokenizer.encode("").ids
    count = tokenizer.get_vocab_size()
    table = reduced(outputs(folder, count, begin, end))
    for name, piece in tokenizer.get_vocab().items():
        if len(name) > 2 and name.startswith("[") and name.endswith("]"):
            table[piece] = 0
    np.save(folder / "pieces.npy", table)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
