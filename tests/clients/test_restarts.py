"""Servers that are started again: clients in other languages wait for one that answered them."""

import socket

import pytest

from tests.clients.conftest import Driver, Failed
from tests.conftest import RunningServer, Start

pytestmark = pytest.mark.timeout(600)  # whichever is first waits until Go is compiled


def hang_up(address: str, count: int) -> None:
    """Listen in a server's place, and hang up on so many connections."""
    host, port = address.split(":")
    with socket.create_server((host, int(port))) as listener:
        listener.settimeout(20)
        for _ in range(count):
            listener.accept()[0].close()


def create(driver: Driver) -> str:
    answer = driver.do(call="ConversationService/Create", request={"channel": "web"})
    return str(answer["conversation"]["id"])


def test_a_call_waits_for_a_server_that_answered_before(
    server: RunningServer, start_server: Start, driver: Driver
) -> None:
    driver.do(connect=server.target, options={"retry": {"maxAttempts": 3}})
    conversation = create(driver)
    server.stop()
    driver.begin(call="ConversationService/Get", request={"conversation_id": conversation})
    hang_up(server.target, 8)
    start_server(listen=server.target)
    assert driver.answer()["conversation"]["id"] == conversation


def test_a_server_that_refused_for_a_reason_is_waited_for_too(
    server: RunningServer, start_server: Start, driver: Driver
) -> None:
    driver.do(connect=server.target, options={"retry": {"maxAttempts": 3}})
    call = "ConversationService/Get"
    request = {"conversation_id": "conv-01HQ0000000000000000000000"}
    with pytest.raises(Failed, match="CONVERSATION_NOT_FOUND"):
        driver.do(call=call, request=request)
    server.stop()
    driver.begin(call=call, request=request)
    hang_up(server.target, 8)
    start_server(listen=server.target)
    with pytest.raises(Failed, match="CONVERSATION_NOT_FOUND"):
        driver.answer()


def test_a_watch_begins_while_a_server_that_answered_before_is_away(
    server: RunningServer, start_server: Start, driver: Driver
) -> None:
    driver.do(connect=server.target, options={"retry": {"maxAttempts": 3}})
    create(driver)
    server.stop()
    driver.begin(watch=True, until="conversationList")
    hang_up(server.target, 8)
    start_server(listen=server.target)
    assert len(driver.answer()) == 1


def test_a_server_that_stays_away_is_told_at_the_time_out(
    server: RunningServer, driver: Driver
) -> None:
    driver.do(connect=server.target, options={"timeoutMs": 1000})
    conversation = create(driver)
    server.stop()
    with pytest.raises(Failed, match="No connection to the server"):
        driver.do(call="ConversationService/Get", request={"conversation_id": conversation})


@pytest.mark.parametrize("retry", [{"failsFast": True}, {"maxAttempts": 1}])
def test_a_policy_may_give_up_after_its_attempts(
    server: RunningServer, start_server: Start, driver: Driver, retry: dict[str, object]
) -> None:
    hour = 3_600_000
    driver.do(connect=server.target, options={"retry": retry, "timeoutMs": hour})
    conversation = create(driver)
    server.stop()
    with pytest.raises(Failed, match="No connection to the server"):
        driver.do(call="ConversationService/Get", request={"conversation_id": conversation})


def test_a_server_that_never_answered_is_told_after_the_attempts(driver: Driver) -> None:
    driver.do(connect="127.0.0.1:1", options={"timeoutMs": 3_600_000})
    with pytest.raises(Failed, match="No connection to the server"):
        create(driver)
