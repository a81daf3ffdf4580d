"""DeleteCommunications: what goes with a communication, which it takes, and what comes back."""

import threading
from pathlib import Path
from typing import Any

import pytest
from recollect import Client
from recollect.v1 import external_communication_service_pb2 as api
from recollect.v1.channel_service_pb2 import AddOwnerIdentityRequest
from recollect_server.access.audit_file import read_audit
from recollect_server.kernel.domain.errors import IndexUnavailable
from recollect_server.people.communication_table import ExternalIndex
from recollect_server.retention.service import Retention

from tests.conftest import RunningServer, Start
from tests.external.conftest import BLOCKED, KNOWN, Meet, Outside, Watch, answers
from tests.server.conftest import code_of, failure_of, files_with
from tests.waiting import until

WORD = "quixotriple"


def removed(receipt: api.DeleteCommunicationsResponse) -> dict[str, int]:
    return {it.place: it.count for it in receipt.removed}


def hits(outside: Outside, words: str = WORD) -> list[str]:
    request = api.SearchCommunicationsRequest(query=words)
    return [it.communication.id for it in outside.rpc.SearchCommunications(request).matches]


def audited(server: RunningServer) -> list[str]:
    """Return what the audit says was deleted."""
    records = [record for _, _, record in read_audit(server.data_dir) if record]
    return [it["object"] for it in records if it["method"].endswith("DeleteCommunications")]


def test_a_communication_is_deleted_with_all_that_hangs_on_it(
    outside: Outside, server: RunningServer, watch: Watch, start_server: Start, meet: Meet
) -> None:
    began = watch().ready().cursor
    goes = outside.write(f"{WORD} one", party="1555000", delivered="w-1").communication.id
    outside.resolve(outside.escalations()[0].id, "Yes", request_id="r-1")
    outside.reply(goes, f"{WORD} two", request_id="r-2")
    outside.trust(goes, BLOCKED)
    stays = outside.write("Something else", party="1555001").communication.id
    before, panel = answers(outside), watch().ready()

    would_go = outside.delete(goes, dry_run=True)
    assert (list(would_go.communication_ids), removed(would_go)) == ([goes], {})
    assert (answers(outside), audited(server)) == (before, [])

    receipt = outside.delete(goes, request_id="d-1")
    assert list(receipt.communication_ids) == [goes]
    assert (receipt.has_more, receipt.failure) == (False, "")
    counts = removed(receipt)
    assert counts.pop("transcript") > 0
    assert counts == {
        "communications": 1, "messages": 2, "search_terms": 2, "escalations": 1, "deliveries": 1, "updates": 5, "requests": 2,
    }  # fmt: skip
    assert audited(server) == [goes]
    assert files_with(server.data_dir, WORD) == []
    assert code_of(lambda: outside.get(goes)) == "NOT_FOUND"
    assert code_of(lambda: outside.reply(goes)) == "NOT_FOUND"
    assert [it.id for it in outside.listed()] == [stays]
    assert [it.communication_id for it in outside.escalations(include_resolved=True)] == [stays]
    assert hits(outside) == []

    assert panel.until_count(2).kinds() == ["list", "deleted"]
    assert panel.updates[-1].communication_id == goes
    resumed = watch(began).ready()  # what it missed of the other one, and no word of this one
    kinds = resumed.until_count(3).kinds()
    assert kinds == ["message Something else", "escalated", "deleted"]

    again = outside.write(f"{WORD} one", party="1555000", delivered="w-1")
    assert (again.duplicate, again.communication.id) == (True, "")
    new = outside.write("Me again", party="1555000", delivered="w-2")
    assert new.communication.id not in (goes, stays)
    assert new.escalation is not None  # the block went with the communication

    assert outside.delete(goes, request_id="d-1") == receipt
    reused = failure_of(lambda: outside.delete(stays, request_id="d-1"))
    assert reused.reason == "REQUEST_ID_REUSED"
    assert list(outside.delete(goes).communication_ids) == []
    after = answers(outside)
    server.stop()
    restarted = meet(start_server())
    assert answers(restarted) == after
    assert restarted.delete(goes, request_id="d-1") == receipt
    assert restarted.write("Late", party="1555000", delivered="w-1").duplicate


