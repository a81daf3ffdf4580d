"""Makes recall sets of other kinds out of two, so that weights are not learned from a few kinds
alone.

`python -m bench.kinds --chat DIR --agent DIR --out DIR`: `--chat` is a set of short chat between
people (FriendsQA), `--agent` one of people with an agent that answers at length (RealMem). Both are
openly licensed, and so is what is made from them. Each kind breaks a bond between how a text is and
how it is asked about:

- `answers`: a person's later question is taken out of a conversation that no question of the set is
  about, and finds its answer
- `cloze`: a sentence of a long answer is taken out, and finds the rest
- `mentions`: a few rare words of a sentence that a person said to the agent find that message, not
  the answer that repeats them
- `dated`: a common word and the time at which a person said it to the agent find the message
- `chat`: a question that one says to the other is taken out, and finds the reply
- `speakers`: the name of a person and a few rare words of a message of theirs find that message,
  not one of others who speak of the same thing
- `reworded`: the questions of the sets, in which most of the words that they share with the answer
  are others: words that nobody said, or that others said as often; embedded as they were
- `merged`: the chat with five messages in one; `anon`: the chat without names; `mixed`: one history
  of both sets' messages
- `small`: histories of 1 to 20 conversations, as one who begins has them, with the questions that
  they answer
- `docs`: the first sentence of a function's docstring finds the rest, of some modules of Python and
  numpy
"""

import argparse
import importlib
import inspect
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
from recollect.imports import recall_sets
from recollect_server.text.languages import STOP_WORDS

from bench.recall import QUERIES

Line = dict[str, Any]
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_MODULES = (
    "os shutil pathlib re json csv sqlite3 datetime time random math statistics itertools functools collections heapq bisect"
    " threading queue subprocess socket ssl email.message http.client urllib.parse urllib.request logging argparse configparser"
    " tempfile glob fnmatch zipfile tarfile gzip hashlib hmac secrets struct codecs string textwrap difflib inspect ast dis typing"
    " dataclasses enum contextlib asyncio unittest unittest.mock doctest pdb timeit decimal fractions numpy numpy.linalg"
    " numpy.random numpy.fft"
)
_WORD = re.compile(r"\w+")
_RARE = 20  # conversations that have a word of `mentions`
_MENTIONS = (
    "What did I say about {}?",
    "Did I mention {} before?",
    "Have I ever told you about {}?",
    "I mentioned {} some time ago, what was it?",
    "Can you remind me what I planned with {}?",
    "What did I tell you about {}?",
)
_DATED = (
    "What did I say about {} {}?",
    "What was the plan for the {} {}?",
    "Which {} came up {}?",
    "What happened with the {} {}?",
    "What did we decide about {} {}?",
)
_SPEAKERS = (
    "What did {0} say about {1}?",
    "What does {0} think about {1}?",
    "When did {0} mention {1}?",
    "Why did {0} talk about {1}?",
    "What was it with {0} and {1}?",
    "{1}: what did {0} tell?",
)
_CHANCE = random.Random(7)
_REWORDED = 0.8  # chance that a word shared with the answer becomes another
_MOST_REWORDED = 400  # questions of each set that are asked in other words


def read(path: Path) -> list[Line]:
    """Return the lines of a file."""
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def ask(group: str, conversation: str, query: str, message: str) -> Line:
    """Return a question with one right message."""
    name = f"{conversation}/{message}"
    return {
        "group": group, "id": name, "query": query, "category": "made",
        "gold_messages": [message], "gold_conversations": [conversation],
    }  # fmt: skip


def bare(conversation: Line, messages: list[Line]) -> Line:
    """Return the conversation with other messages, and without its abbreviation."""
    return {name: value for name, value in conversation.items() if name != "abbreviation"} | {
        "messages": messages
    }


def answers(agent: list[Line]) -> Iterator[tuple[Line, list[Line]]]:
    """Yield each conversation of the kind, with its questions."""
    for it in agent:
        messages = it["messages"]
        answered = [
            at
            for at, (one, next_one) in enumerate(pairwise(messages))
            if one["role"] == "user" and next_one["role"] == "assistant"
            and 25 < len(one["content"]) < 400 and len(next_one["content"]) > 200
        ]  # fmt: skip
        if answered and _CHANCE.random() < 0.45:
            at = _CHANCE.choice(answered)
            question = ask(it["group"], it["id"], messages[at]["content"], messages[at + 1]["id"])
            yield bare(it, messages[:at] + messages[at + 1 :]), [question]
        else:
            yield bare(it, messages), []


