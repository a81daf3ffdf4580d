"""Deleting: gone for good, from every byte of every file, and nothing else gone with it."""

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import apsw
import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import recall_service_pb2 as recall_api
from recollect.v1.conversation_pb2 import Party
from recollect.v1.message_pb2 import Attachment, ToolCall
from recollect_server.kernel.erase.erasing import Receipt
from recollect_server.kernel.index import migrations
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.lines import Place
from recollect_server.run.features import FEATURES

from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import (
    Connect,
    Service,
    agent,
    at_once,
    code_of,
    delete_index,
    failure_of,
    files_with,
    kept_by,
    moment,
    tool,
    transcript,
    user,
)

SECRETS = [
    "quixotriple", "wimblezark", "florbtangle", "snorquibble", "grumpfelix", "zanthquork", "plimborax", "drofwhistle",
    "kwyjibosnap", "vexlorimple", "brontzwicky", "mugglethorp", "jixnaforb",
]  # fmt: skip


def secret_conversation(service: Service) -> str:
    """Create a conversation with a unique word in every field that takes text."""
    words = iter(SECRETS)
    conversation_id = service.create(
        "email",
        participants=[next(words)],
        party=Party(subject=next(words), contact=next(words)),
        model=next(words),
    ).id
    call = ToolCall(id="c", name=next(words), arguments=next(words))
    question = user(
        f"{next(words)} zebra",
        sender=next(words),
        attachments=[Attachment(media_type="a/b", uri=next(words))],
    )
    question.metadata.update({"k": next(words)})
    service.append(
        conversation_id,
        question,
        agent("", thinking_text=next(words), tool_calls=[call]),
        tool("c", "fine"),
    )
    service.rename(conversation_id, f"Title {next(words)}")
    service.abbreviate(conversation_id, f"notes {next(words)}", ["topic-" + SECRETS[0]])
    service.compress(conversation_id, 1, f"summary {SECRETS[1]}")
    assert next(words, None) is None
    return conversation_id


def counts(receipt: api.DeleteResponse) -> dict[str, int]:
    return {removed.place: removed.count for removed in receipt.removed}


def test_a_receipt_says_what_was_removed_from_where(
    service: Service, server: RunningServer, clock: MovableClock
) -> None:
    conversation_id = service.create().id
    service.append(conversation_id, user("one"), agent("two"), request_id="r1")
    service.rename(conversation_id, "Title", request_id="r2")
    size = transcript(server, conversation_id).stat().st_size
    clock.move(5000)
    receipt = service.delete(conversation_id)
    assert receipt.conversation_id == conversation_id
    assert receipt.delete_time == moment(clock.now)
    assert counts(receipt) == {
        "conversations": 1, "messages": 2, "search_terms": 2, "updates": 3, "requests": 2, "transcript": size,
    }  # fmt: skip


def test_no_byte_of_any_file_has_the_text_any_more(service: Service, server: RunningServer) -> None:
    others = [service.conversation_of(f"other {number} with zebra") for number in range(5)]
    conversation_id = secret_conversation(service)
    assert len({line.split(": ")[1] for line in files_with(server.data_dir, *SECRETS)}) == len(
        SECRETS
    )
    service.delete(conversation_id)
    assert files_with(server.data_dir, *SECRETS) == []
    # Its name stays in the update log, for those who watch, and in the audit.
    assert sorted(files_with(server.data_dir, conversation_id)) == [
        f"{name}: {conversation_id}" for name in ("audit.jsonl", "conversations.db")
    ]
    assert set(service.found("zebra")) == set(others)


def test_a_deleted_conversation_is_in_no_answer(service: Service) -> None:
    stays, goes = service.conversation_of("zebra one"), service.conversation_of("zebra two")
    service.delete(goes)
    assert [conversation.id for conversation in service.listed().conversations] == [stays]
    assert service.found("zebra two") == [stays]
    assert service.search("zebra").total_matches == 1
    assert [entry.conversation.id for entry in service.recent().conversations] == [stays]
    for call in (
        lambda: service.get(goes),
        lambda: service.load(goes),
        lambda: service.context(goes),
    ):
        assert failure_of(call).reason == "CONVERSATION_NOT_FOUND"
    assert failure_of(lambda: service.append(goes, user("more"))).reason == "CONVERSATION_NOT_FOUND"


