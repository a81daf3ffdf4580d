"""Lists and pages of communications, their messages and their escalations."""

from recollect.v1 import external_communication_service_pb2 as api
from recollect.v1.external_communication_pb2 import (
    Escalation,
    ExternalCommunication,
    ExternalMessage,
)

from tests.external.conftest import BLOCKED, KNOWN, UNTRUSTED, Outside
from tests.server.conftest import failure_of


def many(outside: Outside, count: int) -> list[str]:
    """Receive messages of `count` parties, and return the names of their communications in
    order.
    """
    names = []
    for number in range(count):
        outside.server.clock.move(10)
        names.append(outside.write(f"Message {number}", party=f"party-{number}").communication.id)
    return names


def pages_of_communications(
    outside: Outside, **fields: object
) -> list[list[ExternalCommunication]]:
    pages, token = [], ""
    while True:
        page = outside.rpc.ListCommunications(
            api.ListCommunicationsRequest(page_token=token, **fields)  # type: ignore[arg-type]
        )
        pages.append(list(page.communications))
        if not (token := page.next_page_token):
            return pages


def pages_of_messages(outside: Outside, name: str, size: int) -> list[list[ExternalMessage]]:
    pages, token = [], ""
    while True:
        page = outside.get(name, page_size=size, page_token=token)
        pages.append(list(page.messages))
        if not (token := page.next_page_token):
            return pages


def pages_of_escalations(outside: Outside, **fields: object) -> list[list[Escalation]]:
    pages, token = [], ""
    while True:
        page = outside.rpc.ListEscalations(api.ListEscalationsRequest(page_token=token, **fields))  # type: ignore[arg-type]
        pages.append(list(page.escalations))
        if not (token := page.next_page_token):
            return pages


def test_communications_come_newest_first_in_pages(outside: Outside) -> None:
    names = many(outside, 7)
    outside.server.clock.move(10)
    outside.write("Again", party="party-2")
    expected = [names[2], *(name for name in names[::-1] if name != names[2])]
    assert [it.id for it in outside.listed()] == expected
    for size in (1, 3, 7, 100):
        pages = pages_of_communications(outside, page_size=size)
        assert [it.id for page in pages for it in page] == expected
        assert {len(page) for page in pages[:-1]} <= {size}


def test_filters_of_communications(outside: Outside) -> None:
    names = many(outside, 5)
    outside.write("On another channel", party="party-0", channel="signal")
    outside.trust(names[1], KNOWN)
    outside.trust(names[2], BLOCKED)
    outside.resolve(next(it.id for it in outside.escalations() if it.communication_id == names[3]))
    assert {it.channel for it in outside.listed(party="party-0")} == {"whatsapp", "signal"}
    assert [it.id for it in outside.listed(trust=KNOWN)] == [names[1]]
    assert [it.id for it in outside.listed(trust=BLOCKED)] == [names[2]]
    assert len(outside.listed(trust=UNTRUSTED)) == 4
    waiting = {it.id for it in outside.listed(open_escalations_only=True)}
    assert names[2] not in waiting
    assert names[3] not in waiting
    assert {names[0], names[1], names[4]} < waiting
    assert outside.listed(party="party-0", trust=BLOCKED) == []
    outside.write("Elsewhere", party="Ann", channel="slack")
    assert outside.listed(party="ann") == []  # two cases may be two people there
    mail = outside.write("By mail", party="ann@example.org", channel="email").communication.id
    phone = outside.write("By phone", party="1555000").communication.id
    assert [it.id for it in outside.listed(party="Ann@Example.ORG")] == [mail]
    assert [it.id for it in outside.listed(party="+1 555-000")] == [phone]


def test_messages_come_newest_first_in_pages(outside: Outside) -> None:
    for number in range(7):
        name = outside.write(f"Message {number}").communication.id
    expected = [f"Message {number}" for number in range(6, -1, -1)]
    for size in (1, 2, 7, 100):
        pages = pages_of_messages(outside, name, size)
        assert [it.text for page in pages for it in page] == expected
        assert {len(page) for page in pages[:-1]} <= {size}


def test_escalations_come_oldest_first_in_pages(outside: Outside) -> None:
    names = many(outside, 6)
    escalations = [it.id for it in outside.escalations()]
    assert [it.communication_id for it in outside.escalations()] == names
    outside.resolve(escalations[2])
    for size in (1, 2, 5, 100):
        waiting = [it.id for page in pages_of_escalations(outside, page_size=size) for it in page]
        assert waiting == [*escalations[:2], *escalations[3:]]
        every = [
            it.id
            for page in pages_of_escalations(outside, page_size=size, include_resolved=True)
            for it in page
        ]
        assert every == escalations
    assert [it.id for it in outside.escalations(communication_id=names[4])] == [escalations[4]]
    assert outside.escalations(communication_id=names[2]) == []


def test_a_page_token_belongs_to_its_question(outside: Outside) -> None:
    many(outside, 3)
    token = outside.rpc.ListCommunications(
        api.ListCommunicationsRequest(page_size=1)
    ).next_page_token
    assert len(outside.listed(page_token=token, page_size=2)) == 2
    for call in (
        lambda: outside.listed(page_token=token, trust=KNOWN),
        lambda: outside.escalations(page_token=token),
        lambda: outside.listed(page_token="garbage"),  # noqa: S106
        lambda: outside.listed(page_token=token[:-1]),
    ):
        assert failure_of(call).reason == "INVALID_PAGE_TOKEN"
