"""Standing instructions are found by their occasion."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from recollect import Client, DateRange, Message, Unavailable

from tests.conftest import Start
from tests.waiting import until

INSTRUCTION = "Always include exact dates when I ask about deadlines."
QUESTION = "When is the final submission due?"
TALK = [
    f"The final {it} of the report is due soon, said Carol."
    for it in (
        "submission",
        "version",
        "draft",
        "review",
        "print",
        "summary",
        "figure",
        "chapter",
        "page",
    )
]


def test_a_question_of_its_occasion_finds_a_standing_instruction_behind_the_best_hits(
    start_server: Start,
) -> None:
    with Client(start_server(embedder="onnx").target) as client:
        here = client.conversations.create("web", messages=[Message.user(INSTRUCTION)]).id
        for it in TALK:
            client.conversations.create("web", messages=[Message.user(it)])
        until(lambda: not client.recall.search("anything").degraded)
        until(lambda: client.recall.get_profile().statements)
        hits = client.recall.search(QUESTION).hits
        assert [it.conversation_id for it in hits].index(here) == 4
        statement = client.recall.get_profile().statements[0]
        client.recall.remove_profile_statement(here, statement.sequence, statement.start)
        left_out = [it.conversation_id for it in client.recall.search(QUESTION).hits]
        assert here not in left_out[:5]
        other = client.recall.search("What did Carol say of the print?").hits
        assert here not in [it.conversation_id for it in other[:5]]


@pytest.fixture
def client(start_server: Start) -> Iterator[Client]:
    with Client(start_server(embedder="onnx").target) as client:
        yield client


def _instructed(client: Client, channel: str, day: int) -> str:
    return client.conversations.create(
        channel,
        messages=[Message.user(INSTRUCTION, timestamp=datetime(2026, 3, day, tzinfo=UTC))],
    ).id


def _talk(client: Client) -> list[str]:
    day = datetime(2026, 3, 20, tzinfo=UTC)
    return [
        client.conversations.create("web", messages=[Message.user(it, timestamp=day)]).id
        for it in TALK
    ]


def _is_read(client: Client) -> None:
    until(lambda: not client.recall.search("anything").degraded)
    until(lambda: client.recall.get_profile().statements)


def test_an_instruction_outside_the_scope_of_a_search_is_no_hit(client: Client) -> None:
    elsewhere, talk = _instructed(client, "telegram", 2), _talk(client)
    _is_read(client)
    scopes: list[dict[str, Any]] = [
        {"channel": "web"},
        {"conversation_id": talk[0]},
        {"date_range": DateRange(start=datetime(2026, 3, 10, tzinfo=UTC))},
    ]
    for scope in scopes:
        answer = client.recall.search(QUESTION, **scope)
        assert answer.hits
        assert elsewhere not in {it.conversation_id for it in answer.hits}, scope
        assert elsewhere not in {it.conversation_id for it in answer.results}, scope


def test_of_two_instructions_the_one_within_the_scope_governs(client: Client) -> None:
    _instructed(client, "web", 2)
    within = client.conversations.create(
        "web",
        messages=[
            Message.user(
                "Always say the exact weekday when I ask about deadlines.",
                timestamp=datetime(2026, 3, 20, tzinfo=UTC),
            )
        ],
    ).id
    _talk(client)
    _is_read(client)
    until(lambda: len(client.recall.get_profile().statements) == 2)
    since = DateRange(start=datetime(2026, 3, 10, tzinfo=UTC))
    hits = client.recall.search(QUESTION, date_range=since).hits
    assert [it.conversation_id for it in hits].index(within) == 4


def test_a_copy_of_a_removed_instruction_governs_no_more(client: Client) -> None:
    copies = {_instructed(client, "web", 2), _instructed(client, "web", 3)}
    _talk(client)
    _is_read(client)
    (statement,) = client.recall.get_profile().statements
    client.recall.remove_profile_statement(
        statement.conversation_id, statement.sequence, statement.start
    )
    assert not client.recall.get_profile().statements
    hits = client.recall.search(QUESTION).hits
    assert copies.isdisjoint(it.conversation_id for it in hits[:5])


def test_a_search_alone_finds_an_instruction_of_just_now(client: Client) -> None:
    _talk(client)
    until(lambda: not client.recall.search(QUESTION).degraded)  # has read that there is none
    here = _instructed(client, "web", 21)
    until(lambda: client.recall.search(QUESTION).hits[4].conversation_id == here)
    assert client.recall.get_profile().statements


def test_a_search_answers_while_the_profile_cannot_be_read(
    start_server: Start, tmp_path: Path
) -> None:
    server = start_server(embedder="onnx")
    with Client(server.target) as client:
        here = _instructed(client, "web", 2)
        _talk(client)
        _is_read(client)
        path = server.data_dir / "default" / "conversations" / f"{here}.jsonl"
        path.rename(tmp_path / "away")
        path.mkdir()  # it cannot be read, and is not gone
        _instructed(client, "web", 3)  # so that all are read anew

        def is_unreadable() -> bool:
            with suppress(Unavailable):
                client.recall.get_profile()
                return False
            return True

        until(is_unreadable)
        hits = client.recall.search(QUESTION).hits
        path.rmdir()
        (tmp_path / "away").rename(path)
        assert hits