def cloze(agent: list[Line]) -> Iterator[tuple[Line, list[Line]]]:
    """Yield as `answers`."""
    for it in agent:
        messages = [dict(message) for message in it["messages"]]
        questions: list[Line] = []
        long = [
            message
            for message in messages
            if message["role"] == "assistant" and len(message["content"]) > 600
        ]
        if long and _CHANCE.random() < 0.35:
            message = _CHANCE.choice(long)
            sentences = _SENTENCE.split(message["content"])
            fit = [at for at, sentence in enumerate(sentences) if 50 < len(sentence) < 220]
            if fit and len(sentences) > 4:
                at = _CHANCE.choice(fit)
                questions.append(ask(it["group"], it["id"], sentences[at], message["id"]))
                message["content"] = " ".join(sentences[:at] + sentences[at + 1 :])
        yield bare(it, messages), questions


def mentions(agent: list[Line]) -> Iterator[tuple[Line, list[Line]]]:
    """Yield as `answers`."""
    spread = _spread(agent)
    for it in agent:
        questions: list[Line] = []
        for message in it["messages"]:
            if message["role"] != "user" or _CHANCE.random() > 0.5:
                continue
            sentences = [
                part
                for part in _SENTENCE.split(message["content"])
                if 40 < len(part) < 250 and not part.endswith("?")
            ]
            if not sentences:
                continue
            words = _rare_words(_CHANCE.choice(sentences), spread)[:4]
            if len(words) > 1:
                query = _CHANCE.choice(_MENTIONS).format(" ".join(words))
                questions.append(ask(it["group"], it["id"], query, message["id"]))
        yield bare(it, it["messages"]), questions[:1]


def speakers(people: list[Line]) -> Iterator[tuple[Line, list[Line]]]:
    """Yield as `answers`."""
    spread = _spread(people)
    names = {
        word.lower()
        for it in people
        for m in it["messages"]
        for word in m.get("sender", "").split()
    }
    for it in people:
        questions: list[Line] = []
        for message in it["messages"]:
            words = [
                word
                for word in _rare_words(message["content"], spread)
                if word.lower() not in names
            ][:2]
            name = message.get("sender", "?").split()[0]
            if len(words) > 1 and name.isalpha():
                query = _CHANCE.choice(_SPEAKERS).format(name, " ".join(words))
                questions.append(ask(it["group"], it["id"], query, message["id"]))
        yield bare(it, it["messages"]), _CHANCE.sample(questions, min(3, len(questions)))


def _spread(lines: list[Line]) -> Counter[str]:
    """Return in how many conversations each word is."""
    return Counter(
        word
        for it in lines
        for word in {*_WORD.findall(" ".join(m["content"] for m in it["messages"]).lower())}
    )


def _rare_words(text: str, spread: Counter[str]) -> list[str]:
    """Return the longer words of a text that few conversations have."""
    return [
        word
        for word in dict.fromkeys(_WORD.findall(text))
        if len(word) > 3 and spread[word.lower()] <= _RARE
    ]


def dated(agent: list[Line]) -> Iterator[tuple[Line, list[Line]]]:
    """Yield as `answers`."""
    for it in agent:
        questions: list[Line] = []
        for message in it["messages"]:
            words = [word for word in _WORD.findall(message["content"]) if len(word) > 5]
            if message["role"] == "user" and words and _CHANCE.random() < 0.3:
                when = datetime.fromisoformat(message["timestamp"].replace("Z", "+00:00"))
                day = f"{when:%B} {when.day}, {when.year}"
                time = _CHANCE.choice((f"on {day}", f"on {day}", f"in {when:%B %Y}"))
                query = _CHANCE.choice(_DATED).format(_CHANCE.choice(words).lower(), time)
                questions.append(ask(it["group"], it["id"], query, message["id"]))
        yield bare(it, it["messages"]), questions[:1]


def chat(people: list[Line]) -> Iterator[tuple[Line, list[Line]]]:
    """Yield as `answers`."""
    for it in people:
        messages, out, questions = it["messages"], set[int](), list[Line]()
        for at in range(2, len(messages) - 1):
            query = " ".join(
                part for part in _SENTENCE.split(messages[at]["content"]) if part.endswith("?")
            )
            if (
                messages[at]["content"].rstrip().endswith("?")
                and at - 1 not in out
                and _CHANCE.random() < 0.18
                and len(query.split()) > 4
            ):
                out.add(at)
                questions.append(ask(it["group"], it["id"], query, messages[at + 1]["id"]))
        yield bare(it, [message for at, message in enumerate(messages) if at not in out]), questions


