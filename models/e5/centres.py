#!/usr/bin/env python3
"""Writes centres.npy: what is the same in all vectors of multilingual-e5-small, and what tells languages apart.

  pip install numpy onnxruntime tokenizers
  pip download --no-deps spacy -d dl                       # MIT; read, never imported
  python centres.py dl/spacy-3.8.*.whl SETS OUT.npy        # SETS: folders friendsqa, qmsum, realmem of recall sets

Rows: the mean of messages, the mean of questions (each half of English dialogue: FriendsQA, QMSum and RealMem in equal parts, half of
spaCy's example sentences of some 60 languages), then the eight main directions in which the languages' means differ (SVD), of length 1.
All texts have open licences (Apache-2.0, MIT).
"""
import json, random, sys, zipfile
from pathlib import Path
import numpy as np, onnxruntime
from tokenizers import Tokenizer

HERE = Path(__file__).parent
SETS, DIRECTIONS, PIECES = ("friendsqa", "realmem", "qmsum"), 8, 128
OTHERS = {"xx", "en", "grc", "la", "sa", "bo"}  # no language of today, or English, which has sets of its own

def main(wheel, sets, out):
    session = onnxruntime.InferenceSession(str(HERE / "model.q4n.onnx"), providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(HERE / "tokenizer.json"))
    def embed(prefix, texts):
        rows = []
        for text in texts:
            ids = np.array([tokenizer.encode(f"{prefix}: {text}").ids[:PIECES]] * 2)
            rows.append(session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0][0])
        return np.array(rows)
    def lines(path): return [json.loads(it) for it in path.read_text(encoding="utf-8").splitlines()]
    draw, passages, questions = random.Random(1), [], []
    for name in SETS:
        texts = [f"{m['sender']}: {m['content']}" if m.get("sender") else m["content"]
                 for c in lines(Path(sets) / name / "conversations.jsonl") for m in c["messages"] if len(m["content"].split()) >= 4]
        passages.append(embed("passage", draw.sample(texts, 200)).mean(0))
        questions.append(embed("query", draw.sample([q["query"] for q in lines(Path(sets) / name / "queries.jsonl")], 100)).mean(0))
    sentences = {}
    with zipfile.ZipFile(wheel) as z:
        for name in sorted(z.namelist()):
            if name.endswith("/examples.py") and (code := name.split("/")[-2]) not in OTHERS - {"en"}:
                values = {}; exec(z.read(name).decode(), values); sentences[code] = values["sentences"]
    of = {prefix: {code: embed(prefix, texts) for code, texts in sentences.items() if len(texts) >= 4} for prefix in ("passage", "query")}
    means = {prefix: np.array([v.mean(0) for v in by.values()]) for prefix, by in of.items()}
    directions = np.linalg.svd(means["passage"] - means["passage"].mean(0), full_matrices=False)[2][:DIRECTIONS]
    foreign = {prefix: means[prefix][[code != "en" for code in of[prefix]]].mean(0) for prefix in means}
    centres = [(np.mean(passages, 0) + foreign["passage"]) / 2, (np.mean(questions, 0) + foreign["query"]) / 2]
    np.save(out, np.vstack([*centres, *directions]).astype(np.float32))

if __name__ == "__main__": main(*sys.argv[1:])
