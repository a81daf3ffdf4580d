"""The gate: when a token is needed, what a caller may bring as one, which space it gets, and how
wrong tokens are slowed.
"""

import contextlib
import socket
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from hypothesis import given, settings
from hypothesis import strategies as st
from recollect.v1 import conversation_service_pb2 as api
from recollect_server.access.principal import EVERY_SPACE
from recollect_server.access.token import new_id, new_secret, token_text
from recollect_server.contract.gate import Gate, Refusals
from recollect_server.kernel.domain.errors import LimitExceeded

from tests.cases import each
from tests.conftest import MovableClock, Start, examples
from tests.credentials.conftest import Caller, Callers, grant, tokens_of
from tests.server.conftest import failure_of
from tests.waiting import until

LIST = "ConversationService.List"
WRONG = token_text(new_id(), new_secret())
SPACE = "recollect-space"


def test_a_server_is_open_until_its_first_token_is_created(start_server: Start) -> None:
    server = start_server()
    tokens = tokens_of(server.data_dir, server.clock)
    anybody = Caller(server.target)
    with anybody.channel:
        assert anybody.outcome(LIST) == "OK"
        # a client that has a token for another server is served as anybody
        assert anybody.outcome(LIST, None, ("authorization", f"Bearer {WRONG}")) == "OK"
        token, text = tokens.create(grant("reader"))
        assert anybody.outcome(LIST) == "UNAUTHENTICATED"  # with the first call after it
        with Caller(server.target, text).channel as channel:
            reader = Caller(server.target, text)
            reader.channel.close()
            reader.channel = channel
            assert reader.outcome(LIST) == "OK"
            tokens.revoke(token.id)
            until(lambda: reader.outcome(LIST) == "UNAUTHENTICATED")
        assert anybody.outcome(LIST) == "UNAUTHENTICATED"


def test_callers_differ_by_connection_until_there_is_a_token(
    tmp_path: Path, clock: MovableClock
) -> None:
    tokens = tokens_of(tmp_path, clock)
    gate = Gate("default", tokens)
    presented = [("authorization", f"Bearer {WRONG}")]
    assert gate.caller_of(presented, lambda: "peer") == ("peer", "default")
    token, text = tokens.create(grant("reader"))
    presented_too = [("authorization", f"Bearer {text}")]
    assert gate.caller_of(presented_too, lambda: "peer") == (token.id, "default")
    assert gate.caller_of(presented, lambda: "peer") is None


def test_a_caller_counts_as_another_one_in_each_space_that_its_token_is_for(
    tmp_path: Path, clock: MovableClock
) -> None:
    tokens = tokens_of(tmp_path, clock)
    gate = Gate("default", tokens)

    def space(name: str, *presented: tuple[str, str]) -> str:
        caller = gate.caller_of([*presented, ("recollect-space", name)], lambda: "peer")
        assert caller is not None
        return caller[1]

    assert [space("home"), space("No space!")] == ["home", ""]
    _, text = tokens.create(grant("brain", "home", "work"))
    token = ("authorization", f"Bearer {text}")
    assert [space("work", token), space("else", token)] == ["work", ""]
    caller = gate.caller_of([token], lambda: "peer")
    assert caller is not None
    assert caller[1] == "home"


def test_a_server_may_ask_for_tokens_before_there_is_one(callers: Callers) -> None:
    failure = failure_of(lambda: callers.with_text("").call(LIST))
    assert (failure.code, failure.reason) == ("UNAUTHENTICATED", "UNAUTHENTICATED")
    assert "recollect-server token create" in failure.text


def test_a_new_token_counts_at_once(callers: Callers) -> None:
    assert [callers.of("reader").outcome(LIST) for _ in range(5)] == ["OK"] * 5


def test_a_token_ends_by_the_clock(start_server: Start) -> None:
    server = start_server(auth="required")
    made = Callers(server.target, tokens_of(server.data_dir, server.clock))
    with contextlib.closing(made):
        reader = made.of("reader", expires=server.clock.now + 1000)
        assert reader.outcome(LIST) == "OK"
        server.clock.move(1000)
        failure = failure_of(lambda: reader.call(LIST))
        assert (failure.reason, "expired at" in failure.text) == ("UNAUTHENTICATED", True)


