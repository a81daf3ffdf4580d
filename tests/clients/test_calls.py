"""Calls of the clients in other languages: retries, errors with reasons, metadata, deadlines,
compression, TLS, watches.
"""

import subprocess
import time
from pathlib import Path

import grpc
import pytest
import trustme
from recollect import Client, Message
from recollect.v1 import conversation_service_pb2 as pb
from recollect.v1 import error_pb2, update_pb2

from tests.client.conftest import Fault, Scripted, bad_request, error_info, retry_info
from tests.clients.conftest import Driver, Failed, Language, go, go_programs
from tests.conformance.runner import FOLDER, cases
from tests.conftest import RunningServer, Start
from tests.operations.test_traces import SAMPLED, SPAN, TRACE, Collector, collector
from tests.server.conftest import server_process
from tests.streaming.proxy import Proxy

__all__ = ["collector"]

pytestmark = pytest.mark.timeout(600)  # whichever is first waits until Go is compiled

CONVERSATION = "conv-01HQ0000000000000000000000"
UNAVAILABLE, CANCELLED = Fault(grpc.StatusCode.UNAVAILABLE), Fault(grpc.StatusCode.CANCELLED)


def append(driver: Driver, conversation: str, text: str) -> dict[str, object]:
    """Append a message of the user's and return the answer."""
    answer: dict[str, object] = driver.do(
        call="ConversationService/AppendTurn",
        request={
            "conversation_id": conversation,
            "messages": [{"role": "ROLE_USER", "content": text}],
        },
    )
    return answer


def get(driver: Driver) -> None:
    driver.do(call="ConversationService/Get", request={"conversation_id": CONVERSATION})


def failure(driver: Driver) -> dict[str, object]:
    """Return the error of a call."""
    with pytest.raises(Failed) as caught:
        get(driver)
    return dict(caught.value.error)


def test_the_client_gets_what_every_case_of_the_conformance_suite_says(
    server: RunningServer, language: Language
) -> None:
    folders = (FOLDER, FOLDER / "wrong")
    files = [file for folder in folders for file in sorted(folder.glob("*.json"))]
    expected = [f"ok     {case.file}: {case.name}" for folder in folders for case in cases(folder)]
    command = [*language.conformance, server.target, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert (done.stderr, done.stdout.splitlines()) == ("", expected)
    assert done.returncode == 0


def test_a_write_is_repeated_with_its_request_id_until_it_is_answered(
    scripted: Scripted, driver: Driver
) -> None:
    driver.do(connect=scripted.target)
    scripted.script = [UNAVAILABLE, CANCELLED]
    append(driver, CONVERSATION, "Hello")
    append(driver, CONVERSATION, "Hello")
    assert scripted.methods == ["AppendTurn"] * 4
    first, *repeats, second = scripted.request_ids
    assert len(first) == 32
    assert repeats == [first, first]
    assert second != first


def test_a_call_is_repeated_so_often_and_only_where_that_may_help(
    scripted: Scripted, driver: Driver
) -> None:
    driver.do(connect=scripted.target, options={"retry": {"maxAttempts": 3}})
    scripted.script = [UNAVAILABLE] * 4
    assert failure(driver)["code"] == "UNAVAILABLE"
    assert (len(scripted.requests), len(scripted.script)) == (3, 1)
    for code in (
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.FAILED_PRECONDITION,
    ):
        scripted.requests.clear()
        scripted.script = [Fault(code)]
        assert failure(driver)["code"] == code.name
        assert len(scripted.requests) == 1


def test_a_limit_that_lifts_within_the_time_out_is_waited_for(
    scripted: Scripted, driver: Driver
) -> None:
    driver.do(connect=scripted.target, options={"timeoutMs": 5_000})
    limit = error_info("ERROR_REASON_LIMIT_EXCEEDED", limit="calls")
    for reason in ("LIMIT_EXCEEDED", "TOO_MANY_SPACES", "TOO_MANY_ANSWERS", "OF_2031"):
        scripted.requests.clear()
        info = error_info(f"ERROR_REASON_{reason}")
        scripted.script = [Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, [info, retry_info(0.3)])]
        get(driver)
        first, second = scripted.requests
        assert first.time_remaining - second.time_remaining > 0.29
    scripted.script = [Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, [limit, retry_info(60)])]
    error = failure(driver)
    assert (error["reason"], error["retryAfterMs"]) == ("LIMIT_EXCEEDED", 60_000)
    assert error["metadata"] == {"limit": "calls"}


def test_an_attempt_that_has_no_time_for_an_answer_is_not_begun(
    scripted: Scripted, driver: Driver
) -> None:
    driver.do(connect=scripted.target, options={"timeoutMs": 2_000, "retry": {"initialDelayMs": 0}})
    info = error_info("ERROR_REASON_INDEX_UNAVAILABLE")
    scripted.script = [Fault(grpc.StatusCode.UNAVAILABLE, [info, retry_info(1.85)])]
    assert failure(driver)["reason"] == "INDEX_UNAVAILABLE"
    assert len(scripted.requests) == 1


