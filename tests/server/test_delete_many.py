"""DeleteMany: which conversations it takes, in which order, and what a repeat finds."""

from datetime import timedelta
from typing import Any

import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.conversation_pb2 import ARCHIVE_FILTER_ALL, ARCHIVE_FILTER_ARCHIVED
from recollect_server.kernel.index.writer import Writer

from tests.conftest import RunningServer, Start
from tests.server.conftest import Connect, Service, failure_of, files_with, moment

DAY = timedelta(days=1) // timedelta(milliseconds=1)


def delete(service: Service, **fields: Any) -> api.DeleteManyResponse:
    return service.conversations.DeleteMany(api.DeleteManyRequest(**fields))


def days(service: Service, server: RunningServer, count: int) -> list[str]:
    """Begin a conversation a day, the oldest first."""
    conversations = []
    for at in range(count):
        created = moment(server.clock.now - (count - at) * DAY)
        conversations.append(service.create(create_time=created).id)
    return conversations


def test_the_longest_unchanged_go_first_and_the_limit_leaves_the_others(
    service: Service, server: RunningServer
) -> None:
    conversations = days(service, server, 5)
    before = moment(server.clock.now - 2 * DAY + 1)
    planned = delete(service, updated_before=before, limit=3, dry_run=True)
    first = delete(service, updated_before=before, limit=3)
    assert list(planned.conversation_ids) == list(first.conversation_ids) == conversations[:3]
    assert planned.has_more
    assert first.has_more
    assert not planned.removed
    rest = delete(service, updated_before=before, limit=3)
    assert (list(rest.conversation_ids), rest.has_more) == (conversations[3:4], False)
    assert [it.id for it in service.listed().conversations] == conversations[4:]
    assert {it.place: it.count for it in first.removed}["conversations"] == 3


@pytest.mark.files  # over PostgreSQL each delete ends by itself
def test_one_delete_is_one_job_of_the_index_and_dozens_share_one(
    service: Service, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversations = [service.conversation_of(f"quixotriple {at}") for at in range(60)]
    service.listed()
    jobs: list[str] = []
    write = Writer.write

    def note(writer: Writer, *arguments: Any, **options: Any) -> Any:
        jobs.append(str(writer.path))
        return write(writer, *arguments, **options)

    monkeypatch.setattr(Writer, "write", note)
    service.delete(conversations[0], request_id="one")
    assert len(jobs) == 1
    receipt = delete(service, channels=["web"])
    assert {*receipt.conversation_ids} == {*conversations[1:]}
    assert {it.place: it.count for it in receipt.removed}["messages"] == 59
    assert len(jobs) <= 4
    assert files_with(server.data_dir, "quixotriple") == []


def test_archived_conversations_and_everything_can_be_chosen(service: Service) -> None:
    archived, other = service.conversation_of("one"), service.conversation_of("two")
    service.conversations.Archive(api.ArchiveRequest(conversation_id=archived))
    assert list(delete(service, archived=ARCHIVE_FILTER_ARCHIVED).conversation_ids) == [archived]
    assert list(delete(service, archived=ARCHIVE_FILTER_ALL).conversation_ids) == [other]


def test_a_pinned_conversation_is_left_unless_it_is_forced(
    service: Service, server: RunningServer
) -> None:
    pinned = service.create("cli", pinned=True).id
    others = [service.create("cli").id for _ in range(2)]
    planned = delete(service, channels=["cli"], limit=2, dry_run=True)
    receipt = delete(service, channels=["cli"], limit=2)
    assert set(receipt.conversation_ids) == set(planned.conversation_ids) == set(others)
    assert [it.conversation_id for it in receipt.left] == [pinned]
    assert not receipt.has_more
    assert list(delete(service, channels=["cli"], force=True).conversation_ids) == [pinned]


def test_the_receipt_is_kept_and_the_text_is_gone_after_a_restart(
    start_server: Start, connect: Connect
) -> None:
    server = start_server()
    service = connect(server)
    deleted, stays = (
        service.conversation_of("The zanzibarian pangolin."),
        service.conversation_of("Something else."),
    )
    first = delete(service, conversation_ids=[deleted], request_id="clean-1")
    assert files_with(server.data_dir, "zanzibarian") == []
    server.stop()
    again = connect(start_server())
    assert delete(again, conversation_ids=[deleted], request_id="clean-1") == first
    assert [it.id for it in again.listed().conversations] == [stays]


def test_one_that_fails_half_way_says_so_and_goes_on_when_it_is_repeated(
    service: Service, server: RunningServer
) -> None:
    names = days(service, server, 3)
    in_the_way = server.folder / f"{names[1]}.jsonl.deleting"
    in_the_way.mkdir()  # the transcript cannot take its name
    first = delete(service, channels=["web"], archived=ARCHIVE_FILTER_ALL, request_id="all")
    assert list(first.conversation_ids) == names[:1]
    assert first.has_more
    assert first.failure.startswith(f"{names[1]}: the transcript cannot be deleted: ")
    failure = failure_of(
        lambda: delete(service, channels=["web"], archived=ARCHIVE_FILTER_ALL, request_id="all")
    )
    assert failure.reason == "STORAGE_UNAVAILABLE"  # nothing was deleted this time
    in_the_way.rmdir()
    rest = delete(service, channels=["web"], archived=ARCHIVE_FILTER_ALL, request_id="all")
    assert (list(rest.conversation_ids), rest.has_more, rest.failure) == (names[1:], False, "")
    assert delete(service, channels=["web"], archived=ARCHIVE_FILTER_ALL, request_id="all") == rest
