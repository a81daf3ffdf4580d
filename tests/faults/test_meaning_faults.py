"""Search by meaning with missing or broken parts: words answer, `degraded` gives the reason, and it
recovers without a restart.
"""

import hashlib
import shutil
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner
from grpc_health.v1 import health_pb2, health_pb2_grpc
from recollect_server.kernel.index import checking
from recollect_server.kernel.index.index import Index
from recollect_server.recall.embedding.texts import Planner
from recollect_server.recall.meaning import Copy, Meaning
from recollect_server.recall.model.embedder import CannotEmbed, EmbeddedPiece, Embedder, Piece
from recollect_server.recall.model.weights import (
    E5,
    MINILM,
    MODEL,
    SUMS,
    TOKENIZER,
    NoWeights,
    Weights,
    shipped,
)
from recollect_server.recall.vectors import checking as vector_checking
from recollect_server.recall.vectors.file import NAME, VectorsUnavailable
from recollect_server.recall.vectors.store import EmbeddedText, VectorStore, hash_of
from recollect_server.run.commands import commands
from recollect_server.run.folder import CannotStart
from recollect_server.run.jobs.of_space import UpdatePruner
from recollect_server.run.parts import upkeep
from structlog.testing import capture_logs

from tests.at_rest import INDEX
from tests.conftest import Start
from tests.server.conftest import Connect, Service, answers
from tests.server.test_redact import redact
from tests.waiting import until, until_embedded

KEYWORD = ["keyword_messages", "keyword_conversations"]
VECTOR = ["vector_messages", "vector_abbreviations"]
KYOTO, QUESTION = "We fly to Kyoto in April", "a journey to Japan"


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Copy the model's folder."""
    folder = tmp_path / "weights"
    folder.mkdir()
    for name in (MODEL, TOKENIZER, SUMS):
        shutil.copy(shipped() / name, folder / name)
    return folder


def reasons(service: Service, query: str = "kyoto") -> dict[str, str]:
    return {part.leg: part.reason for part in service.search(query).degraded}


def answers_by_words(service: Service, kyoto: str) -> None:
    """Check that words are found, and that the server reports that it serves."""
    answer = service.search("kyoto")
    assert [result.conversation_id for result in answer.results] == [kyoto]
    assert list(answer.legs_run) == KEYWORD
    health: Any = health_pb2_grpc.HealthStub(service.channel)
    assert (
        health.Check(health_pb2.HealthCheckRequest()).status
        == health_pb2.HealthCheckResponse.SERVING
    )


def test_without_the_models_file_words_answer_until_it_is_there(
    weights: Path, start_server: Start, connect: Connect
) -> None:
    (weights / MODEL).rename(weights / "away")
    service = connect(start_server(embedder="onnx", embedding_model=str(weights)))
    kyoto = service.conversation_of(KYOTO)
    until(
        lambda: (
            list(reasons(service)) == VECTOR
            and all(MODEL in reason for reason in reasons(service).values())
        )
    )
    answers_by_words(service, kyoto)
    (weights / "away").rename(weights / MODEL)
    until(lambda: service.found(QUESTION) == [kyoto])
    assert not service.search(QUESTION).degraded


@pytest.fixture
def embedders(monkeypatch: pytest.MonkeyPatch) -> list[Embedder]:
    """Collect the models that are loaded."""
    every: list[Embedder] = []
    load = Embedder.__init__

    def noted(embedder: Embedder, weights: Weights) -> None:
        load(embedder, weights)
        every.append(embedder)

    monkeypatch.setattr(Embedder, "__init__", noted)
    return every