def test_a_call_ends_at_its_time_out_whatever_the_server_does(
    scripted: Scripted, driver: Driver
) -> None:
    scripted.hang.clear()
    driver.do(connect=scripted.target, options={"timeoutMs": 200})
    error = failure(driver)
    assert (error["code"], error["reason"]) == ("DEADLINE_EXCEEDED", None)


def test_every_reason_of_the_contract_is_typed(scripted: Scripted, driver: Driver) -> None:
    driver.do(connect=scripted.target, options={"retry": {"maxAttempts": 1}})
    names = list(error_pb2.ErrorReason.keys())[1:]
    for name in names:
        fault = Fault(grpc.StatusCode.UNKNOWN, [error_info(name, some="thing")], f"no {name}")
        scripted.script = [fault]
        error = failure(driver)
        assert error["name"] == "RecollectError"
        assert (error["reason"], error["rawReason"]) == (name.removeprefix("ERROR_REASON_"), name)
        assert (error["message"], error["metadata"]) == (f"no {name}", {"some": "thing"})
    assert len(names) > 25


def test_details_name_the_fields_and_strange_reasons_are_kept_apart(
    scripted: Scripted, driver: Driver
) -> None:
    driver.do(connect=scripted.target)
    details = [error_info("ERROR_REASON_INVALID_FIELD"), bad_request(title="is too long")]
    scripted.script = [Fault(grpc.StatusCode.INVALID_ARGUMENT, details)]
    assert failure(driver)["violations"] == [{"field": "title", "description": "is too long"}]
    for reason in ("ERROR_REASON_OF_2031", "ERROR_REASON_UNSPECIFIED", "ERROR_REASON_1"):
        scripted.script = [Fault(grpc.StatusCode.NOT_FOUND, [error_info(reason)])]
        error = failure(driver)
        assert (error["code"], error["reason"], error["rawReason"]) == ("NOT_FOUND", None, reason)
    foreign = error_info("ERROR_REASON_NOT_FOUND", domain="proxy.example")
    scripted.script = [Fault(grpc.StatusCode.NOT_FOUND, [foreign])]
    assert failure(driver)["rawReason"] is None


def test_token_and_space_go_with_every_call_from_options_or_the_environment(
    scripted: Scripted, driver: Driver, tmp_path: Path
) -> None:
    driver.do(connect=scripted.target, options={"token": "rcl_a", "space": "one"})
    get(driver)
    environment = {"RECOLLECT_TOKEN": "rcl_b", "RECOLLECT_SPACE": "two"}
    driver.do(connect=f"unix:{tmp_path / 'socket'}", options={"env": environment})
    get(driver)
    assert [
        (it.metadata["authorization"], it.metadata["recollect-space"]) for it in scripted.requests
    ] == [("Bearer rcl_a", "one"), ("Bearer rcl_b", "two")]


def test_tls_is_spoken_with_servers_that_the_authority_signed(
    start_server: Start, driver: Driver, tmp_path: Path, no_log: None
) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    leaf = authority.issue_cert("127.0.0.1", "localhost")
    leaf.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    leaf.private_key_pem.write_to_path(tmp_path / "server.key")
    for name, it in (("ca", authority), ("stranger", stranger)):
        it.cert_pem.write_to_path(tmp_path / f"{name}.pem")
    server = start_server(
        listen="127.0.0.1:0", tls_cert=tmp_path / "server.pem", tls_key=tmp_path / "server.key"
    )
    driver.do(connect=server.target, options={"ca": str(tmp_path / "ca.pem")})
    assert driver.do(call="AccessService/WhoAmI")["space"] == "default"
    driver.do(connect=server.target, options={"env": {"RECOLLECT_CA": str(tmp_path / "ca.pem")}})
    assert driver.do(call="AccessService/WhoAmI")["space"] == "default"
    driver.do(connect=server.target, options={"ca": str(tmp_path / "stranger.pem")})
    with pytest.raises(Failed, match=r"certificate is not accepted .*: name the authority"):
        driver.do(call="AccessService/WhoAmI")
    driver.do(connect=server.target)
    with pytest.raises(Failed, match=r"No connection to the server: .* If it speaks TLS"):
        driver.do(call="AccessService/WhoAmI")


def test_an_append_whose_answer_is_lost_is_repeated_and_stored_once(
    server: RunningServer, client: Client, driver: Driver
) -> None:
    proxy = Proxy(server.target)
    driver.do(connect=proxy.address)
    conversation = client.conversations.create("web").id
    answers = []
    for count in range(1, 120, 7):
        append(driver, conversation, "The connection is made.")
        # Cuts the answer off at different places: before it, within its headers, within its body.
        proxy.break_after(count)
        answers.append(append(driver, conversation, f"cut after {count}"))
    proxy.close()
    assert any(answer.get("duplicate") for answer in answers)
    stored = [it.content for it in client.conversations.load(conversation, max_turns=100).messages]
    assert len(stored) == 2 * len(answers)
    assert stored[1::2] == [f"cut after {count}" for count in range(1, 120, 7)]


