"""Search by meaning in several languages, through the running service: each text by the model that
knows its language, and the second model only where it is needed.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recollect.v1.context_pb2 import RECALL_DIAL_LIKELY
from recollect.v1.recall_service_pb2 import BuildContextRequest
from recollect_server.recall.candidates import SIMILAR_WORDS, VECTOR_LEGS
from recollect_server.recall.meaning import Meaning
from recollect_server.recall.model import models
from recollect_server.recall.model.embedder import CannotEmbed, EmbeddedPiece, Embedder
from recollect_server.recall.model.weights import E5, MINILM, Profile, Weights, look, shipped
from recollect_server.recall.vectors import checking
from recollect_server.recall.vectors.file import VectorsUnavailable
from recollect_server.recall.vectors.store import VectorStore, hash_of

from tests.cases import each
from tests.conftest import RunningServer, Start
from tests.server.conftest import Connect, Service
from tests.waiting import until, until_embedded

ENGLISH = ("We fly to Kyoto in April", "The car needs new tyres before winter")
GERMAN = (
    "Der Zahnarzt hat den Termin auf Donnerstag um halb neun verlegt, weil er krank ist.",
    "Mein Bruder zieht im Frühjahr nach Leipzig, er hat dort eine Stelle als Tischler gefunden.",
    "Wir haben uns für die blaue Küche entschieden, die Arbeitsplatte wird aus Eiche.",
    "Der Hund verträgt kein Hühnerfleisch, er bekommt davon Ausschlag.",
)
CHINESE = "我们把会议改到了周五下午三点，地点还是在二楼。"
QUESTIONS = {
    "Wohin zieht mein Geschwister um?": 1,
    "In which city will my brother work?": 1,
    "Worauf reagiert das Haustier allergisch?": 3,
    "What must the dog not eat?": 3,
}
"""Questions, and which text of `GERMAN` answers each without its words."""


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the names of the models that are loaded."""
    names: list[str] = []
    load = Embedder.__init__

    def noted(embedder: Embedder, weights: Weights) -> None:
        names.append(weights.profile.name)
        load(embedder, weights)

    monkeypatch.setattr(Embedder, "__init__", noted)
    return names


ENGLISH_NOTES = (
    "There is a puddle under the washing machine again, and the floor in the flat is swelling.",
    "I signed up for the half marathon in October, and I only ever ran ten kilometres.",
    "Our cat has not eaten since yesterday.",
    "They offered me the position in Lyon, at eight thousand more a year.",
    "The sourdough stays flat, though it smells fine.",
    "Can I deduct the desk that I bought for my study?",
    "My mother-in-law turns sixty. She loves opera and hates flowers.",
    "I wake up at four every night and lie there for hours.",
    "The landlord wants two hundred more a month from January.",
    "My fingertips hurt after ten minutes of practising chords.",
    "Our son refuses to go to kindergarten since Monday.",
    "The choir sings the Requiem in November, and they lack tenors.",
)
FOREIGN_QUESTIONS = {
    "Warum ist der Boden in der Wohnung nass geworden?": 0,
    "Was frisst unser Haustier seit gestern nicht mehr?": 2,
    "Wann wird die Miete für die Wohnung erhöht?": 8,
    "Quel emploi m'a-t-on proposé en France ?": 3,
    "Pourquoi est-ce que je dors si mal la nuit ?": 7,
    "Qu'est-ce que ma belle-mère aime comme musique ?": 6,
    "¿Por qué el niño no quiere ir a la guardería?": 10,
    "¿Qué le pasa a la masa del pan que preparo?": 4,
    "我什么时候参加半程马拉松比赛？": 1,
    "弹吉他的时候哪里疼？": 9,
}
"""Questions in languages that no message is in, and which of `ENGLISH_NOTES` answers each."""


def numbers(server: RunningServer) -> dict[str, int]:
    """Return the numbers of the models in the file of vectors, by name."""
    store = VectorStore(server.folder)
    by_name = {
        profile.name: store.model(look(shipped(profile), profile).identity, shipped(profile))
        for profile in (MINILM, E5)
    }
    store.close()
    return by_name