def test_much_text_between_other_text_leaves_nothing_behind(
    service: Service, server: RunningServer
) -> None:
    """Rows that SQLite moved from page to page, and index segments that were merged, must not leave
    copies.
    """
    rng = random.Random(7)  # noqa: S311 - a test's numbers
    words = ["".join(rng.choices("bcdfghjklmnpqrstvwxz", k=12)) for _ in range(60)]
    goes: list[str] = []
    stays: list[str] = []
    for number in range(60):
        filler = " ".join(
            "".join(rng.choices("aeioubcdlmnrst", k=7)) for _ in range(rng.randrange(5, 400))
        )
        secret = words[number] if number % 3 == 0 else "plain"
        conversation_id = service.conversation_of(
            f"{secret} {filler}", f"more {secret}", participants=[f"{secret} p{number}"]
        )
        (goes if number % 3 == 0 else stays).append(conversation_id)
        service.rename(conversation_id, f"Title {secret}")
    for number, conversation_id in enumerate(goes):  # rows grow and move
        service.abbreviate(conversation_id, f"{words[3 * number]} " * 300)
        service.rename(conversation_id, f"{words[3 * number]} again")
    rng.shuffle(goes)
    for conversation_id in goes:
        service.delete(conversation_id)
    assert files_with(server.data_dir, *words) == []
    # The index shares the beginnings of words: their ends must be gone too.
    assert files_with(server.data_dir, *(word[4:] for word in words)) == []
    assert {conversation.id for page in service.pages() for conversation in page} == set(stays)
    assert service.search("plain", limit=100).total_matches == len(stays)


