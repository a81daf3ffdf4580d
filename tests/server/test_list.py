"""Lists of conversations in pages."""

import base64
import string
from typing import Any

from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.conversation_pb2 import Conversation, Party

from tests.cases import each
from tests.conftest import MovableClock
from tests.server.conftest import Service, failure_of, moment, user


def ids(conversations: list[Conversation]) -> list[str]:
    return [conversation.id for conversation in conversations]


def test_pages_are_newest_first_and_show_everything_once(
    service: Service, clock: MovableClock
) -> None:
    made = []
    for number in range(23):
        made.append(service.conversation_of(f"number {number}"))
        clock.move(1000)
    pages = service.pages(page_size=5)
    assert [len(page) for page in pages] == [5, 5, 5, 5, 3]
    assert ids([conversation for page in pages for conversation in page]) == made[::-1]


def test_conversations_of_one_moment_are_shown_once_too(service: Service) -> None:
    made = {service.create().id for _ in range(17)}
    shown = ids([conversation for page in service.pages(page_size=4) for conversation in page])
    assert len(shown) == 17
    assert set(shown) == made


def test_the_last_page_has_no_token_even_when_it_is_full(service: Service) -> None:
    for _ in range(6):
        service.create()
    assert [len(page) for page in service.pages(page_size=3)] == [3, 3]
    assert service.listed(page_size=6).next_page_token == ""


def test_an_empty_service_lists_nothing(service: Service) -> None:
    answer = service.listed()
    assert (len(answer.conversations), answer.next_page_token) == (0, "")


def test_one_that_gets_a_message_moves_to_the_front_and_is_not_shown_again(
    service: Service, clock: MovableClock
) -> None:
    made = []
    for _ in range(6):
        made.append(service.create().id)
        clock.move(1000)
    first = service.listed(page_size=2)
    service.append(made[5], user("again"))
    clock.move(1)
    service.append(made[0], user("to the front"))
    second = service.listed(page_size=10, page_token=first.next_page_token)
    assert ids(list(second.conversations)) == [made[3], made[2], made[1]]
    assert service.listed(page_size=1).conversations[0].id == made[0]


def test_the_default_page_is_50_and_the_largest_500(service: Service) -> None:
    made = [service.create().id for _ in range(502)]
    assert len(service.listed().conversations) == 50
    assert len(service.listed(page_size=2_000_000_000).conversations) == 500
    assert {
        conversation.id for page in service.pages(page_size=500) for conversation in page
    } == set(made)


def test_every_filter_leaves_what_matches_and_all_together_do(
    service: Service, clock: MovableClock
) -> None:
    start = clock.now
    plain = service.conversation_of("plain")
    clock.move(1000)
    mail = service.conversation_of(
        "mail", channel="email", party=Party(contact="a@b.c", thread_id="t1", subject="Offer")
    )
    clock.move(1000)
    group = service.conversation_of(
        "group", channel="whatsapp", party=Party(contact="49151", group_id="g1")
    )
    service.abbreviate(mail, "notes", ["tea", "travel"])
    service.abbreviate(group, "notes", ["travel"])
    service.rename(mail, "An Offer of TEE in Größe 5%")
    service.rename(group, "Group_Trip")

    def listed(**fields: Any) -> list[str]:
        return ids(list(service.listed(**fields).conversations))

    assert listed() == [group, mail, plain]
    assert listed(channels=["email"]) == [mail]
    assert listed(channels=["email", "web", "cli"]) == [mail, plain]
    assert listed(topics=["tea"]) == [mail]
    assert listed(topics=["travel", "tea"]) == [group, mail]
    assert listed(topics=["trav"]) == []
    assert listed(party=Party(contact="a@b.c")) == [mail]
    assert listed(party=Party(contact="a@b.c", thread_id="t2")) == []
    assert listed(party=Party(group_id="g1")) == [group]
    assert listed(party=Party(subject="Offer")) == [mail]
    assert listed(pinned=False) == [group, mail, plain]
    assert listed(pinned=True) == []
    assert listed(updated_after=moment(start + 1000)) == [group, mail]
    assert listed(updated_before=moment(start + 1000)) == [plain]
    assert listed(updated_after=moment(start + 1), updated_before=moment(start + 2000)) == [mail]
    assert listed(query="offer") == [mail]
    assert listed(query="GRÖSSE") == [mail]
    assert listed(query="%") == [mail]
    assert listed(query="_") == [group]
    assert listed(query="plain") == [plain]
    assert listed(channels=["email", "whatsapp"], topics=["travel"], query="tr", pinned=False) == [
        group
    ]
    assert listed(channels=["email"], topics=["travel"], query="tr") == []


def test_pages_of_a_filter_show_what_matches_once(service: Service, clock: MovableClock) -> None:
    made = []
    for number in range(20):
        made.append(service.create("cli" if number % 3 else "web").id)
        clock.move(1)
    expected = [conversation_id for number, conversation_id in enumerate(made) if number % 3][::-1]
    shown = [
        conversation.id
        for page in service.pages(page_size=3, channels=["cli"])
        for conversation in page
    ]
    assert shown == expected


def test_a_token_of_another_question_is_refused(service: Service) -> None:
    for _ in range(4):
        service.create("web", party=Party(contact="x"))
    token = service.listed(page_size=2, channels=["web"]).next_page_token
    assert len(service.listed(page_size=1, channels=["web"], page_token=token).conversations) == 1
    others: list[dict[str, Any]] = [
        {},
        {"channels": ["web", "cli"]},
        {"channels": ["web"], "query": "x"},
        {"channels": ["web"], "pinned": False},
        {"channels": ["web"], "updated_before": moment(10)},
        {"channels": ["web"], "party": Party(contact="x")},
        {"channels": ["web"], "topics": ["tea"]},
    ]
    for other in others:
        failure = failure_of(
            lambda other=other: service.listed(page_size=2, page_token=token, **other)  # type: ignore[misc]
        )
        assert (failure.code, failure.reason) == ("INVALID_ARGUMENT", "INVALID_PAGE_TOKEN")


def test_a_token_that_was_altered_anywhere_is_refused(service: Service) -> None:
    for _ in range(4):
        service.create()
    token = service.listed(page_size=2).next_page_token
    alphabet = string.ascii_letters + string.digits + "-_"
    for place in range(len(token)):
        for other in (alphabet[(alphabet.index(token[place]) + step) % 64] for step in (1, 17, 32)):
            altered = token[:place] + other + token[place + 1 :]
            failure = failure_of(
                lambda altered=altered: service.listed(page_size=2, page_token=altered)  # type: ignore[misc]
            )
            assert failure.reason == "INVALID_PAGE_TOKEN"


@each(
    "token",
    [
        "x",
        "====",
        "ü",
        "a" * 5000,
        "-1",
        base64.urlsafe_b64encode(b"1.2.3").decode(),
        base64.urlsafe_b64encode(b"\xff.1.2").decode(),
    ],
)
def test_a_token_that_was_never_given_is_refused(service: Service, token: str) -> None:
    failure = failure_of(lambda: service.conversations.List(api.ListRequest(page_token=token)))
    assert (failure.code, failure.reason) == ("INVALID_ARGUMENT", "INVALID_PAGE_TOKEN")
    assert failure.fields == ("page_token",)