def test_a_long_text_loses_no_part_where_the_disk_refuses_a_released_model(
    weights: Path, start_server: Start, connect: Connect, embedders: list[Embedder]
) -> None:
    server = start_server(embedder="onnx", embedding_model=str(weights))
    service = connect(server)
    service.conversation_of("The car needs new tyres")
    until_embedded(service, server)
    (weights / MODEL).rename(weights / "away")
    assert all(it.release(0.0) for it in embedders)
    filler = "The quarterly figures were discussed at length and written down. " * 1100
    with capture_logs() as logged:
        long = service.conversation_of(f"{KYOTO}. {filler}")
        until(lambda: any(it["event"] == "meaning_unavailable" for it in logged))
    (weights / "away").rename(weights / MODEL)
    until_embedded(service, server)
    assert service.found(QUESTION)[0] == long
    assert not service.search(QUESTION).degraded


def test_a_released_model_of_other_languages_that_cannot_be_read_stops_nothing_else(
    start_server: Start,
    connect: Connect,
    embedders: list[Embedder],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    languages = tmp_path / "e5"
    shutil.copytree(shipped(E5), languages)
    at = {MINILM: shipped(), E5: languages}
    monkeypatch.setattr("recollect_server.run.models.shipped", lambda it=MINILM: at[it])
    server = start_server(embedder="onnx")
    service = connect(server)
    service.conversation_of("我们把会议改到了周五下午三点，地点还是在二楼。")
    until_embedded(service, server)
    (languages / E5.model).rename(languages / "away")
    assert [it.release(0.0) for it in embedders if it.profile is E5] == [True]
    service.conversation_of("报告必须在星期一之前寄给会计。")
    until(lambda: any(E5.name in reason for reason in reasons(service).values()))
    kyoto = service.conversation_of(KYOTO)
    until(lambda: service.found(QUESTION)[:1] == [kyoto])
    folder = server.folder
    until(lambda: checking.state_of(folder).lines == vector_checking.state_of(folder).lines)
    assert all(f"{E5.name} is missing" in reason for reason in reasons(service).values())


def test_without_sqlite_vec_words_answer_until_it_is_there(
    monkeypatch: pytest.MonkeyPatch, start_server: Start, connect: Connect
) -> None:
    with monkeypatch.context() as missing:
        missing.setitem(sys.modules, "sqlite_vec", None)
        service = connect(start_server(embedder="onnx"))
        kyoto = service.conversation_of(KYOTO)
        until(
            lambda: all(
                "sqlite-vec is not installed" in reason for reason in reasons(service).values()
            )
        )
        answers_by_words(service, kyoto)
    until(lambda: service.found(QUESTION) == [kyoto])
    assert not service.search(QUESTION).degraded


@pytest.mark.parametrize("damage", ["garbage", "no table", "removed"])
def test_a_broken_file_of_vectors_is_made_anew_at_the_start(
    damage: str, start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    kyoto = service.conversation_of(KYOTO)
    until_embedded(service, server)
    before = answers(service, [QUESTION])
    server.stop()
    path = server.folder / NAME
    if damage == "garbage":
        path.write_bytes(b"garbage" * 2000)
    elif damage == "no table":
        connection = apsw.Connection(str(path))
        connection.execute("DROP TABLE vectors_vector_chunks00")
        connection.close()
    else:
        path.unlink()
    again = start_server(embedder="onnx")
    assert kyoto in connect(again).found("kyoto"), "at once"
    assert until(lambda: answers(connect(again), [QUESTION]) == before)


@pytest.mark.parametrize("damage", ["no table", "removed"])
def test_a_file_of_vectors_that_breaks_under_a_running_server_is_made_anew(
    damage: str, start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    kyoto = service.conversation_of(KYOTO)
    until_embedded(service, server)
    if damage == "removed":
        (server.folder / NAME).unlink()
    else:
        connection = apsw.Connection(str(server.folder / NAME))
        connection.set_busy_timeout(5000)
        connection.execute("DROP TABLE texts")
        connection.close()
    assert service.found("kyoto") == [kyoto]
    bread = service.conversation_of("Bread and milk are gone")
    until(lambda: service.found("groceries") == [bread])
    until_embedded(service, server)
    assert service.found(QUESTION) == [kyoto]


def test_a_model_that_fails_is_named_and_words_answer(
    monkeypatch: pytest.MonkeyPatch, start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    kyoto = service.conversation_of(KYOTO)
    until_embedded(service, server)

    def fail(*_: object) -> None:
        raise CannotEmbed("the embedding model failed: out of memory")

    with monkeypatch.context() as broken:
        broken.setattr(Embedder, "_run", fail)
        assert reasons(service) == dict.fromkeys(
            VECTOR, "the embedding model failed: out of memory"
        )
        answers_by_words(service, kyoto)
        bread = service.conversation_of("Bread and milk are gone")
        until(lambda: "out of memory" in next(iter(reasons(service).values())))
    until(lambda: service.found("groceries") == [bread])
    assert not service.search(QUESTION).degraded


def test_what_was_told_while_the_model_was_away_is_embedded_although_its_updates_are_pruned(
    monkeypatch: pytest.MonkeyPatch, start_server: Start, connect: Connect
) -> None:
    monkeypatch.setattr(upkeep, "UpdatePruner", partial(UpdatePruner, seconds=0.01))
    server = start_server(embedder="onnx", max_updates=1)
    service = connect(server)
    kyoto = service.conversation_of(KYOTO)
    until_embedded(service, server)

    def fail(*_: object) -> None:
        raise NoWeights("the model is away")

    with monkeypatch.context() as broken:
        broken.setattr(Planner, "plan", fail)
        until(lambda: "away" in reasons(service).get(VECTOR[0], ""))
        bread = service.conversation_of("Bread and milk are gone")
        service.rename(kyoto, "A journey")
        until(lambda: updates_left(server.folder) == 1)
    until_embedded(service, server)
    assert service.found("groceries") == [bread]


def updates_left(folder: Path) -> int:
    with closing(apsw.Connection(str(folder / INDEX), apsw.SQLITE_OPEN_READONLY)) as connection:
        return int(connection.execute("SELECT count(*) FROM updates").get)


def test_while_the_model_is_at_work_for_long_searches_say_what_they_lack(
    monkeypatch: pytest.MonkeyPatch, start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    until_embedded(service, server)
    embed, go_on = Embedder.embed_pieces, threading.Event()

    def slow(embedder: Embedder, pieces: Sequence[Piece]) -> list[EmbeddedPiece]:
        go_on.wait()
        return embed(embedder, pieces)

    monkeypatch.setattr(Embedder, "embed_pieces", slow)
    try:
        kyoto = service.conversation_of(KYOTO)
        until(
            lambda: (
                reasons(service)
                == dict.fromkeys(VECTOR, "words of 1 conversation are not embedded yet")
            )
        )
    finally:
        go_on.set()
    until_embedded(service, server)
    assert service.found(QUESTION) == [kyoto]


def test_vectors_in_the_order_of_an_index_that_is_gone_are_not_asked(
    monkeypatch: pytest.MonkeyPatch, start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    kyoto = service.conversation_of(KYOTO)
    until_embedded(service, server)
    load, go_on = Meaning.load, threading.Event()

    def slow(
        meaning: Meaning, store: VectorStore, model: int, embedder: Embedder, index: Index
    ) -> Copy:
        go_on.wait()
        return load(meaning, store, model, embedder, index)

    monkeypatch.setattr(Meaning, "load", slow)
    try:
        (server.folder / "conversations.db").unlink()
        service.conversation_of("Bread and milk are gone")
        until(lambda: "the index was made anew" in reasons(service).get(VECTOR[0], ""))
    finally:
        go_on.set()
    assert until(lambda: service.found(QUESTION)) == [kyoto]


def test_a_wrong_model_is_refused_at_the_start_with_what_to_do(
    weights: Path, start_server: Start
) -> None:
    (weights / TOKENIZER).write_text((weights / TOKENIZER).read_text() + " ")
    with pytest.raises(
        CannotStart,
        match=f"{TOKENIZER} is not the file that {SUMS} names: install recollect-server again",
    ):
        start_server(embedder="onnx", embedding_model=str(weights))


def test_another_model_takes_over_when_everything_is_worked_out_for_it(
    weights: Path, start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    kyoto = service.conversation_of(KYOTO)
    until_embedded(service, server)
    server.stop()
    # The same model under another name: only the checksum of its tokenizer is another.
    (weights / TOKENIZER).write_text((weights / TOKENIZER).read_text() + " ")
    digest = hashlib.sha256((weights / TOKENIZER).read_bytes()).hexdigest()
    lines = (weights / SUMS).read_text().splitlines()
    (weights / SUMS).write_text(
        "".join(f"{digest}  {TOKENIZER}\n" if TOKENIZER in line else f"{line}\n" for line in lines)
    )
    again = start_server(embedder="onnx", embedding_model=str(weights))
    changed = connect(again)
    connection = apsw.Connection(str(again.folder / NAME), flags=apsw.SQLITE_OPEN_READONLY)
    until(lambda: connection.execute("SELECT folder FROM models").fetchall() == [(str(weights),)])
    until_embedded(changed, again)
    assert changed.found(QUESTION) == [kyoto]
    again.stop()
    connection.close()


def test_turned_off_nothing_is_embedded_and_nothing_is_called_degraded(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="off")
    service = connect(server)
    kyoto = service.conversation_of(KYOTO)
    answers_by_words(service, kyoto)
    assert not service.search("kyoto").degraded
    assert service.found(QUESTION) == []
    assert not (server.folder / NAME).exists()


def test_turned_off_a_delete_takes_the_vectors_out_all_the_same(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    kyoto = service.conversation_of(KYOTO)
    until_embedded(service, server)
    server.stop()
    off = start_server(embedder="off")
    receipt = connect(off).delete(kyoto)
    assert {removed.place: removed.count for removed in receipt.removed}["vectors"] == 1


def test_verify_and_stats_look_at_the_vectors(start_server: Start, connect: Connect) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    kyoto = service.conversation_of(KYOTO, "Bread and milk are gone")
    until_embedded(service, server)
    server.stop()
    arguments = ["--data-dir", str(server.data_dir)]
    output = CliRunner().invoke(commands, ["stats", *arguments]).stdout
    expected = {"vectors_kept: 2", "not_embedded_yet: 0 conversations", "embedding: complete"}
    assert {"vectors: whole"} | expected <= {*output.splitlines()}
    assert CliRunner().invoke(commands, ["verify", *arguments]).exit_code == 0
    store = VectorStore(server.folder)
    served = store.served()
    assert served is not None
    vectors = store.vectors_of(served[0], [hash_of(KYOTO)])[hash_of(KYOTO)]
    store.add(served[0], [EmbeddedText(kyoto, 2, 0, 0, hash_of("something else"), vectors)], {})
    store.close()
    result = CliRunner().invoke(commands, ["verify", *arguments])
    assert result.exit_code == 1
    assert f"{kyoto}: vectors.db has another text than line 2" in result.output


@pytest.mark.parametrize("refuses", [False, True], ids=["", "and their file refuses to forget it"])
def test_a_message_that_is_redacted_while_the_vectors_are_loaded_is_not_found_by_its_meaning(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    server = start_server(embedder="onnx")
    service, spaces = connect(server), server.app.spaces
    kyoto = service.conversation_of(KYOTO)
    until_embedded(service, server)
    assert service.found(QUESTION) == [kyoto]
    load = Meaning.load

    def load_and_redact(self: Meaning, *of: Any) -> Copy:
        monkeypatch.undo()
        copy = load(self, *of)
        if refuses:
            monkeypatch.setattr(VectorStore, "forget_lines", refuse)
        redact(service, kyoto, sequence=2)
        return copy

    def refuse(*_: object) -> int:
        raise VectorsUnavailable("the disk refuses")

    monkeypatch.setattr(Meaning, "load", load_and_redact)

    def rests() -> bool:
        spaces.rest("default")  # refused while a job is at work in it
        return not spaces.open_now()

    until(rests)
    service.listed()  # which opens the files again
    until_embedded(service, server)
    assert service.found(QUESTION) == []
