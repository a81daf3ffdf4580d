"""Races with the embedder: whatever happens to conversations while their texts are embedded, in the
end there are the vectors that a server makes from nothing, in the file and in searches.

`HOSTILE_SCALE=20` tries 20 seeds, `RACE_SEEDS=100` so many, from `RACE_FIRST` on.
"""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from recollect_server.kernel.domain.ids import number_of, sequence_of
from recollect_server.recall.embedding import long_texts
from recollect_server.recall.vectors.file import NAME, remove_files

from tests.conftest import RunningServer, Start
from tests.hostile.test_races import seeds
from tests.server.conftest import Connect, Service, agent, user
from tests.server.test_redact import redact
from tests.waiting import until, until_embedded

WORDS = (
    "tyres winter brakes engine garage Kyoto journey temple flight hotel daughter school teacher"
    " homework exam bread butter milk oven recipe invoice tax budget salary rent doctor fever"
    " vaccine knee running guitar concert melody"
)
QUESTIONS = ["vehicle upkeep", "a trip to Japan", "kids' education", "groceries", "money", "health"]
LONG = 300  # bytes of a text that is long here
PLACES = (
    "SELECT p.place, hash, p.pieces, p.model, length(codes)"
    " FROM places p JOIN texts t USING (text) LEFT JOIN codes USING (text)"
)


class Chaos:
    """A caller that appends, redacts, deletes and begins again, at random."""

    def __init__(self, service: Service, seed: str) -> None:
        self._service = service
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._own: list[str] = []
        self._turns: dict[str, int] = {}
        self._free: list[str] = []

    def run(self, rounds: int) -> None:
        """Make calls, one after the other."""
        for _ in range(rounds):
            act = self._random.choices(
                [self._begin, self._append, self._abbreviate, self._redact, self._delete],
                [2, 6, 1, 3, 1.5],
            )[0]
            act()

    def _text(self) -> str:
        count = self._random.choice([3, 6, 9, 9, 120])
        return " ".join(self._random.choices(WORDS.split(), k=count))

    def _begin(self) -> None:
        name = self._free.pop() if self._free and self._random.random() < 0.7 else ""
        own = self._service.create("web", conversation_id=name).id
        self._own.append(own)
        self._turns[own] = 0
        self._say(own)

    def _say(self, name: str) -> None:
        self._service.append(name, user(self._text()), agent(self._text()))
        self._turns[name] += 1

    def _append(self) -> None:
        if not self._own:
            self._begin()
        self._say(self._random.choice(self._own))

    def _abbreviate(self) -> None:
        if self._own:
            self._service.abbreviate(self._random.choice(self._own), self._text())

    def _redact(self) -> None:
        if self._own:
            name = self._random.choice(self._own)
            redact(self._service, name, turn_number=self._random.randint(1, self._turns[name]))

    def _delete(self) -> None:
        if self._own:
            name = self._own.pop(self._random.randrange(len(self._own)))
            self._service.delete(name)
            self._free.append(name)


def places(server: RunningServer) -> set[tuple[object, ...]]:
    """Return what is embedded: conversation, line, hash of the text, pieces, model, and the bytes
    of its codes.
    """
    path = str(server.folder / NAME)
    with closing(apsw.Connection(path, apsw.SQLITE_OPEN_READONLY)) as connection:
        assert connection.execute("SELECT count(*) FROM parts").get == 0
        keys: list[Any] = connection.execute("SELECT key, id FROM conversations").fetchall()
        rows: list[Any] = connection.execute(PLACES).fetchall()
    names = dict(keys)
    return {(names[number_of(place)], sequence_of(place), *rest) for place, *rest in rows}


def until_coded(service: Service, server: RunningServer) -> None:
    """Wait until everything is embedded, and the long texts have the codes of their word pieces:
    they are made once nothing waits to be embedded, and only then count in the scores.
    """
    until_embedded(service, server)
    until(lambda: all(place[-1] is not None for place in places(server)))


def near(service: Service) -> dict[str, list[tuple[str, int, float]]]:
    """Return the hits of questions that share no word with what is said, with their scores."""
    return {
        question: sorted(
            (it.conversation_id, it.sequence, round(it.score, 4))
            for it in service.search(question, limit=50).hits
        )
        for question in QUESTIONS
    }


def test_vectors_are_those_of_a_fresh_start_whatever_happened_while_they_were_computed(
    start_server: Start,
    connect: Connect,
    scale: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(long_texts, "LONG", LONG)
    for seed in seeds(scale):
        server = start_server(embedder="onnx", data_dir=tmp_path / str(seed))
        service = connect(server)
        callers = [Chaos(service, f"{seed}.{number}") for number in range(4)]
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda caller: caller.run(25), callers))
        # Once it is embedded, what the redactions before it removed was looked at too.
        service.conversation_of("The last message.")
        until_coded(service, server)
        grown, hits = places(server), near(service)
        server.stop()
        remove_files(server.folder)
        again = start_server(embedder="onnx", data_dir=tmp_path / str(seed))
        service = connect(again)
        until_coded(service, again)
        assert grown ^ places(again) == set(), f"seed {seed}"
        assert hits == near(service), f"seed {seed}"
        again.stop()
