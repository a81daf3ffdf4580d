#!/usr/bin/env python3
"""Writes words.npz: the constants of multilingual-e5-small's word codes (`recollect_server.recall.model.word_codes`).

  pip download --no-deps chatterbot-corpus==1.3.3 spacy==3.8.18 -d FROM     # BSD, MIT; read, never imported
  cd FROM && apt-get download PACKAGES                                     # of Debian 12, below; GPL or public domain
  python models/e5/word_codes.py FROM OUT.npz

The mean of the last hidden states of word pieces, each of length 1: of texts and of questions. Then 256 directions: the main ones of
what is left (PCA), turned so that the signs along them say as much as they can (ITQ, Gong and Lazebnik 2011). Of up to 60 texts of a
language from each kind of source; every language counts alike in the means, and one of few pieces less in the directions.
"""
import gzip, io, json, random, re, subprocess, sys, tarfile, zipfile
from pathlib import Path
import numpy as np, onnxruntime
from tokenizers import Tokenizer
from recollect_server.recall.model.embedder import _output

HERE, DIRECTIONS, PIECES = Path(__file__).parent, 256, 254
OF_LANGUAGE, LEAST, EVEN = 60, 200, 500  # texts of a source; pieces that a mean is of at least, and that count in full
DRAWN, TURNS = 20_000, 30
FORTUNES = {"de": "fortunes-de", "it": "fortunes-it", "ru": "fortunes-ru", "pl": "fortunes-pl", "zh": "fortunes-zh", "pt": "fortunes-br"}
GUIDES = {"de": "debian-faq-de", "en": "debian-faq", "es": "maint-guide-es", "fr": "debian-faq-fr", "it": "debian-faq-it", "ja": "debian-faq-ja",
          "ko": "debian-faq-ko", "nl": "debian-faq-nl", "pt": "debian-faq-pt", "ru": "debian-faq-ru", "zh": "debian-faq-zh-cn"}
TALK = {"bn": "bengali", "de": "german", "en": "english", "es": "spanish", "fa": "persian", "fr": "french", "he": "hebrew", "hi": "hindi",
        "id": "indonesian", "it": "italian", "ja": "japanese", "ko": "korean", "mr": "marathi", "nl": "dutch", "pt": "portuguese", "ru": "russian",
        "sv": "swedish", "ta": "tamil", "tr": "turkish", "uk": "ukrainian", "zh": "chinese"}
NO_LANGUAGE_OF_TODAY = {"xx", "grc", "la", "sa", "bo"}
def unit(x): return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-6)
def plain(text): return re.sub(r"\s+", " ", text).strip()
def is_text(text): return 30 <= len(text.encode()) and len(text) <= 700 and sum(map(str.isalpha, text)) >= 0.6 * len(text.replace(" ", ""))

def files(source, package):
    """The files of a Debian package by their names, in order."""
    deb, = source.glob(f"{package}_*.deb")
    with tarfile.open(fileobj=io.BytesIO(subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], capture_output=True, check=True).stdout)) as tar:
        return {it.name: tar.extractfile(it).read() for it in sorted(tar.getmembers(), key=lambda it: it.name) if it.isfile()}

def fortunes(source, package):
    for name, body in files(source, package).items():
        if "/games/fortunes/" in name and "off" not in name and not name.endswith((".dat", ".u8")):
            try: yield from map(plain, re.split(r"^%+.*$", re.sub(r"\x1b\[[0-9;]*m", "", body.decode()), flags=re.M))
            except UnicodeDecodeError: pass

def guide(source, package):
    body, = [it for name, it in files(source, package).items() if name.endswith(".txt.gz")]
    yield from map(plain, re.split(r"\n\s*\n", gzip.decompress(body).decode()))

def talk(source, name):
    wheel, = source.glob("chatterbot_corpus-*.whl")
    with zipfile.ZipFile(wheel) as z:
        for it in sorted(z.namelist()):
            if f"/{name}/" in it and it.endswith(".yml"):
                lines = (re.match(r"^\s*-\s+-?\s*(.+)$", line) for line in z.read(it).decode(errors="ignore").splitlines())
                yield from (line[1].strip("\"' ") for line in lines if line)

def examples(source):
    wheel, = source.glob("spacy-*.whl")
    with zipfile.ZipFile(wheel) as z:
        for name in sorted(z.namelist()):
            if name.endswith("/examples.py") and (code := name.split("/")[-2]) not in NO_LANGUAGE_OF_TODAY:
                values = {}; exec(z.read(name).decode(), values); yield from ((code, it, True) for it in values["sentences"])

def texts(source):
    """Texts with their language, and whether they are as short and spoken as questions."""
    for read, of in ((fortunes, FORTUNES), (guide, GUIDES), (talk, TALK)):
        for language, name in of.items():
            found = sorted({it for it in read(source, name) if is_text(it)})
            random.Random(name).shuffle(found)
            yield from ((language, it, read is talk and len(it) < 160) for it in found[:OF_LANGUAGE])
    yield from examples(source)

def main(source, out):
    session = onnxruntime.InferenceSession((HERE / "model.q4n.onnx").read_bytes() + _output("t213"), providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(HERE / "tokenizer.json")); tokenizer.no_padding(); tokenizer.no_truncation()
    begin, end = tokenizer.encode("").ids
    def states(prefix, chosen):
        marks, by_language = [begin, *tokenizer.encode(prefix, add_special_tokens=False).ids], {}
        for language, text, _ in chosen:
            ids = np.array([[*marks, *tokenizer.encode(text, add_special_tokens=False).ids[:PIECES], end]])
            of = session.run(["t213"], {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0][0, len(marks):-1]
            by_language.setdefault(language, []).append(unit(of))
        return {language: np.concatenate(them) for language, them in by_language.items()}
    def mean(of): return np.mean([it.mean(0) for it in of.values() if len(it) >= LEAST], 0)
    chosen = [*texts(Path(source))]
    passages, questions = states("passage:", chosen), states("query:", [it for it in chosen if it[2]])
    centre, spread = mean(passages), 0
    for it in passages.values(): spread = spread + (x := unit(it - centre)).T @ x / max(len(it), EVEN)
    directions = np.linalg.eigh(spread)[1][:, ::-1][:, :DIRECTIONS]
    pieces = np.concatenate([unit(it - centre) for it in passages.values()])
    share = np.concatenate([np.full(len(it), 1 / max(len(it), EVEN)) for it in passages.values()])
    draw = np.random.default_rng(0)
    drawn = unit(pieces[draw.choice(len(pieces), DRAWN, False, share / share.sum())] @ directions)
    turn = np.linalg.qr(draw.standard_normal((DIRECTIONS, DIRECTIONS)))[0]
    for _ in range(TURNS):
        left, _, right = np.linalg.svd(np.sign(drawn @ turn).T @ drawn)
        turn = (left @ right).T
    directions = directions @ turn
    values = unit(pieces @ directions)
    print(json.dumps({"texts": len(chosen), "languages": len(passages), "pieces": len(values), "of questions": sum(map(len, questions.values()))}))
    np.savez(out, mean=centre.astype(np.float16), question_mean=mean(questions).astype(np.float16), directions=directions.astype(np.float16),
             deviations=np.sqrt((values**2).mean(0)).astype(np.float16))

if __name__ == "__main__": main(*sys.argv[1:])
