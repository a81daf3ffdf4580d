#!/usr/bin/env python3
"""Writes words.npz: the constants of word codes (`recollect_server.recall.model.word_codes`).

  python models/word_codes.py SETS OUT.npz       # SETS: folders friendsqa, qmsum, realmem of recall sets

The mean of the last hidden states of word pieces, each of length 1; the 128 main directions of what is left (PCA), and the
deviations along them. Of 30,016 pieces of messages of FriendsQA, RealMem (Apache-2.0) and QMSum (MIT).
"""
import json, sys
from pathlib import Path
import numpy as np, onnxruntime
from tokenizers import Tokenizer
from recollect_server.recall.model.embedder import _output

HERE = Path(__file__).parent
PARTS = (("friendsqa", "friends-2", 500), ("friendsqa", "friends-1", 300), ("realmem", "Adeleke_Okonjo", 60), ("qmsum", "design-0", 150), ("qmsum", "parliament-2", 150))
PIECES, OF_TEXT, DIRECTIONS = 254, 96, 128
def unit(x): return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-6)

def main(sets, out):
    session = onnxruntime.InferenceSession((HERE / "model.int8w.onnx").read_bytes() + _output("t79"), providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(HERE / "tokenizer.json")); tokenizer.no_padding(); tokenizer.enable_truncation(PIECES + 2)
    draw, states = np.random.default_rng(0), []
    for name, group, most in PARTS:
        texts = [f"{m['sender']}: {m['content']}" if m.get("sender") else m["content"]
                 for c in map(json.loads, (Path(sets) / name / "conversations.jsonl").open()) if c["group"] == group for m in c["messages"]]
        for at in draw.permutation(len(texts))[:most]:
            ids = np.array([tokenizer.encode(texts[at]).ids])
            states.append(unit(session.run(["t79"], {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0][0, 1:-1])[:OF_TEXT])
    pieces = np.concatenate(states); mean = pieces.mean(0); pieces = unit(pieces - mean)
    directions = np.linalg.eigh(pieces.T @ pieces / len(pieces))[1][:, ::-1][:, :DIRECTIONS]
    values = unit(pieces @ directions)
    np.savez(out, mean=mean.astype(np.float16), directions=directions.astype(np.float16), deviations=np.sqrt((values**2).mean(0)).astype(np.float16))

if __name__ == "__main__": main(*sys.argv[1:])
