"""Conversations that have as many messages or bytes as the settings allow."""

from tests.channels.conftest import ALEX, ALEX_MAIL, Reach, home
from tests.conftest import Start
from tests.server.conftest import agent, failure_of, user


def test_a_full_conversation_takes_no_message_and_what_comes_in_begins_another(
    start_server: Start, reach: Reach
) -> None:
    server = start_server(max_conversation_messages=3)
    post = reach(server)
    name = post.create("web").id
    post.append(name, user("One"), agent("Two"), request_id="first")
    for refused in (
        lambda: post.append(name, user("Three"), agent("Four")),
        lambda: post.create("web", messages=[user(f"{it}") for it in range(4)]),
    ):
        failure = failure_of(refused)
        assert (failure.code, failure.reason) == ("RESOURCE_EXHAUSTED", "CONVERSATION_FULL")
        assert failure.metadata["limit"] == "max_conversation_messages"
        assert failure.retry_ms is None  # no wait helps
    post.append(name, user("Three"))
    assert post.append(name, user("One"), agent("Two"), request_id="first").duplicate
    assert post.rename(name, "A title").title == "A title"
    assert post.said(name) == ["One", "Two", "Three"]
    assert failure_of(lambda: post.web("Four", name)).reason == "CONVERSATION_FULL"

    post.own("whatsapp", ALEX)
    post.own("email", ALEX_MAIL)
    homes = [home(post.whatsapp(str(it), delivery=str(it))) for it in range(7)]
    assert [homes.count(it) for it in dict.fromkeys(homes)] == [3, 3, 1]
    assert [post.get(it).pinned for it in dict.fromkeys(homes)] == [False, False, True]
    assert home(post.whatsapp("0", delivery="0")) == homes[0]
    mails = [home(post.mail(str(it), f"<{it}@x>", "<0@x>" if it else "")) for it in range(7)]
    assert [mails.count(it) for it in dict.fromkeys(mails)] == [3, 3, 1]

    server.stop()
    post = reach(start_server(max_conversation_bytes=1000))
    post.append(name, user("x" * 1000))
    failure = failure_of(lambda: post.append(name, user("Five")))
    assert failure.metadata["limit"] == "max_conversation_bytes"
