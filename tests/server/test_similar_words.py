"""The words of the best messages are compared with those of the question one by one."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import recall_service_pb2 as recall_api
from recollect_server.kernel.erase.deletion import Deletions
from recollect_server.recall.embedding.vector_writer import SharedVectors
from recollect_server.recall.model.embedder import EmbeddedPiece, Embedder, Piece
from recollect_server.recall.model.weights import E5, MINILM, Profile, look, shipped
from recollect_server.recall.word_matches import COMPARED

from tests.conftest import RunningServer, Start
from tests.postgres import Postgres
from tests.server.conftest import Connect, Service, user
from tests.server.searching import marked
from tests.waiting import until, until_embedded

QUESTION = "Which doctor does Nora know?"
DOCTOR, BAKER = "Nora became a physician last year", "Nora became a little tired last year"
TALK = [
    DOCTOR,
    "Ben fixed the old bicycle",
    BAKER,
    "We painted the fence blue",
    "The cat is asleep",
]
MEETING = "我们把会议改到了周五下午三点，地点还是在二楼。"
GARDEN = "Die Tomaten im Garten haben dieses Jahr kaum Früchte getragen."
LEG = "similar_words"


@pytest.fixture
def server(start_server: Start) -> RunningServer:
    return start_server(embedder="onnx")


def compared(answer: recall_api.SearchResponse) -> dict[tuple[str, int], float]:
    """Return the score of each hit whose words were compared, by its place."""
    return {
        (hit.conversation_id, hit.sequence): part.score
        for hit in answer.hits
        for part in hit.explanation
        if part.leg == LEG
    }


def talk_of_people(service: Service) -> str:
    conversation = service.create().id
    for at, text in enumerate(TALK):
        service.append(conversation, user(text, sender=("Ann", "Ben")[at % 2]))
    return conversation


def test_a_message_with_words_like_those_of_the_question_scores_higher(
    service: Service, server: RunningServer
) -> None:
    talk = talk_of_people(service)
    until_embedded(service, server)
    answer = service.search(QUESTION, explain=True)
    scores = compared(answer)
    assert scores[talk, 2] > scores[talk, 4] > 0
    # shown as words found by their letters are, and not what comes near to no rare word
    marks = {it.sequence: marked(it.snippet) for it in answer.hits}
    assert "physician" in marks[2]
    assert "tired" not in marks[4]


def test_with_both_models_for_english_words_are_compared_too(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="onnx", embedding_models="both")
    service = connect(server)
    talk = talk_of_people(service)
    until_embedded(service, server)
    scores = compared(service.search(QUESTION, explain=True))
    assert scores[talk, 2] > scores[talk, 4] > 0


def test_words_of_other_languages_are_compared_by_the_model_that_reads_them(
    start_server: Start, connect: Connect
) -> None:
    service = connect(server := start_server(embedder="onnx"))
    talk = talk_of_people(service)
    _, meeting = (service.conversation_of(it) for it in (GARDEN, MEETING))
    until_embedded(service, server)
    scores = compared(service.search(QUESTION, explain=True))
    assert scores[talk, 2] > scores[talk, 4] > 0
    across = compared(service.search("When do we meet?", explain=True))
    assert across[meeting, 2] == max(across.values())
    own = compared(service.search("开会是什么时候？", explain=True))
    assert own[meeting, 2] == max(own.values())
    assert not {name for name, _ in own} & {talk}, "the model of English reads no Chinese"


def test_over_postgresql_the_same_words_score_the_same(
    service: Service,
    server: RunningServer,
    postgres: Postgres,
    start_server: Start,
    connect: Connect,
    tmp_path: Path,
) -> None:
    talk = talk_of_people(service)
    until_embedded(service, server)
    url = postgres.new_database()
    shared = start_server(embedder="onnx", store=url, data_dir=tmp_path / "shared")
    other = connect(shared)
    same_talk = talk_of_people(other)
    until_embedded(other, shared)
    scores = compared(service.search(QUESTION, explain=True))
    of_shared = compared(other.search(QUESTION, explain=True))
    assert {line: scores[talk, line] for _, line in scores} == {
        line: of_shared[same_talk, line] for _, line in of_shared
    }


def test_as_many_messages_are_compared_as_may_be_and_no_more(
    service: Service, server: RunningServer
) -> None:
    conversation = service.create().id
    for number in range(COMPARED + 20):
        service.append(conversation, user(f"Nora has a nice occupation, number {number}"))
    until_embedded(service, server)
    answer = service.search(QUESTION, explain=True, limit=COMPARED + 20)
    assert len(answer.hits) == COMPARED + 20
    assert len(compared(answer)) == COMPARED


def test_a_store_made_without_word_pieces_gets_them_behind_its_back(
    start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    server = start_server(embedder="onnx", data_dir=folder, word_pieces=False)
    service = connect(server)
    talk = talk_of_people(service)
    long = service.conversation_of(
        "Nora met her physician. " + "We talked about the garden. " * 800
    )
    meeting = service.conversation_of(MEETING)
    until_embedded(service, server)
    assert not compared(service.search(QUESTION, explain=True))
    server.stop()
    service = connect(start_server(embedder="onnx", data_dir=folder))  # word pieces are kept
    until(lambda: (long, 2) in compared(service.search(QUESTION, explain=True)))
    scores = compared(service.search(QUESTION, explain=True))
    assert scores[talk, 2] > scores[talk, 4] > 0
    until(lambda: (meeting, 2) in compared(service.search("开会是什么时候？", explain=True)))


def test_missing_word_pieces_are_made_by_the_model_of_english_first(
    start_server: Start, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    server = start_server(embedder="onnx", data_dir=folder, word_pieces=False)
    service = connect(server)
    talk_of_people(service)
    meeting = service.conversation_of(MEETING)
    until_embedded(service, server)
    server.stop()
    models: list[str] = []
    embed = Embedder.embed_pieces

    def noted(embedder: Embedder, pieces: Sequence[Piece]) -> list[EmbeddedPiece]:
        models.append(embedder.profile.name)
        return embed(embedder, pieces)

    monkeypatch.setattr(Embedder, "embed_pieces", noted)
    service = connect(start_server(embedder="onnx", data_dir=folder))
    until(lambda: (meeting, 2) in compared(service.search("开会是什么时候？", explain=True)))
    assert list(dict.fromkeys(models)) == [MINILM.name, E5.name]


@pytest.mark.parametrize("elsewhere", [MINILM, E5], ids=lambda it: it.name)
def test_missing_word_pieces_of_one_model_do_not_wait_for_another_process_with_the_other(
    start_server: Start,
    connect: Connect,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    elsewhere: Profile,
) -> None:
    folder = tmp_path / "data"
    server = start_server(embedder="onnx", data_dir=folder, word_pieces=False)
    service = connect(server)
    talk = talk_of_people(service)
    meeting = service.conversation_of(MEETING)
    until_embedded(service, server)
    server.stop()
    name = look(shipped(elsewhere), elsewhere).identity
    may_embed = SharedVectors.may_embed
    monkeypatch.setattr(
        SharedVectors, "may_embed", lambda self, model: model != name and may_embed(self, model)
    )
    service = connect(start_server(embedder="onnx", data_dir=folder))
    questions = {
        MINILM: ("开会是什么时候？", (meeting, 2)),
        E5: (QUESTION, (talk, 2)),
    }
    question, place = questions[elsewhere]
    until(lambda: place in compared(service.search(question, explain=True)))
    assert compared(service.search(question, explain=True))[place] > 0


def test_a_text_of_two_conversations_gets_its_word_pieces_though_the_delete_of_one_is_stuck(
    start_server: Start, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    server = start_server(embedder="onnx", data_dir=folder, word_pieces=False)
    service = connect(server)
    talk_of_people(service)
    going = service.conversation_of(DOCTOR)
    until_embedded(service, server)
    staying = service.conversation_of(DOCTOR)
    until_embedded(service, server)
    server.stop()
    monkeypatch.setattr(Deletions, "is_left", lambda _, name: name == going)
    service = connect(start_server(embedder="onnx", data_dir=folder))
    until(lambda: compared(service.search(QUESTION, explain=True)))
    assert (staying, 2) in compared(service.search(QUESTION, explain=True))


def test_a_text_that_an_older_server_took_for_one_without_word_pieces_gets_them(
    start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    server = start_server(embedder="onnx", data_dir=folder)
    service = connect(server)
    talk = talk_of_people(service)
    until_embedded(service, server)
    server.stop()
    with closing(sqlite3.connect(server.folder / "vectors.db")) as connection, connection:
        connection.execute("UPDATE codes SET codes = x''")
    service = connect(start_server(embedder="onnx", data_dir=folder))
    until(lambda: (talk, 2) in compared(service.search(QUESTION, explain=True)))
    assert compared(service.search(QUESTION, explain=True))[talk, 2] > 0


@pytest.mark.parametrize("way", ["delete", "redact"])
def test_what_goes_takes_the_codes_of_its_words_along(
    service: Service, server: RunningServer, way: str
) -> None:
    talk = talk_of_people(service)
    service.append(talk, user(MEETING), user("Who fixed it?"))
    until_embedded(service, server)

    def rows(query: str) -> int:
        with closing(sqlite3.connect(server.folder / "vectors.db")) as connection:
            return int(connection.execute(query).fetchone()[0])

    until(lambda: rows("SELECT count(*) FROM asked") == 1)
    assert rows("SELECT count(*) FROM codes") == len(TALK) + 2
    if way == "delete":
        service.delete(talk)
    else:
        for line in (2, len(TALK) + 1, len(TALK) + 3):  # in each language, and one that asks
            service.conversations.RedactMessage(
                api.RedactMessageRequest(conversation_id=talk, sequence=line)
            )
    assert rows("SELECT count(*) FROM codes") == (0 if way == "delete" else len(TALK) - 1)
    assert rows("SELECT count(*) FROM asked") == 0


def test_words_alone_are_compared_with_nothing(start_server: Start, connect: Connect) -> None:
    service = connect(start_server())
    talk_of_people(service)
    answer = service.search(QUESTION, explain=True)
    assert answer.hits
    assert not compared(answer)


def test_what_is_said_right_beside_a_message_counts_for_it_too(
    service: Service, server: RunningServer
) -> None:
    talk, other, question = service.create().id, service.create().id, "And what about Nora?"
    service.append(talk, user(question, sender="Ann"), user(DOCTOR, sender="Ben"))
    service.append(other, user(question, sender="Ann"), user(TALK[4], sender="Ben"))
    until_embedded(service, server)
    scores = compared(service.search(QUESTION, explain=True))
    assert scores[talk, 3] > scores[talk, 2] > scores[other, 2]


def test_what_was_asked_counts_for_the_reply(service: Service, server: RunningServer) -> None:
    talk = service.create().id
    asking, reply = "Where did you meet your husband, Anna?", "On a boat, of all things."
    service.append(talk, user("We painted the fence.", sender="Anna"), user(asking, sender="Ben"))
    service.append(talk, user(reply, sender="Anna"), user("It rains again.", sender="Ben"))
    until_embedded(service, server)

    def scores() -> dict[tuple[str, int], float]:
        return compared(service.search("Where did Anna meet her husband?", explain=True))

    until(lambda: scores()[talk, 4] > scores()[talk, 3])
    assert scores()[talk, 4] > scores()[talk, 2]
