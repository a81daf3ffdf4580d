"""Messages of third parties stay out of the conversations: no list, search, context or stream has
them.
"""

from functools import partial

import grpc
import pytest
from recollect.v1 import recall_service_pb2 as recall
from recollect.v1.recall_service_pb2_grpc import RecallServiceStub
from recollect_server.kernel.index.checking import state_of

from tests.conftest import RunningServer
from tests.external.conftest import KNOWN, Outside
from tests.server.conftest import Service, failure_of, files_with
from tests.streaming.conftest import Subscriber
from tests.waiting import until


def written(outside: Outside) -> str:
    """Put a word that no conversation has in every text of a third party and its owner."""
    name = outside.write(
        "pangolin", party="pangolin@example.org", channel="signal"
    ).communication.id
    outside.resolve(outside.escalations()[0].id, "pangolin")
    outside.reply(name, "pangolin")
    outside.trust(name, KNOWN, "pangolin")
    return name


def test_no_list_has_it(outside: Outside, service: Service) -> None:
    mine = service.conversation_of("Hello", channel="signal")
    name = written(outside)
    assert [it.id for it in service.listed().conversations] == [mine]
    assert [it.conversation.id for it in service.recent().conversations] == [mine]
    assert service.load(channel="signal").conversation.id == mine
    for call in (service.get, service.load, service.delete, service.context):
        assert failure_of(partial(call, name)).fields == ("conversation_id",)


def test_no_search_finds_it(outside: Outside, service: Service) -> None:
    service.conversation_of("Hello", channel="signal")
    written(outside)
    answer = service.search("pangolin", explain=True)
    assert (list(answer.results), list(answer.hits), answer.total_matches) == ([], [], 0)
    assert service.found("Hello") != []


def test_no_context_has_it(outside: Outside, service: Service) -> None:
    mine = service.conversation_of("Hello", channel="signal")
    written(outside)
    stub = RecallServiceStub(service.channel)
    try:
        text = str(
            stub.BuildContext(
                recall.BuildContextRequest(conversation_id=mine, message="What of the pangolin?")
            )
        )
    except grpc.RpcError as error:
        text = str(error)
    assert "pangolin@" not in text
    assert text.lower().count("pangolin") <= 1  # where the question is repeated
    assert "pangolin" not in str(service.context(mine))


def test_no_subscriber_of_conversations_hears_of_it(outside: Outside, service: Service) -> None:
    one = Subscriber(outside.server.target).ready()
    try:
        written(outside)
        service.conversation_of("Hello")
        one.until_count("conversation_updated", 1)
        assert one.kinds() == [
            "conversation_list",
            "conversation_loaded",
            "conversation_created",
            "conversation_updated",
        ]
        assert "pangolin" not in str(one.updates)
    finally:
        one.close()


def test_no_table_of_conversations_and_no_other_file_has_it(
    outside: Outside, service: Service, server: RunningServer
) -> None:
    service.conversation_of("Hello")
    name = written(outside)
    until(lambda: state_of(server.folder).messages == 1)
    server.stop()
    # The index has the address, the scope, the question and the answer, which the lists answer; the
    # words are in the transcript.
    names = {line.partition(":")[0] for line in files_with(server.data_dir, "pangolin")}
    assert names == {f"{name}.jsonl", "conversations.db"}
    assert state_of(server.folder).messages == 1


def test_what_third_parties_say_is_not_logged_and_their_communication_is(
    outside: Outside, capsys: pytest.CaptureFixture[str]
) -> None:
    name = written(outside)
    outside.write("pangolin", party="pangolin@example.org", channel="signal", delivered="again")
    failure_of(lambda: outside.reply(name, "pangolin", scope="other"))
    logged = capsys.readouterr()
    lines = (logged.out + logged.err).splitlines()
    assert [line for line in lines if "RecordReply" in line and f"communication={name}" in line]
    assert "pangolin" not in logged.out + logged.err