def test_health_needs_no_token_and_reflection_needs_any(callers: Callers) -> None:
    stranger, gateway = callers.with_text(""), callers.of("gateway")
    health: Any = health_pb2_grpc.HealthStub(stranger.channel)
    request = health_pb2.HealthCheckRequest()
    assert health.Check(request).status == health_pb2.HealthCheckResponse.SERVING
    watch = health.Watch(request)
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
    watch.cancel()
    requests = [reflection_pb2.ServerReflectionRequest(list_services="*")]

    def reflected(caller: Caller) -> list[Any]:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(caller.channel)
        return list(stub.ServerReflectionInfo(iter(requests), metadata=caller.metadata, timeout=30))

    assert failure_of(lambda: reflected(stranger)).reason == "UNAUTHENTICATED"
    assert len(reflected(gateway)) == 1


# Metadata -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER ", "Bearer   "])
def test_the_scheme_may_be_written_in_any_case(scheme: str, guarded: Callers) -> None:
    text = guarded.tokens.create(grant("reader"))[1]
    caller = guarded.with_text("")
    assert caller.outcome(LIST, None, ("authorization", scheme + text)) == "OK"


@each(
    "value", ["", "Bearer", "{}", "Basic {}", "Token {}", "Bearer{}", "Bearer {} {}", "Bearer {}x"]
)
def test_whatever_is_not_bearer_and_one_token_is_refused(value: str, guarded: Callers) -> None:
    text = guarded.tokens.create(grant("reader"))[1]
    caller = guarded.with_text("")
    failure = failure_of(
        lambda: caller.call(LIST, None, ("authorization", value.replace("{}", text)))
    )
    assert (failure.reason, text in failure.text) == ("UNAUTHENTICATED", False)


def test_two_tokens_are_refused_though_both_are_valid(guarded: Callers) -> None:
    first, second = (guarded.tokens.create(grant("reader"))[1] for _ in range(2))
    both = [("authorization", f"Bearer {it}") for it in (first, second)]
    failure = failure_of(lambda: guarded.with_text("").call(LIST, None, *both))
    assert (failure.reason, "2 tokens" in failure.text) == ("UNAUTHENTICATED", True)


VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=200)


@settings(max_examples=examples(60))
@given(values=st.lists(VALUES | VALUES.map(lambda it: f"Bearer {it}"), min_size=1, max_size=4))
def test_no_made_up_authorization_is_accepted(values: list[str], guarded: Callers) -> None:
    caller = Caller(guarded.target)
    with caller.channel:
        outcome = caller.outcome(LIST, None, *[("authorization", it) for it in values])
    assert outcome in ("UNAUTHENTICATED", "LIMIT_EXCEEDED", "RESOURCE_EXHAUSTED")


def test_a_huge_authorization_is_refused_and_others_are_served(guarded: Callers) -> None:
    huge = guarded.with_text("x" * 100_000)
    with pytest.raises(grpc.RpcError):
        huge.call(LIST)
    assert guarded.of("reader").outcome(LIST) == "OK"


@settings(max_examples=examples(60))
@given(
    values=st.lists(
        st.binary(max_size=100) | st.binary(max_size=20).map(lambda it: b"Bearer " + it),
        min_size=1,
        max_size=3,
    )
)
def test_odd_bytes_in_metadata_are_refused_and_others_are_served(
    values: list[bytes], guarded: Callers
) -> None:
    with structlog.testing.capture_logs() as logs:
        answered = written_by_hand(guarded.target, [(b"authorization", it) for it in values])
    assert not answered
    assert [line for line in logs if line["event"] == "fault"] == []
    assert guarded.of("reader").outcome(LIST) == "OK"


def test_a_call_written_by_hand_with_a_valid_token_is_answered(guarded: Callers) -> None:
    text = guarded.tokens.create(grant("reader"))[1]
    assert written_by_hand(guarded.target, [(b"authorization", f"Bearer {text}".encode())])


