"""The index and the transcripts of third parties, where they came apart."""

from pathlib import Path

import grpc
import pytest
from recollect_server.kernel.domain.errors import IndexUnavailable
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.lines import Entry, encoded
from recollect_server.kernel.space.logs import entries_of
from recollect_server.people.communication import (
    Communication,
    CommunicationBegan,
    Direction,
    ExternalMessage,
    fold,
)
from recollect_server.people.communication_table import ExternalIndex, external_of
from recollect_server.run.features import FEATURES

from tests.conftest import RunningServer, Start
from tests.external.conftest import Meet, Outside, Watch, answers, transcript

NAME = "ext-01J00000000000000000000001"


def test_one_whose_transcript_was_removed_is_not_answered_from_the_index(
    start_server: Start, meet: Meet
) -> None:
    running = start_server()
    removed = meet(running).write("One", party="ann", delivered="1").communication.id
    other = meet(running).write("Two", party="bob", delivered="2").communication.id
    running.stop()
    transcript(running, removed).unlink()
    running = start_server()
    outside = meet(running)
    assert running.app.recovered.rebuilt
    assert [it.id for it in outside.listed()] == [other]
    assert [it.communication_id for it in outside.escalations()] == [other]
    assert not outside.write("One", party="ann", delivered="1").duplicate


def test_what_was_cut_off_a_transcript_is_not_answered_from_the_index(
    start_server: Start, meet: Meet
) -> None:
    running = start_server()
    cut = meet(running).write("Two", delivered="2").communication.id
    size = transcript(running, cut).stat().st_size
    meet(running).write("Three", delivered="3")
    running.stop()
    transcript(running, cut).write_bytes(transcript(running, cut).read_bytes()[:size])
    running = start_server()
    assert running.app.recovered.rebuilt
    assert meet(running).texts(cut) == ["Two"]
    assert not meet(running).write("Three", delivered="3").duplicate


def test_what_the_index_refused_is_told_to_panels_once_it_takes_it(
    outside: Outside, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = watch().ready()

    def refuse(*_: object, **__: object) -> None:
        raise IndexUnavailable("it is ill")

    with monkeypatch.context() as ill:
        ill.setattr(ExternalIndex, "add", refuse)
        with pytest.raises(grpc.RpcError, match="it is ill"):
            outside.write("One")
    panel.until_count(3)
    assert panel.kinds()[:2] == ["list", "message One"]
    assert panel.kinds()[2].startswith("escalated")


def test_a_transcript_that_something_else_wrote_to_is_read_again(
    outside: Outside, server: RunningServer, start_server: Start, meet: Meet
) -> None:
    name = outside.write("One", delivered="1").communication.id
    with transcript(server, name).open("ab") as file:
        file.write(b"not a line")
    with pytest.raises(Exception, match="something else wrote to it"):
        outside.write("Two", delivered="2")
    assert not outside.write("Two", delivered="2").duplicate
    assert outside.texts(name) == ["One", "Two"]
    assert (transcript(server, name).with_name(f"{name}.jsonl.torn")).read_bytes() == b"not a line"
    before = answers(outside)
    server.stop()
    assert answers(meet(start_server())) == before


def test_the_index_takes_lines_in_only_where_they_follow(tmp_path: Path) -> None:
    contents: list[object] = [
        CommunicationBegan(NAME, "email", "ann", 1),
        ExternalMessage(Direction.INBOUND, "One", 1, 2, (), "1"),
    ]
    lines, _ = encoded(entries_of(contents, None))
    state: Communication | None = None
    for content in contents:
        state = fold(state, content)
    assert state is not None
    index = Index(tmp_path, FEATURES.tables)
    try:
        external_of(index).add(None, state, lines, time=1)
        stored = external_of(index).find(NAME)
        with pytest.raises(IndexUnavailable, match="the lines before these are not indexed"):
            external_of(index).add(None, state, lines, time=1)
        later, _ = encoded([Entry(ExternalMessage(Direction.INBOUND, "Three", 1, 9))], 8, 9999)
        with pytest.raises(IndexUnavailable, match="the lines before these are not indexed"):
            external_of(index).add(state, state, later, time=1)
        assert external_of(index).find(NAME) == stored
    finally:
        index.close()