def models_of(server: RunningServer, *texts: str) -> list[set[str]]:
    """Return the names of the models that each text has vectors of."""
    by_name = numbers(server)
    store = VectorStore(server.folder)
    names = [
        {name for name, number in by_name.items() if store.has_text(number, hash_of(text))}
        for text in texts
    ]
    store.close()
    return names


def check_answers(service: Service, german: list[str]) -> None:
    for question, number in QUESTIONS.items():
        assert service.search(question).results[0].conversation_id == german[number], question


def foreign(service: Service, question: str) -> set[str]:
    """Return the parts that a search and a context that asks for it name for the language of their
    question.
    """
    here = service.create().id
    request = BuildContextRequest(conversation_id=here, message=question, recall=RECALL_DIAL_LIKELY)
    built = service.recall.BuildContext(request)
    service.delete(here)
    searched, recalled = (
        {it.leg for it in answer.degraded if "another language than English" in it.reason}
        for answer in (service.search(question), built)
    )
    assert searched == recalled
    return searched


def test_texts_in_other_languages_are_found_by_meaning_in_and_across_languages(
    start_server: Start, connect: Connect, loaded: list[str]
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    english = [service.conversation_of(text) for text in ENGLISH]
    until_embedded(service, server)
    assert service.found("vehicle upkeep") == [english[1]]
    assert loaded == [MINILM.name], "no model for other languages without such text"
    assert foreign(service, "vehicle upkeep") == set()
    german = [service.conversation_of(text) for text in GERMAN]
    until_embedded(service, server)
    check_answers(service, german)
    assert foreign(service, next(iter(QUESTIONS))) == set()
    assert service.search("vehicle upkeep").results[0].conversation_id == english[1]
    chinese = service.conversation_of(CHINESE)
    until_embedded(service, server)
    assert service.search("When and where is the meeting now?").results[0].conversation_id == (
        chinese
    )
    assert loaded == [MINILM.name, E5.name]
    # a question in German has the English texts read for it too
    expected = [*[{MINILM.name, E5.name}] * len(ENGLISH), *[{E5.name}] * (len(GERMAN) + 1)]
    until(lambda: models_of(server, *ENGLISH, *GERMAN, CHINESE) == expected)
    service.delete(german[3])
    assert german[3] not in service.found("What must the dog not eat?")
    assert models_of(server, GERMAN[3]) == [set()]
    assert checking.problems(server.folder) == []


HOUSEHOLD = (
    "O seguro do carro vence no dia doze de agosto.",
    "A chave do portão fica debaixo do vaso de manjericão.",
    "A faxineira vem às terças, menos na primeira do mês.",
    "As fotos do casamento estão no disco preto da gaveta.",
    "Vivemos numa moradia antiga em Guimarães, com quintal e uma nespereira.",
    "Qual é a previsão do tempo para amanhã em Lisboa?",
    "Escreve um poema curto sobre o mar, sem rimas.",
)
UNSURE = ("Empaquei no exercício 7.", "Rio da Europa com sete letras?")


def test_a_text_whose_language_nothing_tells_is_near_to_no_question_for_that(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    notes = [service.conversation_of(text) for text in HOUSEHOLD]
    unsure = {service.conversation_of(text) for text in UNSURE}
    until_embedded(service, server)
    until(lambda: models_of(server, *UNSURE) == [{MINILM.name, E5.name}] * len(UNSURE))
    until_embedded(service, server)
    [opened] = server.app.spaces.open_now()
    copy = opened.service(Meaning).copy
    assert copy is not None
    compared = {
        foreign: [it.embedder.profile for it, _ in copy.asked(foreign=foreign)]
        for foreign in (False, True)
    }
    assert compared == {False: [MINILM, E5], True: [E5]}
    best = {
        question: [hit.conversation_id for hit in service.search(question).hits][:2]
        for question in (
            "Até quando o automóvel está coberto?",
            "Onde guardei as imagens da cerimônia?",
            "Quando limpam a casa?",
        )
    }
    for (question, first), number in zip(best.items(), (0, 3, 2), strict=True):
        assert notes[number] in first, question
        assert first[0] not in unsure, question


def test_a_question_in_another_language_has_an_english_space_read_for_it(
    start_server: Start, connect: Connect, loaded: list[str]
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    notes = [service.conversation_of(text) for text in ENGLISH_NOTES]
    until_embedded(service, server)
    english = [service.search(it) for it in ("wet floor", "no appetite")]
    assert loaded == [MINILM.name]
    question = next(iter(FOREIGN_QUESTIONS))
    assert foreign(service, question) == {*VECTOR_LEGS}
    until(lambda: models_of(server, *ENGLISH_NOTES) == [{MINILM.name, E5.name}] * len(notes))
    until_embedded(service, server)
    until(lambda: foreign(service, question) == set())
    best = {
        it: [hit.conversation_id for hit in service.search(it).hits] for it in FOREIGN_QUESTIONS
    }
    answered = [it for it, number in FOREIGN_QUESTIONS.items() if notes[number] in best[it][:3]]
    assert len(answered) >= 8, best
    explained = service.search(question, explain=True).hits
    assert all(any(it.leg == SIMILAR_WORDS for it in hit.explanation) for hit in explained), (
        "their words are compared"
    )
    assert [service.search(it) for it in ("wet floor", "no appetite")] == english
    # A restart goes on with both, and so does what is written later.
    server.stop()
    again = start_server(embedder="onnx")
    service = connect(again)
    later = service.conversation_of("The plumber comes on Thursday at nine.")
    until_embedded(service, again)
    assert models_of(again, "The plumber comes on Thursday at nine.") == [{MINILM.name, E5.name}]
    assert (
        service.search("Um wie viel Uhr kommt der Klempner zu uns?").hits[0].conversation_id
        == later
    )


def test_a_folder_of_an_older_server_gets_the_vectors_of_its_other_languages_alone(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(embedder="onnx", embedding_models="minilm")
    service = connect(server)
    for text in ENGLISH:
        service.conversation_of(text)
    german = [service.conversation_of(text) for text in GERMAN]
    until_embedded(service, server)
    assert models_of(server, *ENGLISH, *GERMAN) == [{MINILM.name}] * 6
    server.stop()
    worked: list[str] = []
    embed = Embedder.embed_pieces

    def counted(embedder: Embedder, pieces: Sequence[tuple[int, ...]]) -> list[EmbeddedPiece]:
        worked.extend([embedder.profile.name] * len(pieces))
        return embed(embedder, pieces)

    monkeypatch.setattr(Embedder, "embed_pieces", counted)
    again = start_server(embedder="onnx")
    service = connect(again)
    until(lambda: models_of(again, *GERMAN) == [{E5.name}] * 4)
    until_embedded(service, again)
    assert worked == [E5.name] * 4, "no vector is made again"
    assert models_of(again, *ENGLISH) == [{MINILM.name}] * 2
    check_answers(service, german)
    assert MINILM.name not in worked
    again.stop()
    # back: what the second model had is embedded by the first again
    back = start_server(embedder="onnx", embedding_models="minilm")
    until_embedded(connect(back), back)
    until(lambda: models_of(back, *GERMAN) == [{MINILM.name}] * 4)
    assert checking.state_of(back.folder).beside == 0


def test_vectors_that_were_not_removed_before_a_restart_are_removed_after_it(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(embedder="onnx", embedding_models="minilm")
    service = connect(server)
    for text in GERMAN:
        service.conversation_of(text)
    until_embedded(service, server)
    main = numbers(server)[MINILM.name]
    server.stop()
    remove = VectorStore.remove_places

    def refuse(store: VectorStore, model: int, name: str, lines: list[int]) -> list[int]:
        if model == main:
            raise VectorsUnavailable("the disk refuses")
        return remove(store, model, name, lines)

    with monkeypatch.context() as patched:
        patched.setattr(VectorStore, "remove_places", refuse)
        refusing = start_server(embedder="onnx")
        until(lambda: any(E5.name in it for it in models_of(refusing, *GERMAN)))
        refusing.stop()
    again = start_server(embedder="onnx")
    until(lambda: models_of(again, *GERMAN) == [{E5.name}] * 4)
    assert connect(again).search("Haustier").degraded == []


def test_with_both_models_english_has_the_vectors_of_both(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="onnx", embedding_models="both")
    service = connect(server)
    english = [service.conversation_of(text) for text in ENGLISH]
    german = service.conversation_of(GERMAN[3])
    until_embedded(service, server)
    assert models_of(server, *ENGLISH, GERMAN[3]) == [{MINILM.name, E5.name}] * 2 + [{E5.name}]
    assert service.search("vehicle upkeep").results[0].conversation_id == english[1]
    for question in ("Worauf reagiert das Haustier allergisch?", "What must the dog not eat?"):
        assert service.search(question).results[0].conversation_id == german


def test_without_the_second_model_everything_else_goes_on_until_it_is_there(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "e5"
    shutil.copytree(shipped(E5), folder)
    (folder / E5.model).rename(folder / "away")
    at = {MINILM: shipped(), E5: folder}

    def moved(profile: Profile = MINILM) -> Path:
        return at[profile]

    monkeypatch.setattr("recollect_server.run.models.shipped", moved)
    monkeypatch.setattr("recollect_server.recall.embedding.texts._RETRY", 0.1)
    server = start_server(embedder="onnx")
    service = connect(server)
    kyoto = service.conversation_of(ENGLISH[0])
    until_embedded(service, server)
    assert not service.search("a journey to Japan").degraded, "nobody needs it yet"
    german = [service.conversation_of(text) for text in GERMAN]

    def reason() -> str:
        degraded = service.search("a journey to Japan").degraded
        return degraded[0].reason if degraded else ""

    until(lambda: f"{E5.name} is missing" in reason() and E5.model in reason())
    answer = service.search("a journey to Japan")
    assert answer.results[0].conversation_id == kyoto
    assert "vector_messages" in answer.legs_run
    until(lambda: models_of(server, *GERMAN) == [{MINILM.name}] * 4)
    (folder / "away").rename(folder / E5.model)
    until(lambda: not reason())
    until(lambda: models_of(server, *GERMAN) == [{E5.name}] * 4)
    until_embedded(service, server)
    check_answers(service, german)


def test_a_second_model_that_fails_over_a_question_is_named_and_the_first_one_answers(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    kyoto = service.conversation_of(ENGLISH[0])
    service.conversation_of(CHINESE)
    until_embedded(service, server)
    run = Embedder._run

    def failing(embedder: Embedder, model: Any, ids: np.ndarray, mask: np.ndarray) -> Any:
        if embedder.profile is E5:
            raise CannotEmbed("the embedding model failed: out of memory")
        return run(embedder, model, ids, mask)

    with monkeypatch.context() as broken:
        broken.setattr(Embedder, "_run", failing)
        answer = service.search("a journey to Japan by air")
        assert answer.results[0].conversation_id == kyoto
        assert {it.reason for it in answer.degraded} == {
            f"{E5.name}: the embedding model failed: out of memory"
        }
    assert not service.search("a journey to Japan by air").degraded


@each(
    ("texts", "expected"),
    [
        ([*GERMAN[:2], *["ok, thanks"] * 500], False),
        ([*GERMAN[:1]], True),
        ([GERMAN[0], "ok, thanks"], False),
        ([*GERMAN[:3]], True),
        ([*GERMAN[:3], *["ok, thanks"] * 500], False),
        (["ok, thanks", CHINESE], True),
        (["print('größe')", "naïve café", "🦊🦊🦊", "https://example.org/ä"], False),
    ],
)
def test_a_space_has_other_languages_once_enough_of_its_texts_show_it(
    texts: list[str], expected: bool
) -> None:
    census = models.Census()
    for text in texts:
        census.count(text)
    assert models.Census.read(census.written()).is_mixed is expected
