"""Topics by hand, the archive and metadata: live, in lists, and after the index is made anew."""

from typing import Any

from google.protobuf.struct_pb2 import Struct
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.conversation_pb2 import Conversation
from recollect_server.kernel.domain.conversation import merged

from tests.conftest import RunningServer, Start
from tests.server.conftest import Connect, Service, agent, delete_index, user


def struct(values: dict[str, Any]) -> Struct:
    made = Struct()
    made.update(values)
    return made


def archive(service: Service, conversation_id: str, **fields: Any) -> Conversation:
    request = api.ArchiveRequest(conversation_id=conversation_id, **fields)
    return service.conversations.Archive(request).conversation


def set_topics(service: Service, conversation_id: str, *topics: str) -> Conversation:
    request = api.SetTopicsRequest(conversation_id=conversation_id, topics=topics)
    return service.conversations.SetTopics(request).conversation


def update(service: Service, conversation_id: str, **values: Any) -> Conversation:
    request = api.UpdateMetadataRequest(conversation_id=conversation_id, metadata=struct(values))
    return service.conversations.UpdateMetadata(request).conversation


def test_subscribers_see_each_change_and_a_snapshot_lists_no_archived_conversation(
    service: Service,
) -> None:
    stays, goes = service.conversation_of("one"), service.conversation_of("two")
    stream = service.conversations.StreamUpdates(api.StreamUpdatesRequest(), timeout=30)
    assert len(next(stream).update.conversation_list.conversations) == 2
    next(stream)
    assert (
        set_topics(service, goes, "disk") == next(stream).update.conversation_updated.conversation
    )
    assert update(service, goes, task=7) == next(stream).update.conversation_updated.conversation
    archived = archive(service, goes)
    assert archived == next(stream).update.conversation_updated.conversation
    assert (archived.archived, archived.topics_by_hand) == (True, True)
    assert archived.metadata == struct({"task": 7})
    again = service.conversations.StreamUpdates(api.StreamUpdatesRequest(), timeout=30)
    assert [it.id for it in next(again).update.conversation_list.conversations] == [stays]
    assert next(again).update.conversation_loaded.conversation.id == stays
    stream.cancel()
    again.cancel()


def test_what_is_archived_already_is_told_to_nobody_and_takes_no_line(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.conversation_of("one")
    archived = archive(service, conversation_id)
    transcript = server.folder / f"{conversation_id}.jsonl"
    written = transcript.read_bytes()
    assert archive(service, conversation_id) == archived
    assert transcript.read_bytes() == written


def test_the_person_brings_a_conversation_back_and_the_agent_does_not(service: Service) -> None:
    conversation_id = service.conversation_of("one")
    archive(service, conversation_id)
    assert service.append(conversation_id, agent("an answer")).conversation.archived
    assert not service.append(conversation_id, user("a question")).conversation.archived
    assert [it.id for it in service.listed().conversations] == [conversation_id]


def test_an_index_made_anew_has_topics_by_hand_the_archive_and_metadata(
    start_server: Start, connect: Connect
) -> None:
    server: RunningServer = start_server()
    service = connect(server)
    conversation_id = service.conversation_of("one")
    set_topics(service, conversation_id, "disk")
    update(service, conversation_id, task={"id": 7}, gone=1)
    update(service, conversation_id, gone=None)
    service.abbreviate(conversation_id, "Notes.", ["other"])
    before = archive(service, conversation_id)
    assert list(before.topics) == ["disk"]
    assert before.metadata == struct({"task": {"id": 7}})
    server.stop()
    delete_index(server)
    service = connect(start_server())
    assert service.get(conversation_id) == before
    [listed] = service.listed(archived="ARCHIVE_FILTER_ARCHIVED").conversations
    assert listed == before
    assert service.search("one").hits[0].conversation_id == conversation_id


def test_metadata_is_merged_by_key() -> None:
    assert merged(None, None) is None
    assert merged({"a": 1}, None) == {"a": 1}
    assert merged({"a": 1, "b": 2}, {"b": None, "c": {"d": None}}) == {"a": 1, "c": {"d": None}}
    assert merged({"a": 1}, {"a": None}) is None
