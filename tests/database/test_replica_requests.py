"""Several servers over one database: an id is of one request, whichever server carries it out."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from recollect import Client
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import external_communication_service_pb2 as external_api
from recollect.v1 import recall_service_pb2 as recall_api
from recollect.v1.anchor_pb2 import AnchorSource
from recollect.v1.conversation_pb2 import Party
from recollect.v1.external_communication_pb2 import TRUST_KNOWN
from recollect.v1.external_communication_service_pb2_grpc import ExternalCommunicationServiceStub
from recollect_server.kernel.log.ledger import Ledger
from structlog.testing import capture_logs

from tests.administration.test_verification import verified
from tests.channels.conftest import Post
from tests.conftest import Start
from tests.database.conftest import Replicas, said
from tests.logs.proxy import proxied
from tests.postgres import Postgres
from tests.server.conftest import agent, code_of, failure_of, user
from tests.server.test_redact import redact
from tests.waiting import until

_DELETE_ANCHORS = api.ANCHOR_DISPOSITION_DELETE


@dataclass(frozen=True)
class Call:
    """A call with a request id that is given to it."""

    name: str
    make: Callable[[Post, str, str], Any]
    """Makes it: at a server, about a conversation, with the id."""

    def __call__(self, service: Post, conversation_id: str, request_id: str) -> Any:
        return self.make(service, conversation_id, request_id)

    def __repr__(self) -> str:
        return self.name


def _set_anchor(service: Post, conversation_id: str, request_id: str, value: str = "") -> Any:
    source = AnchorSource(conversation_id=conversation_id, sequence=2)
    return service.recall.SetAnchor(
        recall_api.SetAnchorRequest(
            key="tea", value=value or "green", source=source, request_id=request_id
        )
    )


def _register(service: Post, _: str, request_id: str) -> Any:
    stub = ExternalCommunicationServiceStub(service.channel)
    return stub.RegisterContact(
        external_api.RegisterContactRequest(
            channel="whatsapp", party="+49 170 999", trust=TRUST_KNOWN, request_id=request_id
        )
    )


def _many(service: Post, conversation_id: str, request_id: str) -> Any:
    return service.conversations.DeleteMany(
        api.DeleteManyRequest(
            conversation_ids=[conversation_id],
            limit=5,
            anchors=_DELETE_ANCHORS,
            request_id=request_id,
        )
    )


def _switch(service: Post, conversation_id: str, request_id: str) -> Any:
    return service.conversations.Switch(
        api.SwitchRequest(from_conversation_id=conversation_id, request_id=request_id)
    )


def _regenerate(service: Post, conversation_id: str, request_id: str) -> Any:
    return service.conversations.RegenerateNotes(
        api.RegenerateNotesRequest(conversation_id=conversation_id, request_id=request_id)
    )


def _archive(service: Post, conversation_id: str, request_id: str) -> Any:
    """Change nothing: it is not archived."""
    return service.conversations.Archive(
        api.ArchiveRequest(conversation_id=conversation_id, unarchive=True, request_id=request_id)
    )


def _fork(service: Post, conversation_id: str, request_id: str) -> Any:
    return service.conversations.Fork(
        api.ForkRequest(conversation_id=conversation_id, request_id=request_id)
    )


WRITE_NO_LINE = [
    Call("Delete", lambda at, name, it: at.delete(name, request_id=it)),
    Call("DeleteMany", _many),
    Call("Switch", _switch),
    Call("RegenerateNotes", _regenerate),
]
WRITE_LINES = [
    Call("Create", lambda at, _, it: at.create(request_id=it)),
    Call("AppendTurn", lambda at, name, it: at.append(name, user("zebra"), request_id=it)),
    Call("Rename", lambda at, name, it: at.rename(name, "Zebra", request_id=it)),
    Call("Archive", _archive),
    Call("Fork", _fork),
    Call("RedactMessage", lambda at, name, it: redact(at, name, sequence=2, request_id=it)),
    Call("RunCommand", lambda at, name, it: at.command(name, "/new", it)),
    Call("SetAnchor", _set_anchor),
    Call("AddOwnerIdentity", lambda at, _, it: at.own("whatsapp", "+1 555-009", request_id=it)),
    Call("RegisterContact", _register),
]


_CLAIMING = ("Create", "AppendTurn", "Rename", "Fork", "RedactMessage", "RunCommand", "SetAnchor")


def _unforced(service: Post, conversation_id: str, request_id: str) -> Any:
    return service.delete(conversation_id, request_id=request_id, force=False)


def _everything(service: Post) -> tuple[dict[str, list[tuple[str, int, int]]], Any, Any]:
    names = {it.id for page in service.pages() for it in page}
    anchors = service.recall.ListAnchors(recall_api.ListAnchorsRequest()).anchors
    return {name: said(service, name) for name in names}, service.identities(), list(anchors)


@pytest.mark.parametrize("first", WRITE_NO_LINE, ids=repr)
def test_the_id_of_a_request_that_writes_no_line_is_refused_to_others_on_every_server(
    replicas: Replicas, first: Call
) -> None:
    for one, two in ((replicas.one, replicas.two), (replicas.two, replicas.one)):
        left, other = one.conversation_of("apricot"), one.conversation_of("butter")
        request = f"{first}-{left}"
        answer = first(one, left, request)
        assert first(two, left, request) == answer
        before = _everything(two)
        for call in [*WRITE_LINES, *WRITE_NO_LINE]:
            for service in (two, one):
                refused = failure_of(partial(call, service, other, request))
                assert (refused.code, refused.reason) == (
                    "ALREADY_EXISTS",
                    "REQUEST_ID_REUSED",
                ), call
        assert _everything(one) == _everything(two) == before
        assert first(one, left, request) == answer
    for server in replicas.servers:
        with Client(server.target) as client:
            assert verified(client).problems == ()


@pytest.mark.parametrize("first", WRITE_NO_LINE, ids=repr)
def test_of_two_requests_with_one_id_at_the_same_moment_one_is_carried_out(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch, first: Call
) -> None:
    one, two = replicas.one, replicas.two
    other = one.conversation_of("butter")
    space = replicas.servers[1].app.spaces.open_now()[0]._space
    find = space.requests.known

    def overtaken(late: Call, early: Call) -> None:
        """Make a call at one server, and the other at the other one behind its look for repeats."""
        left, request = one.conversation_of("apricot"), f"{late}-{early}"
        before = said(two, other)
        answers: list[Any] = []

        def be_overtaken(request_id: str, conversation_id: str | None = None) -> Any:
            earlier = find(request_id, conversation_id)
            monkeypatch.undo()
            answers.append(early(one, left, request))
            return earlier

        monkeypatch.setattr(space.requests, "known", be_overtaken)
        refused = failure_of(partial(late, two, other, request))
        assert (refused.code, refused.reason) == ("ALREADY_EXISTS", "REQUEST_ID_REUSED")
        assert len(answers) == 1
        assert said(one, other) == said(two, other) == before

    for second in [*(it for it in WRITE_LINES if it.name in _CLAIMING), *WRITE_NO_LINE]:
        overtaken(second, first)
        if second is not first:
            overtaken(first, second)
    for server in replicas.servers:
        with Client(server.target) as client:
            assert verified(client).problems == ()


def test_the_id_of_a_request_that_is_refused_is_free_on_every_server(replicas: Replicas) -> None:
    one, two = replicas.one, replicas.two
    name = one.create("whatsapp", pinned=True, party=Party(contact="+1 555-000")).id
    missing = "conv-01J00000000000000000000009"
    for call, about in [
        (Call("Delete", _unforced), name),
        *((it, missing) for it in WRITE_NO_LINE),
    ]:
        if call.name == "DeleteMany":
            continue  # it finds nothing, and says so
        request = f"{call}-{about}"
        assert code_of(partial(call, one, about, request)) in ("FAILED_PRECONDITION", "NOT_FOUND")
        assert two.create(request_id=request).id


def test_a_request_whose_server_was_killed_is_carried_out_by_another_one_and_by_no_other_call(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    name, other = one.conversation_of("apricot"), one.conversation_of("butter")
    space = replicas.servers[0].app.spaces.open_now()[0]._space
    monkeypatch.setattr(space.store.sharing, "end_request", lambda *_: 1 / 0)
    monkeypatch.setattr(space.requests, "give_up", lambda _: None)  # as after a kill
    assert code_of(partial(_switch, one, name, "r1")) == "INTERNAL"
    assert code_of(lambda: two.append(other, user("zebra"), request_id="r1")) == "ALREADY_EXISTS"
    assert code_of(partial(_switch, two, other, "r1")) == "ALREADY_EXISTS"
    assert _switch(two, name, "r1").conversation.id == ""


def test_an_anchor_that_another_server_forgets_at_the_same_moment_is_not_found_afterwards(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    name = one.conversation_of("apricot")
    _set_anchor(one, name, "r1")
    store = replicas.servers[1].app.spaces.open_now()[0]._space.store
    swap = store.swap

    def be_overtaken(*values: Any, **named: Any) -> None:
        monkeypatch.undo()
        _set_anchor(one, name, "r2", "black")
        swap(*values, **named)

    monkeypatch.setattr(store, "swap", be_overtaken)
    forgotten = two.recall.DeleteAnchor(recall_api.DeleteAnchorRequest(key="tea", request_id="r3"))
    assert len(forgotten.anchors) == 2
    for service in (one, two):
        for request, value in (("r1", "green"), ("r2", "black")):
            refused = failure_of(partial(_set_anchor, service, name, request, value))
            assert (refused.code, "tea" in refused.text) == ("NOT_FOUND", True)
        again = recall_api.DeleteAnchorRequest(key="tea", request_id="r3")
        assert not service.recall.DeleteAnchor(again).anchors


def test_the_id_of_an_anchor_that_went_with_its_message_is_free_as_on_one_server(
    replicas: Replicas, tmp_path: Path, start_server: Start
) -> None:
    alone = start_server(data_dir=tmp_path / "alone")
    answers = []
    with Post(alone.target) as service:
        for one, two in ((service, service), (replicas.one, replicas.two)):
            name = one.conversation_of("apricot")
            _set_anchor(one, name, "r1")
            _set_anchor(one, name, "r2")
            redact(one, name, sequence=2)
            again = failure_of(lambda name=name, two=two: _set_anchor(two, name, "r1"))  # type: ignore[misc]
            other = two.append(name, user("zebra"), request_id="r2")
            answers.append((again.fields, other.duplicate, said(one, name)))
    assert answers[0] == answers[1]
    assert answers[0][0] == ("source.sequence",)  # whose text it would bring back


def test_an_anchor_is_forgotten_once_though_the_answer_of_the_database_is_lost(
    postgres: Postgres, start_server: Start, tmp_path: Path
) -> None:
    url = postgres.new_database()
    with proxied(postgres, url) as (proxy, through):
        server = start_server(store=through, data_dir=tmp_path / "one")
        with Post(server.target) as service:
            _set_anchor(service, service.conversation_of("apricot"), "r1")
            proxy.lose = b"recollect.replace"
            request = recall_api.DeleteAnchorRequest(key="tea")
            assert len(service.recall.DeleteAnchor(request).anchors) == 1
            assert not service.recall.ListAnchors(recall_api.ListAnchorsRequest()).anchors


@pytest.mark.parametrize("taker", ["elsewhere", "same conversation", "Switch"])
def test_held_messages_whose_id_another_call_takes_are_lost_and_told_and_those_behind_are_stored(
    postgres: Postgres, start_server: Start, tmp_path: Path, taker: str
) -> None:
    url = postgres.new_database()
    with proxied(postgres, url) as (proxy, through), capture_logs() as logged:
        servers = [
            start_server(store=store, data_dir=tmp_path / name)
            for store, name in ((through, "one"), (url, "two"))
        ]
        with Post(servers[0].target) as one, Post(servers[1].target) as two:
            name, other = one.create().id, one.conversation_of("butter")
            proxy.is_cut = True
            proxy.cut()
            batches = {"taken": [user("a"), user("b")], "open": [agent("c")], "kept": [user("d")]}
            for request, messages in batches.items():
                held = failure_of(partial(one.append, name, *messages, request_id=request))
                assert "The messages are held" in held.text
            if taker == "Switch":
                _switch(two, other, "taken")
            else:
                two.append(other if taker == "elsewhere" else name, user("e"), request_id="taken")
            proxy.is_cut = False

            def is_next() -> bool:
                with suppress(grpc.RpcError):
                    return bool(one.append(name, user("f"), request_id="next").messages)
                return False

            until(is_next)
            there = {"same conversation": [("e", 2, 1), ("c", 3, 1), ("d", 4, 2), ("f", 5, 3)]}
            expected = there.get(taker, [("c", 2, 1), ("d", 3, 2), ("f", 4, 3)])
            assert said(one, name) == said(two, name) == expected
            for service in (one, two):
                again = failure_of(
                    partial(service.append, name, *batches["taken"], request_id="taken")
                )
                assert (again.code, again.reason) == ("ALREADY_EXISTS", "REQUEST_ID_REUSED")
                assert service.append(name, *batches["open"], request_id="open").duplicate
            lost = [it for it in logged if it["event"] == "held_messages_lost"]
            assert [(it["conversation"], it["messages"]) for it in lost] == [(name, 2)]
            assert "another request with the same request_id" in lost[0]["reason"]
        for server in servers:
            with Client(server.target) as client:
                assert verified(client).problems == ()


def test_of_two_servers_that_remove_an_identity_at_once_one_finds_none(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = replicas.one, replicas.two
    one.own("whatsapp", "4915112345678")
    assert len(two.identities()) == 1
    append = Ledger.append

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.setattr(Ledger, "append", append)
        two.disown("whatsapp", "4915112345678", request_id="r2")
        return append(*arguments)

    monkeypatch.setattr(Ledger, "append", overtaken)
    assert code_of(lambda: one.disown("whatsapp", "4915112345678", request_id="r1")) == "NOT_FOUND"
    for server in (one, two):
        assert server.disown("whatsapp", "4915112345678", request_id="r2").channel == "whatsapp"
        code = code_of(lambda server=server: server.disown("whatsapp", "4915112345678"))  # type: ignore[misc]
        assert code == "NOT_FOUND"