def test_parties_are_chosen_in_any_usual_form_and_by_the_name_of_a_person(outside: Outside) -> None:
    whatsapp = outside.write("One", party="1555000").communication.id
    mail = outside.write("Two", party="Alex@Example.org", channel="email").communication.id
    other = outside.write("Three", party="1555001").communication.id

    def chosen(*parties: str, **fields: Any) -> set[str]:
        return set(outside.delete(parties=parties, dry_run=True, **fields).communication_ids)

    assert chosen("+1 555-000") == {whatsapp}
    assert chosen("alex@example.org", "1555001") == {mail, other}
    assert chosen("alex@example.org", channels=["whatsapp"]) == set()
    assert chosen("Alex", "nobody") == set()
    for channel, address in (("whatsapp", "+1 555-000"), ("email", "alex@example.org")):
        request = AddOwnerIdentityRequest(channel=channel, identity=address, person="Alex")
        outside.gateway.AddOwnerIdentity(request)
    assert chosen("Alex") == chosen("1555000") == {whatsapp, mail}
    assert {it.id for it in outside.listed(party="Alex")} == {whatsapp, mail}
    assert chosen("Alex", channels=["email"]) == {mail}
    assert set(outside.delete(channels=["whatsapp"]).communication_ids) == {whatsapp, other}
    assert set(outside.delete(parties=["Alex"], request_id="d-1").communication_ids) == {mail}
    # who is meant has changed by that, and the repeat is the same
    assert set(outside.delete(parties=["Alex"], request_id="d-1").communication_ids) == {mail}
    # what an owner wrote while nobody knew them as one does not come back as the owner's
    late = outside.write("Two", party="alex@example.org", channel="email", delivered="wamid-2")
    assert late.duplicate
    none = failure_of(lambda: outside.delete())
    assert (none.code, none.fields) == ("INVALID_ARGUMENT", ("communication_ids",))


def test_the_longest_unchanged_go_first_and_the_limit_leaves_the_others(
    outside: Outside, server: RunningServer
) -> None:
    now = server.clock.now
    names = [
        outside.write(f"{day} days ago", party=f"155500{day}", time=now - day * 86_400_000)
        for day in range(5)
    ]
    oldest_first = [it.communication.id for it in reversed(names)]
    planned = outside.delete(channels=["whatsapp"], limit=3, dry_run=True)
    first = outside.delete(channels=["whatsapp"], limit=3)
    assert list(planned.communication_ids) == list(first.communication_ids) == oldest_first[:3]
    assert planned.has_more
    assert first.has_more
    rest = outside.delete(channels=["whatsapp"])
    assert (list(rest.communication_ids), rest.has_more) == (oldest_first[3:], False)
    assert outside.listed() == []


def test_long_messages_are_deleted_to_the_last_word(
    outside: Outside, server: RunningServer
) -> None:
    text = " ".join(f"{WORD}{number}" for number in range(5000))
    goes = outside.write(text).communication.id
    stays = outside.write(f"{WORD}7 stays", party="1555001").communication.id
    assert sorted(hits(outside, f"{WORD}7")) == sorted([goes, stays])
    assert removed(outside.delete(goes))["messages"] == 1
    assert hits(outside, f"{WORD}7") == [stays]
    assert hits(outside, f"{WORD}4999") == []
    assert files_with(server.data_dir, f"{WORD}4999") == []


def test_rules_of_retention_delete_what_third_parties_wrote_long_ago(
    start_server: Start, meet: Meet, watch: Watch
) -> None:
    server = start_server(sender_rate=0)
    outside, now, day = meet(server), server.clock.now, 86_400_000
    old, newer, blocked, goes_on, by_mail = (
        outside.write(
            WORD, party=party, channel=channel, time=now - days * day, delivered=f"{days}@example.org"
        ).communication.id
        for party, days, channel in [
            ("1555000", 40, "whatsapp"), ("1555001", 29, "whatsapp"), ("1555002", 50, "whatsapp"),
            ("1555003", 60, "whatsapp"), ("a@example.org", 35, "email"),
        ]
    )  # fmt: skip
    outside.trust(blocked, BLOCKED)
    outside.write("Me again", party="1555003", time=now - day)
    contact = api.RegisterContactRequest(channel="whatsapp", party="1555009", trust=KNOWN)
    registered = outside.rpc.RegisterContact(contact).communication.id
    server.clock.move(day)
    panel = watch(server=server).ready()
    with Client(server.target) as client:
        conversation = client.conversations.create("whatsapp").id

        def planned(rules: str) -> list[str]:
            plan = client.admin.preview_retention(retention=rules)
            return [it.conversation_id for it in plan.conversations]

        assert planned("delete communications idle=30d") == [old, by_mail, newer]
        assert planned("delete communications idle=30d channel=email") == [by_mail]
        assert planned("delete communications idle=30d trust=blocked") == [blocked]
        rule = "delete communications channel=whatsapp idle=40d"
        client.admin.set_setting("retention_grace", "0s")
        client.admin.set_setting("retention", rule)
        server.app.spaces.open_now()[0].jobs["retention"].next_at = 0.0  # now
        until(lambda: list(client.admin.list_retention_receipts()))
        (receipt,) = client.admin.list_retention_receipts()
        assert receipt.conversation.conversation_id == old
        assert receipt.conversation.bytes > 0
        assert receipt.conversation.reason == "it has been idle for 41 days"
        (listed,) = client.admin.list_retention_rules().rules
        assert (listed.rule, listed.deletes_communications) == (rule, True)
        assert client.conversations.get(conversation).id == conversation
    stay = {newer, blocked, goes_on, by_mail, registered}
    assert {it.id for it in outside.listed()} == stay
    assert (panel.until_count(2).kinds()[-1], panel.updates[-1].communication_id) == (
        "deleted",
        old,
    )
    assert len(hits(outside)) == 4
    assert outside.write(WORD, party="1555000", delivered="40@example.org").duplicate