def test_pages_keep_no_copy_of_a_row_that_moved_before_it_was_deleted(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    """SQLite leaves copies of the rows that it distributes to other pages in the gaps of pages."""
    rng = random.Random(11)  # noqa: S311 - a test's numbers
    secrets: dict[str, list[str]] = {}
    for _ in range(200):
        own = ["".join(rng.choices("bcdfghjklmnpqrstvwxz", k=12)) for _ in range(4)]
        name = service.conversation_of(f"{own[0]} asks", participants=[own[1]])
        secrets[name] = own
    for name in rng.sample([*secrets], 200):  # rows that grow move
        service.abbreviate(name, f"{secrets[name][2]} {'notes ' * 40}", [secrets[name][3]])
        service.rename(name, f"{secrets[name][2]} {'title ' * 10}")
    goes = [*secrets][::5]
    for name in goes:
        service.delete(name)
    left = [word for name in goes for word in secrets[name]]
    assert files_with(server.data_dir, *left) == []
    service.append(next(iter(secrets.keys() - {*goes})), user("later"))
    server.stop()
    assert files_with(server.data_dir, *left) == []
    pages = connect(start_server()).pages(page_size=100)
    assert {it.id for page in pages for it in page} == secrets.keys() - {*goes}


def test_deleting_twice_finds_nothing_and_with_the_same_request_the_receipt(
    service: Service,
) -> None:
    first, second = service.conversation_of("one"), service.conversation_of("two")
    receipt = service.delete(first, request_id="d1")
    assert service.delete(first, request_id="d1") == receipt
    failure = failure_of(lambda: service.delete(first))
    assert (failure.code, failure.reason) == ("NOT_FOUND", "CONVERSATION_NOT_FOUND")
    assert failure_of(lambda: service.delete(second, request_id="d1")).reason == "REQUEST_ID_REUSED"
    anchors_too = failure_of(
        lambda: service.delete(first, request_id="d1", anchors=api.ANCHOR_DISPOSITION_DELETE)
    )
    assert anchors_too.reason == "REQUEST_ID_REUSED"


def test_the_receipt_is_known_after_a_restart(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    conversation_id = service.conversation_of("one")
    receipt = service.delete(conversation_id, request_id="d1")
    server.stop()
    assert connect(start_server()).delete(conversation_id, request_id="d1") == receipt


@pytest.mark.files
def test_an_id_begins_anew_once_its_delete_has_its_answer(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = service.conversation_of("one", conversation_id="conv-01J00000000000000000000000")
    drop_each = FolderStore.drop_each
    codes: list[str] = []

    def be_overtaken(store: FolderStore, logs: Sequence[str]) -> None:
        monkeypatch.undo()
        codes.append(code_of(lambda: service.create(conversation_id=name)))
        drop_each(store, logs)
        codes.append(code_of(lambda: service.create(conversation_id=name)))

    monkeypatch.setattr(FolderStore, "drop_each", be_overtaken)
    receipt = service.delete(name, request_id="d1")
    assert codes == ["ALREADY_EXISTS", "ALREADY_EXISTS"]
    assert service.create(conversation_id=name).id == name
    assert counts(receipt)["messages"] == 1
    assert service.delete(name, request_id="d1") == receipt
    assert service.get(name).id == name
    service.delete(name, request_id="d2")
    assert service.delete(name, request_id="d1") == receipt


@pytest.mark.files
def test_the_request_of_a_delete_that_an_earlier_version_cut_short_is_answered(
    tmp_path: Path,
) -> None:
    """Its note stood in the index, and its log may be gone."""
    Index(tmp_path, FEATURES.tables).close()
    steps = migrations.MIGRATIONS.index(migrations._no_notes_of_deletes)
    with apsw.Connection(str(tmp_path / "conversations.db")) as before:
        row = ("\nconv-1", "", "", 0, 0, 0, '["d1", "hash"]')
        before.execute("INSERT INTO requests VALUES(?, ?, ?, ?, ?, ?, ?)", row)
        before.pragma("user_version", migrations.OLDEST + steps)
    index = Index(tmp_path, FEATURES.tables)
    record = index.requests.find("d1")
    assert record is not None
    assert (record.hash, Receipt.of(record).conversation_id) == ("hash", "conv-1")
    assert index.value("SELECT count(*) FROM requests") == 1
    index.close()


def test_of_16_callers_one_deletes(service: Service) -> None:
    conversation_id = service.conversation_of("one")

    assert sorted(at_once(16, lambda _: code_of(lambda: service.delete(conversation_id)))) == [
        "NOT_FOUND"
    ] * 15 + ["OK"]


def test_appends_and_searches_meet_a_delete_and_are_answered_or_find_nothing(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.conversation_of(*(f"zebra number {number}" for number in range(30)))
    stays = service.conversation_of("zebra that stays")

    def call(caller: int) -> str:
        if caller == 0:
            return code_of(lambda: service.delete(conversation_id))
        if caller % 2:
            return code_of(lambda: service.append(conversation_id, user(f"zebra {caller}")))
        assert stays in service.found("zebra that stays")
        return code_of(service.recent)

    codes = at_once(16, call)
    assert codes[0] == "OK"
    assert set(codes[1::2]) <= {"OK", "NOT_FOUND"}
    assert set(codes[2::2]) == {"OK"}
    assert service.found("zebra") == [stays]
    assert [path.name for path in server.folder.glob("*.jsonl*")] == [f"{stays}.jsonl"]


@pytest.mark.files
@pytest.mark.parametrize("call", ["load", "context", "built"])
def test_one_that_is_deleted_while_it_is_read_is_not_found(
    call: str, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation_id = service.conversation_of("zebra", *(f"turn {number}" for number in range(9)))
    read_at = FolderStore.read_at
    calls: dict[str, Callable[[], object]] = {
        "load": lambda: service.load(conversation_id),
        "context": lambda: service.context(conversation_id),
        "built": lambda: service.recall.BuildContext(
            recall_api.BuildContextRequest(conversation_id=conversation_id)
        ),
    }
    calls[call]()  # the newest turns are in memory

    def be_overtaken(store: FolderStore, places: Mapping[str, Sequence[Place]]) -> object:
        monkeypatch.undo()
        service.delete(conversation_id)
        return read_at(store, places)

    monkeypatch.setattr(FolderStore, "read_at", be_overtaken)
    failure = failure_of(calls[call])
    assert (failure.code, failure.reason) == ("NOT_FOUND", "CONVERSATION_NOT_FOUND")


@pytest.mark.parametrize("index_lost", [False, True])
def test_a_start_finishes_a_delete_that_was_interrupted_before_its_second_step(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    index_lost: bool,
) -> None:
    stays, goes = service.conversation_of("zebra stays"), secret_conversation(service)
    server.stop()
    path = transcript(server, goes)
    path.rename(path.with_name(path.name + ".deleting"))
    if index_lost:
        delete_index(server)
    again = start_server()
    assert sorted(again.folder.glob("*.jsonl*")) == [transcript(again, stays)]
    assert files_with(again.data_dir, *SECRETS) == []
    answered = connect(again)
    assert answered.found("zebra") == [stays]
    assert failure_of(lambda: answered.get(goes)).reason == "CONVERSATION_NOT_FOUND"


def test_what_was_cut_off_a_transcript_goes_with_it(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    conversation_id = service.conversation_of("zebra")
    server.stop()
    with transcript(server, conversation_id).open("ab") as file:
        file.write(b'{"type":"turn","content":"quixotriple')
    # What a copy to a new file leaves where the power fails before it takes the name (see writer).
    (server.folder / f"{conversation_id}.jsonl.copy").write_text("wimblezark")
    again = start_server()
    assert files_with(again.data_dir, "quixotriple") == [
        f"{conversation_id}.jsonl.torn: quixotriple"
    ]
    receipt = connect(again).delete(conversation_id)
    assert counts(receipt)["torn_tail"] == 37
    assert files_with(again.data_dir, "quixotriple", "wimblezark") == []


def test_a_damaged_transcript_is_deleted_whole_and_the_next_start_takes_its_words_out(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    stays, goes = (
        service.conversation_of("zebra stays"),
        service.conversation_of("zebra", "quixotriple", "last"),
    )
    path = transcript(server, goes)
    path.write_bytes(path.read_bytes().replace(b'"quixotriple"', b'"quixotripel"'))
    service.delete(goes)
    assert service.found("quixotriple zebra") == [stays]
    before = service.search("zebra")
    server.stop()
    again = start_server()
    assert files_with(again.data_dir, "quixotriple", "quixotripel") == []
    after = connect(again).search("zebra")
    # The words that the restart takes out counted for how rare "zebra" is: only the scores may
    # differ.
    for answer in (before, after):
        for it in (*answer.results, *answer.hits):
            it.ClearField("score")
    assert after == before


def test_a_refused_delete_changes_nothing(service: Service, server: RunningServer) -> None:
    conversation_id = service.conversation_of("zebra")
    files = kept_by(service, server)
    wrong: list[api.DeleteRequest] = [
        api.DeleteRequest(),
        api.DeleteRequest(conversation_id="../" + conversation_id),
        api.DeleteRequest(conversation_id=conversation_id, request_id="a b"),
        api.DeleteRequest(conversation_id=conversation_id, anchors=99),  # type: ignore[arg-type]
    ]
    for request in wrong:
        failure = failure_of(lambda request=request: service.conversations.Delete(request))  # type: ignore[misc]
        assert (failure.code, failure.reason) == ("INVALID_ARGUMENT", "INVALID_FIELD")
    assert kept_by(service, server) == files


def test_the_name_of_a_deleted_conversation_is_never_used_again(service: Service) -> None:
    deleted = service.conversation_of("one")
    service.delete(deleted)
    assert deleted not in {service.create().id for _ in range(20)}