def merged(people: list[Line], queries: list[Line]) -> tuple[list[Line], list[Line]]:
    """Return the conversations of the kind, and its questions."""
    place: dict[str, str] = {}
    made: list[Line] = []
    for it in people:
        parts = [it["messages"][at : at + 5] for at in range(0, len(it["messages"]), 5)]
        place |= {message["id"]: part[0]["id"] + "+" for part in parts for message in part}
        messages = [
            {
                "id": part[0]["id"] + "+",
                "role": ("user", "assistant")[at % 2],
                "content": "\n".join(
                    f"{message['sender']}: {message['content']}" for message in part
                ),
                "timestamp": part[0]["timestamp"],
            }
            for at, part in enumerate(parts)
        ]
        made.append(bare(it, messages))
    return made, [
        query | {"gold_messages": sorted({place[name] for name in query["gold_messages"]})}
        for query in queries
    ]


def reworded(sets: Sequence[tuple[list[Line], list[Line]]]) -> tuple[list[Line], list[Line]]:
    """Return conversations and questions as `merged`."""
    chance = random.Random(11)
    lines: list[Line] = []
    made: list[Line] = []
    for conversations, queries in sets:
        texts = {m["id"]: m["content"] for it in conversations for m in it["messages"]}
        senders = [m.get("sender", "") for it in conversations for m in it["messages"]]
        names_and_stops = STOP_WORDS | set(_WORD.findall(" ".join(senders).lower()))
        spread = _spread(conversations)
        alike: dict[int, list[str]] = {}
        for word in sorted(spread.keys() - names_and_stops):
            if word.isalpha():
                alike.setdefault(spread[word].bit_length(), []).append(word)
        chosen = chance.sample(queries, min(_MOST_REWORDED, len(queries)))
        for query in chosen:
            gold = " ".join(texts[name] for name in query["gold_messages"]).lower()
            shared = {*map(_stem, _WORD.findall(gold))}
            words = {
                word: _another(alike.get(spread[word.lower()].bit_length(), ()), chance)
                for word in dict.fromkeys(_WORD.findall(query["query"]))
                if word.lower() not in names_and_stops
                and _stem(word.lower()) in shared
                and chance.random() < _REWORDED
            }
            if words:
                text = _WORD.sub(partial(_replaced, words), query["query"])
                made.append(query | {"query": text, "meant": query["query"]})
        groups = {query["group"] for query in chosen}
        lines += [bare(it, it["messages"]) for it in conversations if it["group"] in groups]
    return lines, made


def _another(alike: Sequence[str], chance: random.Random) -> str:
    """Return a word that nobody said, or one of those that are as common."""
    if not alike or chance.random() < 0.5:
        return f"qz{chance.randrange(10**6)}x"
    return chance.choice(alike)


def _replaced(words: dict[str, str], match: re.Match[str]) -> str:
    return words.get(match.group(), match.group())


def _stem(word: str) -> str:
    """Return the beginning of a word that its forms share, about."""
    return word[: max(4, len(word) - 3)]


def mixed(sets: Sequence[tuple[list[Line], list[Line]]]) -> tuple[list[Line], list[Line]]:
    """Return conversations and questions as `merged`."""
    names = zip(*(sorted({it["group"] for it in lines}) for lines, _ in sets), strict=False)
    of = {name: "+".join(pair) for pair in names for name in pair}
    lines = [
        bare(it, it["messages"]) | {"group": of[it["group"]]}
        for lines, _ in sets
        for it in lines
        if it["group"] in of
    ]
    questions = [
        query | {"group": of[query["group"]]}
        for _, queries in sets
        for query in queries[::2]
        if query["group"] in of
    ]
    return lines, questions


def small(sets: Sequence[tuple[list[Line], list[Line]]]) -> tuple[list[Line], list[Line]]:
    """Return conversations and questions as `merged`."""
    lines: list[Line] = []
    questions: list[Line] = []
    for number, (conversations, queries) in enumerate(sets):
        of = min(it["group"] for it in conversations)
        there = {it["id"]: it for it in conversations if it["group"] == of}
        answered = [it for it in queries if it["group"] == of and it["gold_messages"]]
        for size in (1, 2, 3, 4, 6, 8, 10, 14, 20):
            chosen: set[str] = set()
            for query in _CHANCE.sample(answered, len(answered)):
                if len(chosen.union(query["gold_conversations"])) <= size:
                    chosen.update(query["gold_conversations"])
            group = {"group": f"small{number}x{size}"}
            lines += [bare(there[name], there[name]["messages"]) | group for name in sorted(chosen)]
            questions += [
                it | group | {"asked_at": None}
                for it in answered
                if chosen.issuperset(it["gold_conversations"])
            ][:10]
    return lines, questions


