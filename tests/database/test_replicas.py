"""Several servers over one database: whatever one acknowledges, the others answer at once."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.channels.conftest import ALEX, STRANGER, Post, home
from tests.conftest import RunningServer, Start
from tests.postgres import Postgres
from tests.server.conftest import agent, at_once, code_of, files_with, user
from tests.server.test_redact import redact
from tests.waiting import until


@dataclass
class Replicas:
    """Two servers over one database."""

    url: str
    servers: list[RunningServer]
    one: Post
    two: Post

    def __getitem__(self, number: int) -> Post:
        return (self.one, self.two)[number % 2]


@pytest.fixture
def replicas(postgres: Postgres, start_server: Start, tmp_path: Path) -> Iterator[Replicas]:
    """Start two servers, each with a folder of its own."""
    url = postgres.new_database()
    servers = [start_server(store=url, data_dir=tmp_path / name) for name in ("one", "two")]
    with Post(servers[0].target) as one, Post(servers[1].target) as two:
        yield Replicas(url, servers, one, two)


def said(service: Post, conversation_id: str) -> list[tuple[str, int, int]]:
    messages = service.load(conversation_id, max_turns=200).messages
    return [(it.content, it.sequence, it.turn_number) for it in messages]


def test_what_one_acknowledges_the_other_answers_at_once(replicas: Replicas) -> None:
    one, two = replicas.one, replicas.two
    names = [one.told(f"apricot {number}") for number in range(3)]
    assert {it.id for it in two.pages()[0]} == set(names)
    for number, name in enumerate(names):
        writer, reader = replicas[number], replicas[number + 1]
        writer.append(name, user("zebra"), agent(f"butter {number}"), request_id=f"r{number}")
        assert name in reader.found(f"butter {number}")
        assert said(reader, name) == said(writer, name)
        again = reader.append(
            name, user("zebra"), agent(f"butter {number}"), request_id=f"r{number}"
        )
        assert again.duplicate
        reader.rename(name, f"Title {number}")
        assert writer.get(name).title == f"Title {number}"
    assert set(one.found("butter")) == set(two.found("butter")) == set(names)


def test_a_delete_leaves_no_word_on_any_server_or_in_the_database(
    replicas: Replicas, postgres: Postgres
) -> None:
    one, two = replicas.one, replicas.two
    other, name = one.told("apricot"), one.told("secretword and more")
    assert two.found("secretword") == [name]
    one.delete(name)
    assert two.found("secretword") == []
    assert code_of(lambda: two.get(name)) == "NOT_FOUND"
    assert code_of(lambda: two.append(name, user("late"))) == "NOT_FOUND"
    until(
        lambda: (
            postgres.execute("SELECT DISTINCT log FROM recollect.lines", replicas.url) == [(other,)]
        )
    )
    for server in replicas.servers:
        until(lambda server=server: files_with(server.data_dir, "secretword") == [])  # type: ignore[misc]
    assert two.get(other).message_count == 1


def test_a_redaction_takes_the_words_out_of_every_server(
    replicas: Replicas, postgres: Postgres
) -> None:
    one, two = replicas.one, replicas.two
    name = one.told("apricot secretword", "butter")
    assert two.found("secretword") == [name]
    sequence = one.load(name).messages[0].sequence
    redact(one, name, sequence=sequence)
    one.append(name, user("zebra"))
    assert two.found("secretword") == []
    assert (two.found("zebra"), two.found("butter")) == ([name], [name])
    assert said(two, name) == said(one, name)
    until(lambda: postgres.execute("SELECT log FROM recollect.redacted_lines", replicas.url) == [])
    for server in replicas.servers:
        until(lambda server=server: files_with(server.data_dir, "secretword") == [])  # type: ignore[misc]


def test_two_servers_that_write_one_conversation_leave_no_gap_and_double_nothing(
    replicas: Replicas,
) -> None:
    name = replicas.one.create("web").id

    def write(number: int) -> None:
        service = replicas[number]
        for turn in range(10):
            request = f"r{number}-{turn}"
            service.append(name, user(request), agent("yes"), request_id=request)

    at_once(6, write)
    lines = said(replicas.one, name)
    assert said(replicas.two, name) == lines
    assert [sequence for _, sequence, _ in lines] == sorted({it for _, it, _ in lines})
    assert [turn for _, _, turn in lines] == [1 + at // 2 for at in range(120)]
    assert sorted(text for text, _, _ in lines[::2]) == sorted(
        f"r{number}-{turn}" for number in range(6) for turn in range(10)
    )


def test_of_eight_same_requests_on_two_servers_one_is_carried_out(replicas: Replicas) -> None:
    for round_ in range(3):
        request = f"c{round_}"
        answers = at_once(
            8,
            lambda number, request=request: replicas[number].create("web", request_id=request),  # type: ignore[misc]
        )
        (name,) = {answer.id for answer in answers}
        turns = at_once(
            8,
            lambda number, name=name: replicas[number].append(  # type: ignore[misc]
                name, user("hello"), request_id=f"{name}-a"
            ),
        )
        assert [it.duplicate for it in turns].count(False) == 1
        assert said(replicas.two, name) == [("hello", 2, 1)]


def test_eight_deliveries_at_once_on_two_servers_begin_one_conversation(
    replicas: Replicas,
) -> None:
    for service in (replicas.one, replicas.two):
        service.own("whatsapp", ALEX)

    def deliver(number: int) -> str:
        return home(replicas[number].whatsapp(f"text {number}"))

    assert len(set(at_once(8, deliver))) == 1
    mails = at_once(
        8,
        lambda number: replicas[number].whatsapp(f"from {number}", STRANGER),
    )
    assert len({it.external.communication.id for it in mails}) == 1
    once = at_once(8, lambda number: replicas[number].whatsapp("once", delivery="same"))
    assert [it.duplicate for it in once].count(False) == 1
