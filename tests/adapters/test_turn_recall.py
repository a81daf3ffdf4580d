"""The code that the toolkits' forms of recall share, where no toolkit shows it."""

from recollect import Client
from recollect.adapters.turn_recall import Turn, TurnRecall

from tests.adapters.conftest import QUESTION, Past


def nobody() -> None:
    """Find no conversation."""


def test_agents_that_run_in_parallel_in_one_turn_all_recall(client: Client, past: Past) -> None:
    recall, turn, inner = TurnRecall(), Turn(1, QUESTION), list[str]()

    def find_meanwhile() -> None:
        inner.append(recall.text(client, "alex", turn, nobody))

    outer = recall.text(client, "alex", turn, find_meanwhile)
    assert past.is_in(outer)
    assert inner == [outer]
    assert recall.text(client, "alex", turn, nobody) == outer
    assert len(past.builds) == 2


def test_the_texts_of_the_latest_thousand_sessions_are_held(client: Client, past: Past) -> None:
    recall, turn = TurnRecall(), Turn(1, QUESTION)
    builds: list[int] = []
    for others in (0, 600, 600, 1024):
        for number in range(others):
            assert recall.text(client, f"{len(builds)}-{number}", Turn(1, " "), nobody) == ""
        assert past.is_in(recall.text(client, "alex", turn, nobody))
        builds.append(len(past.builds))
    assert builds == [1, 1, 1, 2]
