"""Contexts for one person who talks with an assistant: what was said is asked for again.

`python -m bench.assistant [--by words meaning] [--vectors FILE.npz] [--show]`

The talk is made up (`assistant.txt`) and asked for at default settings: facts of 160 turns, of
which half come in two parts, in the conversation itself and in a new one; facts that were corrected
twice; questions that lean on the one before; the facts again after each question was asked three
times and answered "I don't know that"; and what nothing answers: small talk, and another's
questions.
`--show` prints some contexts as a model gets them.
"""

import argparse
import logging
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path

import structlog
from recollect import BuiltContext, Client, ContextFormat, Message
from recollect_server.kernel.domain.time import DAY

from bench.dialogue import WAYS, recall_of, remembered, served
from bench.figures import Figure, Goal
from bench.packing import Group
from bench.recall import whole
from bench.servers import embedded
from bench.small_talk import SMALL_TALK

_TALK = Path(__file__).with_name("assistant.txt")
_TURNS = 160
_BEGIN = 1_772_409_600_000  # 2 March 2026
_EMPTY = "I don't know that. You have not said so."
_REPLIES = ("Noted.", "I see. Tell me when there is news about it.", "Good to know, I'll keep it.")
_STRANGERS = (
    "When did Caroline join the support group?", "What kind of guitar does Evan restore?",
    "Which marathon did Joanna train for?", "What did Melanie paint last autumn?",
    "Who is the keynote speaker at the Denver summit?", "How many puppies did Biscuit have?",
    "What was the verdict in the Larsen trial?", "Which vaccine does Tobias still need?",
    "Where did Deborah scatter the ashes?", "What instrument did John's father build?",
    "What is the interest on the Meridian loan?", "Which museum bought the sculpture from Audrey?",
    "Why did Calvin leave the band?", "What colour did Priya dye her hair?",
    "When is the parole hearing of Mr Dunn?", "Which wine did the sommelier send back?",
    "How did Gina's dance studio raise money?", "What is the tail number of Sam's plane?",
    "Which chapter did the editor cut?", "What did the oracle predict for the shepherd?",
)  # fmt: skip


def parts() -> list[list[list[str]]]:
    """Return the parts of the made-up talk: facts, corrections, follow-ups and small questions."""
    made: list[list[list[str]]] = []
    for line in _TALK.read_text().splitlines():
        if line.startswith("#"):
            made.append([])
        else:
            made[-1].append([part.strip() for part in line.split("|")])
    return made


class Talk:
    """One person's conversations, a turn a minute of which forty make a day."""

    def __init__(self, group: Group, data: Path | None, small: Sequence[Sequence[str]]) -> None:
        self.client: Client = group.client
        self._clock, self._data = group.clock, data
        self._clock.now = _BEGIN  # answers take no time
        self._small = cycle(small)
        self.here = self.client.conversations.create("bench").id

    def say(self, text: str, answer: str = "") -> None:
        """Append a turn."""
        self._clock.now += DAY // 40
        now = datetime.fromtimestamp(self._clock.now / 1000, UTC)
        self.client.conversations.append_turn(
            self.here,
            [
                Message.user(text, timestamp=now),
                Message.assistant(answer or _REPLIES[len(text) % 3], timestamp=now),
            ],
        )

    def chat(self, turns: int) -> None:
        """Append turns about nothing."""
        for _ in range(turns):
            self.say(*next(self._small))

    def tell(self, facts: Sequence[Sequence[str]], turns: int) -> None:
        """Append facts; what came of one is said two turns after it; small talk fills the rest."""
        before = self._turns
        for pair in (facts[at : at + 2] for at in range(0, len(facts), 2)):
            for first, *_ in pair:
                self.say(first)
            for _, second, *_ in pair:
                if second != "-":
                    self.say(second)
            self.chat(1)
        self.chat(turns - (self._turns - before))

    @property
    def _turns(self) -> int:
        return self.client.conversations.get(self.here).turn_count

    def elsewhere(self) -> None:
        """Begin another conversation."""
        self.here = self.client.conversations.create("bench").id

    def build(self, question: str, form: ContextFormat | None = None) -> BuiltContext:
        """Return a context for a question."""
        self._settle()
        return whole(lambda: self.client.recall.build_context(self.here, question, format=form))

    def finds(self, question: str, gold: str) -> bool:
        """Return whether the answer's turn is among the first ten messages of Search."""
        self._settle()
        texts = []
        for hit in whole(lambda: self.client.recall.search(question)).hits[:10]:
            turns = self.client.recall.fetch_context(hit.conversation_id, (hit.turn_number,) * 2)
            texts += [it.content for it in turns.messages]
        return any(gold in it for it in texts)

    def _settle(self) -> None:
        if self._data:
            embedded(self._data)