def docs() -> Iterator[tuple[Line, list[Line]]]:
    """Yield as `answers`."""
    firsts: set[str] = set()
    for number, module in enumerate(_MODULES.split()):
        imported = importlib.import_module(module)
        parts: list[tuple[str, str, str]] = []
        for name in sorted(vars(imported)):
            text = (
                (inspect.getdoc(getattr(imported, name)) or "")
                if callable(getattr(imported, name))
                else ""
            )
            first, _, rest = text.partition("\n\n")
            if (
                not name.startswith("_")
                and 20 < len(first) < 160
                and 120 < len(rest) < 1800
                and first not in firsts
            ):
                firsts.add(first)
                parts.append((name, " ".join(first.split()), rest))
        for at in range(0, min(len(parts), 45), 6):
            messages: list[Line] = []
            questions: list[Line] = []
            conversation, group = f"{module}.{at}", f"docs{number % 3}"
            for name, first, rest in parts[at : at + 6]:
                when = f"2026-01-{1 + len(firsts) % 28:02d}T{at % 24:02d}:00:00Z"
                here = f"{module}.{name}"
                messages.append(
                    {
                        "id": f"{here}?",
                        "role": "user",
                        "content": f"What about {name}?",
                        "timestamp": when,
                    }
                )
                messages.append(
                    {"id": here, "role": "assistant", "content": rest, "timestamp": when}
                )
                if _CHANCE.random() < 0.55:
                    query = (
                        f"How do I {first[0].lower()}{first[1:].rstrip('.')}?"
                        if _CHANCE.random() < 0.7
                        else first
                    )
                    questions.append(ask(group, conversation, query, here))
            yield (
                {
                    "group": group,
                    "id": conversation,
                    "started": messages[0]["timestamp"],
                    "messages": messages,
                },
                questions,
            )


def write(folder: Path, lines: list[Line], queries: list[Line]) -> None:
    """Write a set."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in ((recall_sets.FILE, lines), (QUERIES, queries)):
        (folder / name).write_bytes(
            b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
        )
    print(f"{folder.name}: {len(lines)} conversations, {len(queries)} questions")


def main(arguments: Sequence[str] | None = None) -> None:
    """Write every kind."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("chat", "agent", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True, metavar="DIR")
    parser.add_argument("--meetings", type=Path, metavar="DIR", help="a set for `reworded` too")
    chosen = parser.parse_args(arguments)
    people, agent = (
        (read(folder / recall_sets.FILE), read(folder / QUERIES))
        for folder in (chosen.chat, chosen.agent)
    )
    others = [it for it in agent[0] if not (it.get("abbreviation") or "").strip()]
    for name, pairs in (
        ("answers", answers(others)),
        ("cloze", cloze(others)),
        ("mentions", mentions(others)),
        ("chat", chat(people[0])),
        ("docs", docs()),
    ):
        made = list(pairs)
        write(
            chosen.out / name,
            [line for line, _ in made],
            [query for _, questions in made for query in questions],
        )
    write(chosen.out / "merged", *merged(*people))
    nameless = [
        bare(
            it,
            [
                {key: value for key, value in message.items() if key != "sender"}
                for message in it["messages"]
            ],
        )
        for it in people[0]
    ]
    write(chosen.out / "anon", nameless, people[1][::2])
    write(chosen.out / "mixed", *mixed((people, agent)))
    write(chosen.out / "small", *small((people, agent)))
    meetings = [
        (read(folder / recall_sets.FILE), read(folder / QUERIES))
        for folder in (chosen.meetings,)
        if folder
    ]
    write(chosen.out / "reworded", *reworded((people, agent, *meetings)))
    # last, so the others are as they were before these
    for name, pairs in (("dated", dated(others)), ("speakers", speakers(people[0]))):
        made = list(pairs)
        write(
            chosen.out / name,
            [line for line, _ in made],
            [query for _, questions in made for query in questions],
        )


if __name__ == "__main__":
    main()
