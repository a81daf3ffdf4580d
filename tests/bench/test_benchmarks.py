"""Every benchmark runs, on a tiny size: what it prints is its own business."""

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import orjson
import pytest
from recollect import Client, Message
from recollect_server.recall.model.embedder import EmbeddedPiece, Embedder, Piece
from recollect_server.recall.vectors.checking import outside, state_of

from bench import __main__ as every
from bench import (
    backup,
    context,
    corpus,
    dialogue,
    drops,
    embedding,
    insight,
    meaning,
    packing,
    postgres,
    recall,
    receive,
    spaces,
    start,
    stream,
    vectors,
    worst_search,
)
from bench.calls import measure
from bench.corpus import Corpus
from bench.figures import Figure, Goal, Row, table
from bench.servers import embedded, recollect
from tests.conftest import RunningServer


@pytest.fixture
def by_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the servers of a benchmark find by meaning too."""
    monkeypatch.setenv("RECOLLECT_EMBEDDER", "onnx")


@pytest.mark.usefixtures("by_meaning")
def test_recall_writes_its_summary_and_its_questions(
    recall_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary, questions = tmp_path / "summary.json", tmp_path / "questions.jsonl"
    recall.main(
        [
            "--set",
            str(recall_set),
            "--json",
            str(summary),
            "--questions",
            str(questions),
            "--abbreviations",
            "--legs",
        ]
    )
    every = dict.fromkeys(("recall@1", "recall@5", "recall@10", "any@1", "any@5", "any@10"), 100.0)
    assert orjson.loads(summary.read_bytes()) == {
        "questions": 2,
        "conversations": every,
        "messages": every,
    }
    first, second = (orjson.loads(line) for line in questions.read_bytes().splitlines())
    assert (first["found_conversations"][0], first["ranks_messages"]) == ("ann/a1", {"a1:0": 1})
    assert (second["found_conversations"][0], second["ranks_conversations"]) == (
        "bob/b1",
        {"bob/b1": 1},
    )
    output = capsys.readouterr().out
    assert "with its abbreviations: 2 questions, 1 of them with gold messages" in output
    assert all(leg in output for leg in ("keyword_messages", "vector_messages"))


def hashes(folder: Path) -> dict[str, dict[int, bytes]]:
    """Return the hashes of the embedded texts by conversation and line."""
    with outside(folder) as vectors:
        assert vectors
        return {name: vectors.hashes(name)[0] for name in state_of(folder).lines}


def test_what_is_made_up_is_not_embedded_anew_under_the_measurement(tmp_path: Path) -> None:
    made, data = Corpus(40), tmp_path / "data"
    corpus.write_transcripts(data, made)
    with recollect(data, "--embedder", "off"):
        pass
    folder = data / "default" / "conversations"
    vectors.made_up(vectors.model(), folder, made.questions(2))
    before = hashes(folder)
    with recollect(data, *vectors.FLAGS) as (target, _), Client(target) as client:
        later = client.conversations.create(channel="web").id
        client.conversations.append_turn(later, [Message.user("One more message.")])
        embedded(data)
        vectors.expect_nothing_embedded(folder)
    after = hashes(folder)
    assert after.pop(later)
    assert after == before
    with recollect(data, "--embedder", "off") as (target, _), Client(target) as client:
        client.conversations.append_turn(later, [Message.user("Nobody embeds this.")])
        client.conversations.list_page()  # answered once the index has it
        with pytest.raises(SystemExit, match="embeds what is in"):
            vectors.expect_nothing_embedded(folder)


@pytest.mark.usefixtures("by_meaning")
def test_recall_asks_only_the_groups_that_are_named(
    recall_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recall.main(["--set", str(recall_set), "--json", str(tmp_path / "out.json"), "--groups", "bob"])
    assert orjson.loads((tmp_path / "out.json").read_bytes())["questions"] == 1
    assert "without its abbreviations: 1 questions" in capsys.readouterr().out


def test_a_corpus_is_the_same_each_time_and_its_questions_have_answers(
    server: RunningServer,
) -> None:
    made = Corpus(60)
    assert [it.texts for it in made] == [it.texts for it in Corpus(60)]
    assert sum(len(it.texts) for it in made) == 60
    ids = corpus.write_through_api(server.target, made)
    with Client(server.target) as client:
        assert sum(client.conversations.get(name).message_count for name in ids) == 60
        assert all(client.recall.search(question).hits for question in made.questions(4))


def test_a_call_that_fails_ends_the_measurement(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()  # a caller that is forked does not print here
    with pytest.raises(EOFError):
        measure(server.target, "/recollect.v1.RecallService/Nothing", [[b""]])
    assert "StatusCode.UNIMPLEMENTED" in capfd.readouterr().err


def test_worst_search_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worst_search.main(
        ["--messages", "400", "--questions", "1", "--words", "--slowest", "2", "--kinds", "letters",
         "--folder", str(tmp_path)]
    )  # fmt: skip
    assert "400 messages, 14 searches" in capsys.readouterr().out


def test_spaces_runs(capsys: pytest.CaptureFixture[str]) -> None:
    spaces.main(
        ["--spaces", "3", "--open", "2", "--messages", "2", "--calls", "8", "--on-disk", "3"]
    )
    assert "spaces on disk" in capsys.readouterr().out


def test_start_runs(capsys: pytest.CaptureFixture[str]) -> None:
    start.main(["--conversations", "3", "--rounds", "1"])
    assert "3 conversations, indexed" in capsys.readouterr().out


@pytest.mark.parametrize("how", ["", "--call"])
def test_backup_runs(capsys: pytest.CaptureFixture[str], how: str) -> None:
    sizes = "--rounds 1 --messages 20 --calls 8"
    [figure] = backup.main([*sizes.split(), *how.split()])
    assert (figure.part, figure.ratio is not None) == (
        f"by {'the call' if how else 'a process'}",
        True,
    )
    assert "backups; an append takes" in capsys.readouterr().out


def test_the_corpus_is_written_for_a_server_that_starts_over_it(tmp_path: Path) -> None:
    corpus.main(["--messages", "30", "--data-dir", str(tmp_path / "data")])
    assert list((tmp_path / "data" / "default" / "conversations").glob("conv-*.jsonl"))


def test_stream_runs(capsys: pytest.CaptureFixture[str]) -> None:
    stream.main(
        [
            "--few",
            "2",
            "--many",
            "3",
            "--events",
            "2",
            "--missed",
            "20",
            "--rounds",
            "1",
            "--calls",
            "16",
        ]
    )
    output = capsys.readouterr().out
    for words in (
        "2 subscribers, 2 events of ",
        "20 others stuck: ",
        "2 subscribers of everything: ",
        "KiB each",
        "20 missed",
    ):
        assert words in output


def test_a_soak_runs_and_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drops.soak(tmp_path / "data", 1.0)
    assert "0 messages lost, 0 repeated" in capsys.readouterr().out


def test_postgres_runs(capsys: pytest.CaptureFixture[str]) -> None:
    postgres.main(["--rounds", "1", "--calls", "16", "--callers", "2", "--cold", "1000"])
    assert "over PostgreSQL" in capsys.readouterr().out


def test_postgres_runs_with_embedded_messages_and_watched_spaces(
    capsys: pytest.CaptureFixture[str],
) -> None:
    figures = postgres.main(
        ["--growth", "--embedded", "4", "--watched", "1", "2", "--seconds", "0.2"]
    )
    values = {(it.name, it.at): it.value for it in figures}
    assert values["bytes of a message: table vectors", None] > 384
    assert values["bytes of a message: server's vectors.db", None] > 384
    assert values["open files", 2] >= 3
    assert "2 watched spaces: append to delivery" in capsys.readouterr().out


def test_meaning_runs(capsys: pytest.CaptureFixture[str]) -> None:
    meaning.main(["--rounds", "1", "--calls", "16", "--callers", "2", "--pause", "0"])
    assert "found by meaning after" in capsys.readouterr().out


def test_embedding_runs(capsys: pytest.CaptureFixture[str]) -> None:
    figures = embedding.main(["--rounds", "1", "--messages", "8"])
    assert "embeds" in capsys.readouterr().out
    assert all(it.value > 0 for it in figures)


TINY = {
    "fairness": "--rounds 1 --seconds 0.2",
    "neighbours": "--messages 40 --seconds 0.3 --words --beside stuck anew",
    "append": "--rounds 1 --calls 64 --callers 1 2 --secure",
    "load": "--rounds 1 --calls 5 --turns 1 30",
    "gateway": "--rounds 1 --calls 5",
    "adapters": "--calls 3 --only agents",
    "search": "--rounds 1 --questions 4 --messages 40 60 --words",
    "beside": "--rounds 1 --messages 60 --searchers 4 --searches 3 --calls 16 --words",
    "newcomers": "--words --half learn",
    "soak": "--appends 20 --conversations 4",
    "crash": "--rounds 1 --power-loss 1",
    "deletes": "--rounds 1 --conversations 5",
}


@pytest.mark.timeout(600)  # twelve of them, each with servers of its own
@pytest.mark.usefixtures("by_meaning")
def test_all_together_make_one_table_and_the_pictures(
    monkeypatch: pytest.MonkeyPatch,
    recall_set: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tiny = [
        every.Short(it.module, TINY.get(it.module, it.arguments), it.wants_set)
        for it in every.BENCHMARKS
    ]
    monkeypatch.setattr(every, "BENCHMARKS", tiny)
    modules = [*TINY, "recall"]
    rows = every.main(["--set", str(recall_set), "--pictures", str(tmp_path), "--only", *modules])
    assert {row.benchmark for row in rows} == {*modules}
    shown = capsys.readouterr().out
    assert "60 messages: Search p50" in shown
    assert table(rows) in shown
    assert all(f" {row.figure.name}" in shown for row in rows)
    for name, drawn in (("append", 2), ("latency", 4)):
        picture = ElementTree.parse(tmp_path / f"{name}.svg")  # noqa: S314 - our own
        lines = [
            it
            for it in picture.iter("{http://www.w3.org/2000/svg}polyline")
            if len(it.attrib["points"].split()) == 2
        ]
        assert len(lines) == 2 * drawn  # each has two points, and a sample beside its name
    legs = {row.figure.part for row in rows if row.figure.name == "messages any@10 of set"}
    recall_by_leg = ElementTree.parse(tmp_path / "recall-set.svg")  # noqa: S314 - our own
    texts = {it.text for it in recall_by_leg.iter("{http://www.w3.org/2000/svg}text")}
    assert {"Search", "keyword_messages", "vector_messages"} <= legs & texts


def test_a_table_says_what_was_seen_against_what_and_whether_the_goal_was_met() -> None:
    echo = (4344, "echo", 0.5092)
    rows = [
        Row(
            "append",
            Figure(
                "appends", 2212.4, "/s", *echo, Goal(0.55, least=True, of_ratio=True), 8, "callers"
            ),
        ),
        Row("load", Figure("Load p50", 0.7512, "ms", goal=Goal(3))),
        Row("crash", Figure("lost", 0, "", goal=Goal(0))),
        Row("recall", Figure("any@10", 88.91, "%", part="Search")),
    ]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table(rows).splitlines()
    ]
    assert cells[0] == ["benchmark", "figure", "seen", "baseline", "ratio", "goal"]
    assert cells[2:] == [
        [
            "append",
            "appends, 8 callers",
            "2,212 /s",
            "4,344 /s (echo)",
            "0.51",
            "at least 0.55 of the baseline: missed",
        ],
        ["load", "Load p50", "0.75 ms", "", "", "at most 3: met"],
        ["crash", "lost", "0", "", "", "at most 0: met"],
        ["recall", "any@10: Search", "88.9 %", "", "", ""],
    ]
    assert len({len(line) for line in table(rows).splitlines()}) == 1


def test_context_packs_for_the_questions_of_a_set_what_was_said_before_them(
    recall_set: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = packing.quality(recall_set, [], [1000], {"embedder": "off"})
    assert figures == {
        ("recollect", 1000): 100.0,
        ("last turns", 1000): 100.0,
        ("plain fts5", 1000): 100.0,
    }
    assert "1 questions with gold messages" in capsys.readouterr().out
    context.main(["--set", str(recall_set), "--words", "--tokens", "2", "--groups", "ann"])
    assert "2 tokens   0.0" in capsys.readouterr().out


def test_dialogue_counts_gold_recall_and_noise_in_each_arrangement(
    recall_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # its answer was said after it: some of RealMem's questions are like that
    file = recall_set / "queries.jsonl"
    early = {"id": "early", "asked_at": "2025-12-31T00:00:00Z"}
    with file.open("ab") as questions:
        questions.write(orjson.dumps(orjson.loads(file.read_bytes().splitlines()[0]) | early))
    flags = ["--groups", "ann", "--by", "words", "--vectors", str(tmp_path / "vectors.npz")]
    figures = {it.name: it for it in dialogue.main(["--set", str(recall_set), *flags])}
    assert {it.part for it in figures.values()} == {"by words"}
    for arrangement in ("own", "apart"):
        assert figures[f"any gold of set, {arrangement}"].value == 100.0
        assert figures[f"any gold of set, {arrangement}"].baseline == 100.0
    # by words alone little of it is known as such
    assert figures["recall for small talk, set"].value < 100
    assert figures["recall for another's questions, set"].value < 100
    assert 0 < figures["rendered / budget p99, set, xml"].value < 1
    output = capsys.readouterr().out
    assert "set, by words: 1 questions, 2000 tokens" in output
    assert "compacted  recollect  any gold" in output


def test_an_excerpt_counts_for_its_message_if_it_has_half_of_it(server: RunningServer) -> None:
    with Client(server.target) as client:
        name = client.conversations.create("web").id
        client.conversations.append_turn(name, [Message.user("one two three four")])
        built = client.recall.build_context(name)
        names = {(name, built.hot[0].message.sequence): "m"}
    assert dialogue.names_in(built, names, {"m": "one two three four, five six"}) == {"m"}
    assert (
        dialogue.names_in(built, names, {"m": "one two three four, five six, seven eight nine ten"})
        == set()
    )


def test_the_message_to_be_answered_does_not_count_as_rendered(server: RunningServer) -> None:
    with Client(server.target) as client:
        name = client.conversations.create("web").id
        client.conversations.append_turn(
            name, [Message.user("What is a wombat?"), Message.assistant("A marsupial.")]
        )
        for form in dialogue.FORMATS:
            short, long = (
                dialogue.rendered_tokens(
                    client.recall.build_context(name, query, format=form), query
                )
                for query in ("And now?", "And now? " * 200)
            )
            assert abs(short - long) <= 1


def test_vectors_are_computed_once_and_kept_for_the_next_run(tmp_path: Path) -> None:
    computed: list[int] = []

    class Counting(Embedder):
        def __init__(self) -> None:
            self.identity = "a model"

    def embed_pieces(_self: Embedder, pieces: Sequence[Piece]) -> list[EmbeddedPiece]:
        computed.append(len(pieces))
        return [EmbeddedPiece(np.array([len(piece), piece[0]], np.float32)) for piece in pieces]

    def vectors(pieces: Sequence[Piece]) -> list[list[float]]:
        return [it.vector.tolist() for it in Counting().embed_pieces(pieces)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Embedder, "embed_pieces", embed_pieces)
        for _ in range(2):
            with dialogue.remembered(tmp_path / "vectors"):
                assert vectors([(7, 1), (8, 1, 2), (7, 1)]) == [[2, 7], [3, 8], [2, 7]]
                assert vectors([(8, 1, 2)]) == [[3, 8]]
    assert computed == [2]


def test_context_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(context, "LONG", 70)
    context.main(["--messages", "60", "--calls", "4", "--words", "--folder", str(tmp_path)])
    output = capsys.readouterr().out
    for words in (
        "a conversation short: hot p50",
        "of 70 turns: hot p50",
        "whole, through the wire: p50",
        "after a restart",
    ):
        assert words in output


def test_receive_runs(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--contacts", "30", "--threads", "5", "--mails", "40"]
    receive.main(["--rounds", "1", "--calls", "16", "--callers", "2", *sizes])
    output = capsys.readouterr().out
    for words in (
        "30 contacts, 5 threads with 40 Message-IDs",
        "a contact's conversation: p50",
        "2 callers, email: ",
    ):
        assert words in output


def test_insight_times_every_answer(capsys: pytest.CaptureFixture[str]) -> None:
    figures = insight.main(["--messages", "300", "--rounds", "1", "--calls", "0"])
    assert [figure.name for figure in figures] == ["insight p50", "insight p99"]
    assert "busiest conversations, 30 days" in capsys.readouterr().out