def holds(built: BuiltContext, gold: str) -> bool:
    """Return whether a context has the words of the answer."""
    return any(gold in it.message.content for it in (*built.hot, *built.warm, *built.cold))


@contextmanager
def talking(way: str, small: Sequence[Sequence[str]]) -> Iterator[Talk]:
    """Serve a new person."""
    with served([], {"embedder": "off" if way == "words" else "onnx"}, is_one=True) as group:
        yield Talk(group, group.data, small)


def measure(way: str, *, show: bool) -> list[Figure]:
    """Ask everything in one way; print and return the figures."""
    facts, corrections, follow_ups, small = parts()
    made: list[Figure] = []

    def figure(name: str, value: float, of: int = 0, *, goal: float | None = None) -> None:
        limit = Goal(goal, least=bool(of)) if goal is not None else None
        made.append(
            Figure(name, value, f"of {of}" if of else "tokens", goal=limit, part=f"by {way}")
        )
        print(f"    {name:<44} {value:6.0f}{f' of {of}' if of else ' tokens'}", flush=True)

    def shown(talk: Talk, question: str, at: int) -> None:
        if show and at < 2:
            print(f"--- {question}\n{talk.build(question, ContextFormat.XML).rendered}\n")

    print(f"by {way}")
    with talking(way, small) as talk:
        talk.tell(facts, _TURNS)
        own = [talk.build(question) for _, _, question, _ in facts]
        figure(
            "facts, in the conversation", sum(map(holds, own, (it[3] for it in facts))), 40, goal=37
        )
        talk.elsewhere()
        apart = [talk.build(question) for _, _, question, _ in facts]
        figure("facts, in a new one", sum(map(holds, apart, (it[3] for it in facts))), 40, goal=37)
        figure("tokens of recall for them", statistics.fmean(map(recall_of, apart)))
        figure("found by Search among ten", sum(talk.finds(it[2], it[3]) for it in facts), 40)
        for kind, texts in (
            ("small talk", [it for several in SMALL_TALK.values() for it in several]),
            ("another's questions", list(_STRANGERS)),
        ):
            figure(
                f"tokens of recall for {kind}",
                statistics.fmean(recall_of(talk.build(it)) for it in texts),
            )
        for at, fact in enumerate(facts[::15]):
            shown(talk, fact[2], at)
        for _ in range(3):
            talk.elsewhere()
            for fact in facts:
                talk.say(fact[2], _EMPTY)
        talk.elsewhere()
        count = sum(holds(talk.build(it[2]), it[3]) for it in facts)
        figure("facts, after three askings", count, 40, goal=26)
    with talking(way, small) as talk:
        for step in range(3):
            for correction in corrections:
                talk.say(correction[step])
                talk.chat(2)
        talk.chat(60)
        talk.elsewhere()
        figure(
            "corrected facts", sum(holds(talk.build(it[3]), it[4]) for it in corrections), 7, goal=7
        )
        for at, it in enumerate(corrections):
            shown(talk, it[3], at)
    with talking(way, small) as talk:
        for it in follow_ups:
            talk.say(it[0])
            talk.chat(6)
        count = 0
        for at, it in enumerate(follow_ups):
            talk.elsewhere()
            talk.say(it[1], it[2])
            count += holds(talk.build(it[3]), it[4])
            shown(talk, it[3], at)
        figure("follow-ups", count, 10, goal=9)
    return made


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--by", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--vectors", type=Path, metavar="FILE.npz", help="keeps the vectors here")
    parser.add_argument("--show", action="store_true", help="print some contexts")
    chosen = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with remembered(chosen.vectors):
        return [it for way in chosen.by for it in measure(way, show=chosen.show)]


if __name__ == "__main__":
    main()
