"""Share of the right messages that Search finds in ten languages, and for English questions about
text in another language.

`python -m bench.languages [--words] [--languages de ja ...] [--set DIR]
[--questions OUT.jsonl] [FLAG ...]`

A space has every text of the set, six of one language in a conversation; each question is put to
all of it. `--words` asks by keyword alone; flags that are not of the benchmark go to the server.
Where the texts come from is in the README of this folder.
"""

import argparse
import itertools
import random
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import orjson
from recollect import Client, Message

from bench.figures import Figure, Goal
from bench.recall import whole
from bench.servers import embedded, recollect

FOLDER = Path(__file__).parent
TEXTS = ("help.jsonl", "story.jsonl")
QUESTIONS = "questions.jsonl"
DEPTHS = (1, 10)
ENGLISH = "en"
_TOGETHER = 6  # texts of a conversation


class Text(NamedTuple):
    """A text of the set."""

    id: str
    language: str
    text: str


class Question(NamedTuple):
    """A question, and the text that answers it."""

    query: str
    language: str
    text: str


def read_texts(folder: Path = FOLDER) -> list[Text]:
    """Return all texts of the set."""
    lines = [line for name in TEXTS for line in (folder / name).read_bytes().splitlines()]
    return [Text(it["id"], it["language"], it["text"]) for it in map(orjson.loads, lines)]


def read_questions(folder: Path = FOLDER) -> list[Question]:
    """Return all questions of the set."""
    lines = (folder / QUESTIONS).read_bytes().splitlines()
    return [Question(**orjson.loads(line)) for line in lines]


def write(client: Client, texts: list[Text]) -> dict[tuple[str, int], str]:
    """Write the texts, and return the id of each by its conversation and sequence."""
    ids: dict[tuple[str, int], str] = {}
    shuffled = random.Random(1).sample(texts, len(texts))
    shuffled.sort(key=lambda it: it.language)
    for _, of_language in itertools.groupby(shuffled, lambda it: it.language):
        own = list(of_language)
        for first in range(0, len(own), _TOGETHER):
            conversation = client.conversations.create("web").id
            for text in own[first : first + _TOGETHER]:
                turn = client.conversations.append_turn(conversation, [Message.user(text.text)])
                ids[conversation, turn.messages[0].sequence] = text.id
    return ids


def report(name: str, ranks: list[int | None]) -> dict[int, float]:
    """Print and return the share of questions whose text is among the first so many, in percent."""
    shares = {
        depth: 100 * sum(rank is not None and rank < depth for rank in ranks) / len(ranks)
        for depth in DEPTHS
    }
    figures = ", ".join(f"any@{depth} {share:5.1f}" for depth, share in shares.items())
    print(f"{name:24} {len(ranks):4}  {figures}")
    return shares


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the shares of each language and of all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--words", action="store_true", help="by keyword alone")
    parser.add_argument("--languages", nargs="+", metavar="CODE", help="only questions about these")
    parser.add_argument("--set", type=Path, default=FOLDER, help="a folder with another set")
    parser.add_argument("--questions", type=Path, help="writes each question's rank")
    chosen, flags = parser.parse_known_args(arguments)
    texts, questions = read_texts(chosen.set), read_questions(chosen.set)
    language_of = {text.id: text.language for text in texts}
    if chosen.words:
        flags += ["--embedder", "off"]
    own: dict[str, list[int | None]] = defaultdict(list)
    across: dict[str, list[int | None]] = defaultdict(list)
    lines = []
    with (
        tempfile.TemporaryDirectory() as folder,
        recollect(Path(folder) / "data", *flags) as (target, _),
        Client(target) as client,
    ):
        ids = write(client, texts)
        if not chosen.words:
            embedded(Path(folder) / "data")
        for question in questions:
            language = language_of[question.text]
            if chosen.languages and language not in chosen.languages:
                continue
            search = partial(client.recall.search, question.query, limit=max(DEPTHS))
            answer = search() if chosen.words else whole(search)
            hits = [ids[hit.conversation_id, hit.sequence] for hit in answer.hits]
            rank = hits.index(question.text) if question.text in hits else None
            (own if question.language == language else across)[language].append(rank)
            lines.append(orjson.dumps({**question._asdict(), "rank": rank, "hits": hits[:3]}))
    if chosen.questions:
        chosen.questions.write_bytes(b"\n".join(lines) + b"\n")
    for language in sorted(own):
        report(language, own[language])
    for language in sorted(across):
        report(f"{language}, asked in English", across[language])
    goals = {"own": (55, 85), "across": (None, 60)}
    figures = []
    for kind, ranks in (("own", own), ("across", across)):
        if not ranks:  # another set may have questions of one kind alone
            continue
        shares = report(f"all, {kind}", [rank for each in ranks.values() for rank in each])
        for (depth, share), goal in zip(shares.items(), goals[kind], strict=True):
            limit = Goal(goal, least=True) if goal and not chosen.words else None
            figures.append(Figure(f"{kind} language any@{depth}", share, "%", goal=limit))
    return figures


if __name__ == "__main__":
    main()