def test_a_watch_goes_on_over_servers_that_are_killed_without_a_gap_or_a_repeat(
    driver: Driver, tmp_path: Path
) -> None:
    written: list[str] = []
    proxy = Proxy("")
    for life in range(3):
        with server_process(tmp_path / "data") as (process, address), Client(address) as client:
            proxy.target = address
            if life == 0:
                driver.do(connect=proxy.address)
                conversation = client.conversations.create("web").id
                driver.do(watch=True, until="conversationLoaded")
                driver.begin(until="conversationRenamed")
            for number in range(30):
                written.append(f"{life}.{number}")
                client.conversations.append_turn(conversation, [Message.user(written[-1])])
            if life == 2:
                client.conversations.rename(conversation, "The end")
                updates = driver.answer()
            else:
                # The watch has not taken all of them yet.
                process.kill()
                process.wait()
    proxy.close()
    texts = [
        message["content"]
        for update in updates
        for message in update.get("conversation_updated", {}).get("messages", [])
    ]
    assert texts == written
    assert not any(update.get("reset") for update in updates)


def test_a_snapshot_that_begins_anew_replaces_the_one_that_broke(
    scripted: Scripted, driver: Driver
) -> None:
    listed = update_pb2.Update(conversation_list=update_pb2.ConversationList())
    loaded = update_pb2.Update(cursor="c-1", conversation_loaded=update_pb2.ConversationLoaded())
    named = update_pb2.Update(
        cursor="c-2", conversation_renamed=update_pb2.ConversationRenamed(title="A")
    )
    heartbeat = update_pb2.Update(cursor="c-3", heartbeat=update_pb2.Heartbeat())
    last = update_pb2.Update(cursor="c-4", conversation_deleted=update_pb2.ConversationDeleted())
    scripted.streams = [
        [pb.StreamUpdatesResponse(update=listed), UNAVAILABLE],
        [pb.StreamUpdatesResponse(update=listed, following=[loaded, named, heartbeat])],
        [pb.StreamUpdatesResponse(update=last)],
    ]
    driver.do(connect=scripted.target)
    updates = driver.do(watch=True, until="conversationDeleted")
    assert [(it.get("reset", False), it.get("cursor")) for it in updates] == [
        (False, None),
        (True, None),
        (False, "c-1"),
        (False, "c-2"),
        (False, "c-4"),
    ]
    assert [it.request.cursor for it in scripted.requests[:3]] == ["", "", "c-3"]
    # each connection that stood, and each that broke
    assert driver.do(connections=True) == [True, False, True, False, True]
    assert {it.request.max_batch for it in scripted.requests} == {1000}


def test_a_watch_asked_to_wait_beyond_its_deadline_waits_until_that(
    scripted: Scripted, driver: Driver
) -> None:
    listed = update_pb2.Update(conversation_list=update_pb2.ConversationList())
    later = Fault(grpc.StatusCode.UNAVAILABLE, [retry_info(60)])
    scripted.streams = [[pb.StreamUpdatesResponse(update=listed), later]]
    scripted.streams += [[later] for _ in range(50)]
    driver.do(connect=scripted.target)
    with pytest.raises(Failed) as caught:
        driver.do(watch=True, timeoutMs=500, until="conversationDeleted")
    assert caught.value.error["name"] == "TimeoutError"
    assert len(scripted.requests) == 1


def test_a_call_that_waits_for_its_next_attempt_ends_with_its_client(
    scripted: Scripted, driver: Driver
) -> None:
    driver.do(connect=scripted.target)
    scripted.script = [Fault(grpc.StatusCode.UNAVAILABLE, [retry_info(20)])]
    began = time.monotonic()
    with pytest.raises(Failed, match=r"client (is|was) closed"):
        driver.do(
            call="ConversationService/Get",
            request={"conversation_id": CONVERSATION},
            closeAfterMs=300,
        )
    assert time.monotonic() - began < 15
    assert len(scripted.requests) == 1


def test_the_tests_in_go_pass() -> None:
    go_programs()  # what both need is compiled once: beside each other they would compile it twice
    done = go("test", "-count=1", ".")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_the_example_in_go_runs(server: RunningServer) -> None:
    command: list[str | Path] = [go_programs() / "example", server.target]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [
        "turn 1, ROLE_USER: Why is the disk of the build server full?",
        "turn 1, ROLE_ASSISTANT: Old images: 212 GB of them. I can remove those older than a week.",
        "found: true",
        f"not there: {CONVERSATION}",
    ]


def test_the_servers_span_of_a_call_is_in_the_trace_that_the_caller_gives(
    start_server: Start, driver: Driver, collector: Collector
) -> None:
    server = start_server(traces=collector.url)
    driver.do(connect=server.target, trace=SAMPLED)
    driver.do(call="ConversationService/Create", request={"channel": "web"})
    server.stop()
    call = collector.named("recollect.v1.ConversationService/Create")
    assert (call.trace_id.hex(), call.parent_span_id.hex()) == (TRACE, SPAN)