def written_by_hand(target: str, headers: list[tuple[bytes, bytes]]) -> bool:
    """Make a call of List in HTTP/2 written by hand, with headers that grpcio would not send.
    Return True if it is answered with a message.
    """
    host, port = target.rsplit(":", 1)
    every = [
        (b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"x"),
        (b":path", b"/recollect.v1.ConversationService/List"),
        (b"content-type", b"application/grpc"), (b"te", b"trailers"), *headers,
    ]  # fmt: skip
    block = b"".join(
        b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in every
    )
    answered = False
    with (
        socket.create_connection((host, int(port)), 10) as connection,
        connection.makefile("rb") as answer,
    ):
        connection.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + frame(4, 0, 0, b"")
            + frame(1, 4, 1, block)
            + frame(0, 1, 1, bytes(5))
        )
        while head := answer.read(9):
            kind, flags = head[3], head[4]
            answer.read(int.from_bytes(head[:3], "big"))
            answered = answered or kind == 0
            if kind in (3, 7) or (kind in (0, 1) and flags & 1):  # the call is over
                break
    return answered


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return a frame of HTTP/2."""
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )


# Spaces -------------------------------------------------------------------------------------------


def test_a_token_of_one_space_is_in_it_and_in_no_other(guarded: Callers) -> None:
    brain = guarded.of("brain", "alex")
    brain.call("ConversationService.Create", api.CreateRequest(channel="web"))
    assert len(brain.call(LIST).conversations) == 1
    assert len(brain.call(LIST, None, (SPACE, "alex")).conversations) == 1
    assert len(guarded.of("admin").call(LIST, None).conversations) == 0
    failure = failure_of(lambda: brain.call(LIST, None, (SPACE, "default")))
    assert (failure.code, failure.reason) == ("PERMISSION_DENIED", "PERMISSION_DENIED")
    assert failure.metadata == {"method": "ConversationService/List", "scope": ""}


def test_a_token_of_several_spaces_is_in_the_first_unless_it_names_another(
    guarded: Callers,
) -> None:
    brain = guarded.of("brain", "first", "second")
    brain.call("ConversationService.Create", api.CreateRequest(channel="web"))
    counts = [
        len(brain.call(LIST, None, *named).conversations)
        for named in ((), ((SPACE, "first"),), ((SPACE, "second"),))
    ]
    assert counts == [1, 1, 0]


def test_a_token_of_all_spaces_is_in_the_default_one_unless_it_names_another(
    guarded: Callers,
) -> None:
    admin = guarded.of("admin", EVERY_SPACE)
    admin.call("ConversationService.Create", api.CreateRequest(channel="web"), (SPACE, "third"))
    assert len(admin.call(LIST, None, (SPACE, "third")).conversations) == 1
    assert len(admin.call(LIST).conversations) == 0


@each("name", ["", "../up", "A", "x" * 65, "a.b", "*"])
def test_what_is_no_name_of_a_space_is_refused_by_the_key(name: str, guarded: Callers) -> None:
    failure = failure_of(lambda: guarded.of("admin", EVERY_SPACE).call(LIST, None, (SPACE, name)))
    assert (failure.reason, failure.fields) == ("INVALID_FIELD", (SPACE,))


# Scopes -------------------------------------------------------------------------------------------


def test_a_denial_names_the_missing_scope_and_the_method(guarded: Callers) -> None:
    failure = failure_of(lambda: guarded.of("reader").call("ConversationService.Rename"))
    assert (failure.code, failure.reason) == ("PERMISSION_DENIED", "PERMISSION_DENIED")
    assert failure.metadata == {
        "method": "ConversationService/Rename",
        "scope": "conversations.manage",
    }


def test_a_custom_token_has_the_scopes_that_it_names(guarded: Callers) -> None:
    custom = guarded.of("custom", scopes=("recall", "conversations.write"))
    assert custom.outcome("RecallService.ListAnchors") == "OK"
    assert custom.outcome("ConversationService.AppendTurn") == "INVALID_FIELD"
    failure = failure_of(lambda: custom.call("ConversationService.Switch"))
    assert failure.metadata["scope"] == "conversations.read"  # it needs two


# Brute force --------------------------------------------------------------------------------------


def test_a_connection_that_presents_wrong_tokens_is_refused_for_a_while(callers: Callers) -> None:
    guesser, honest = callers.with_text(WRONG), callers.of("reader")
    outcomes = [guesser.outcome(LIST) for _ in range(30)]
    assert outcomes[:10] == ["UNAUTHENTICATED"] * 10
    assert outcomes.count("LIMIT_EXCEEDED") > 15
    failure = failure_of(lambda: guesser.call(LIST))
    assert failure.metadata == {"limit": "refused_tokens", "of": "peer"}
    assert failure.retry_ms is not None
    assert 0 < failure.retry_ms <= 2001
    assert honest.outcome(LIST) == "OK"  # from the same address


def test_a_valid_token_passes_however_many_wrong_ones_its_address_presents(
    callers: Callers,
) -> None:
    wrong = [callers.with_text(WRONG) for _ in range(15)]
    outcomes = [it.outcome(LIST) for it in wrong for _ in range(10)]
    assert {*outcomes[:100]} == {"UNAUTHENTICATED"}
    assert "LIMIT_EXCEEDED" in outcomes  # strangers behind the address are slowed
    text = callers.tokens.create(grant("reader"))[1]
    newcomers = [callers.with_text(text) for _ in range(5)]
    assert [it.outcome(LIST) for it in newcomers] == ["OK"] * 5


def test_connections_of_one_host_share_their_guesses() -> None:
    now = [0.0]
    refusals = Refusals(lambda: now[0])
    for port in range(2, 12):
        for _ in range(10):
            refusals.count(f"ipv4:1.2.3.4:{port}")
    with pytest.raises(LimitExceeded) as raised:
        refusals.count("ipv4:1.2.3.4:99")
    assert raised.value.retry_after_ms == 1000
    refusals.count("ipv4:1.2.3.5:99")
    refusals.count("ipv6:%5B::1%5D:99")
    now[0] += 1.0
    refusals.count("ipv4:1.2.3.4:99")


def test_what_a_connection_presents_too_fast_is_charged_to_no_other() -> None:
    refusals = Refusals(lambda: 0.0)
    for _ in range(10):
        refusals.count("ipv4:1.2.3.4:2")
    for _ in range(200):
        with pytest.raises(LimitExceeded):
            refusals.count("ipv4:1.2.3.4:2")
    refusals.count("ipv4:1.2.3.4:3")


def test_callers_of_the_page_of_metrics_are_slowed_too() -> None:
    refusals = Refusals(lambda: 0.0)
    for port in range(2, 12):
        for _ in range(10):
            refusals.count(f"1.2.3.4:{port}")  # as `contract.plain_http` names a peer
    with pytest.raises(LimitExceeded):
        refusals.count("1.2.3.4:99")


def test_nobody_is_slowed_on_a_unix_socket() -> None:
    refusals = Refusals()
    for _ in range(1000):
        refusals.count("unix:")  # raises LimitExceeded for an address that is refused as often
    assert len(refusals._connections) == 0


def test_what_is_kept_of_peers_is_bounded_and_passes() -> None:
    now = [0.0]
    refusals = Refusals(lambda: now[0])
    for port in range(30_000):
        refusals.count(f"ipv4:1.2.{port % 250}.{port % 99}:{port}")
    assert len(refusals._connections) == 10_000
    began = time.process_time()
    for port in range(1000):
        with contextlib.suppress(LimitExceeded):
            refusals.count(f"ipv4:9.9.9.9:{port}")
    assert time.process_time() - began < 1


# Secrecy ------------------------------------------------------------------------------------------


def test_no_token_stands_in_logs_or_errors(callers: Callers) -> None:
    admin = callers.of("admin")
    texts = [admin.metadata[0][1].removeprefix("Bearer "), WRONG]
    with structlog.testing.capture_logs() as logs:
        failures = []
        for caller in (admin, callers.with_text(WRONG), callers.with_text(WRONG[:-1])):
            for name in (LIST, "ConversationService.AppendTurn", "RecallService.Search"):
                with contextlib.suppress(grpc.RpcError):
                    caller.call(name)
                    continue
                failures.append(failure_of(lambda c=caller, n=name: c.call(n)))  # type: ignore[misc]
        callers.tokens.revoke(admin.metadata[0][1].split("_")[1])
        until(lambda: admin.outcome(LIST) == "UNAUTHENTICATED")
    written = repr(logs) + repr(failures)
    assert len(failures) > 5
    for text in texts:
        secret = text.split("_")[2]
        assert secret not in written
        assert secret[:20] not in written