def test_a_party_that_writes_or_is_blocked_meanwhile_keeps_its_communication(
    outside: Outside, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = server.clock.now - 40 * 86_400_000
    names = [
        outside.write(WORD, party=f"155500{number}", time=old).communication.id
        for number in range(3)
    ]
    with server.app.spaces.use("default") as space, Client(server.target) as client:
        due = space.service(Retention).due
        guard = threading.Lock()  # the keeper of the rules may look at the same moment
        overtaken: list[Any] = []

        def refuse(*_: Any, **__: Any) -> Any:
            raise IndexUnavailable("its disk is full")

        def be_overtaken(*rules: Any) -> Any:
            with guard:
                decided = list(due(*rules))
                if decided and not overtaken:
                    overtaken.extend(decided)
                    outside.write("Still here", party="1555000", delivered="late")
                    outside.trust(names[1], BLOCKED)
                    with monkeypatch.context() as refusing:
                        refusing.setattr(ExternalIndex, "add", refuse)
                        code = code_of(lambda: outside.write("Me too", party="1555002"))
                        assert code == "UNAVAILABLE"
                return iter(decided)

        monkeypatch.setattr(space.service(Retention), "due", be_overtaken)
        client.admin.set_setting("retention_grace", "0s")
        client.admin.set_setting("retention", "delete communications idle=30d")
        assert space.service(Retention).carry_out(10) == 0
        assert overtaken
        assert list(client.admin.list_retention_receipts()) == []
    assert outside.texts(names[0]) == [WORD, "Still here"]
    assert outside.texts(names[2]) == [WORD, "Me too"]
    assert {it.id for it in outside.listed()} == set(names)


@pytest.mark.files
def test_one_that_fails_half_way_says_so_and_goes_on_when_it_is_repeated(
    outside: Outside, server: RunningServer
) -> None:
    names = [
        outside.write("Hello", party=f"155500{number}", time=server.clock.now - number * 1000)
        for number in (3, 2, 1)
    ]
    ids = [it.communication.id for it in names]
    folder: Path = server.data_dir / "default" / "external"
    in_the_way = folder / f"{ids[1]}.jsonl.deleting"
    in_the_way.mkdir()  # the transcript cannot take its name
    first = outside.delete(channels=["whatsapp"], request_id="all")
    assert (list(first.communication_ids), first.has_more) == (ids[:1], True)
    assert first.failure.startswith(f"{ids[1]}: ")
    in_the_way.rmdir()
    assert len(outside.texts(ids[1])) == 1
    rest = outside.delete(channels=["whatsapp"], request_id="all")
    assert (list(rest.communication_ids), rest.failure) == (ids[1:], "")


@pytest.mark.files
def test_a_damaged_line_has_the_index_made_anew(
    outside: Outside, server: RunningServer, start_server: Start, meet: Meet
) -> None:
    goes = outside.write(f"{WORD} one").communication.id
    outside.trust(goes, KNOWN)
    path = server.data_dir / "default" / "external" / f"{goes}.jsonl"
    path.write_bytes(path.read_bytes().replace(WORD.encode(), WORD.upper().encode()))
    outside.delete(goes)
    server.stop()
    running = start_server()
    assert meet(running).listed() == []
    assert files_with(running.data_dir, WORD) == []
