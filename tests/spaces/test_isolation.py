"""Two spaces with the same ids, request ids, cursors, page tokens, drafts, provider ids and
identities never meet: each answers as if it were alone.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from recollect import Client, ConversationList, Message, Update
from recollect.v1 import channel_service_pb2 as channels
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.channel_pb2 import CliOrigin
from recollect_server.kernel.space.locks import LockOrder
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.conftest import LOOPBACK, MovableClock, RunningServer, Start, examples
from tests.server.conftest import Failure, failure_in, failure_of, user
from tests.spaces.conftest import Enter, InSpace

IDS = ("conv-01ARZ3NDEKTSV4RRFFQ69G5FAA", "conv-01ARZ3NDEKTSV4RRFFQ69G5FAB")
WORDS = ("roof", "garden", "invoice")
NUMBER = "+44 7700 900123"

_spaces = st.sampled_from((0, 1))
_ids = st.sampled_from(IDS)
_words = st.sampled_from(WORDS)
_few = st.sampled_from(("first", "second"))
_requests = st.sampled_from(("first", "second", "third", "fourth", "fifth"))


class Expected:
    """Expected answers of one space."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}
        self.requests: dict[str, tuple[str, str]] = {}
        """The conversation and text of each append, by its request id."""
        self.used: set[str] = set()
        """Ids of requests ever made, also about conversations that are deleted now."""
        self.drafts: dict[tuple[str, str], str] = {}
        self.is_owner = False
        self.received: set[str] = set()
        self.cursors: list[str] = []
        self.page_tokens: list[str] = []


class TwoSpaces(RuleBasedStateMachine):
    """Calls with the same names in two spaces of one server."""

    server: app.App
    numbers = count()

    def __init__(self) -> None:
        super().__init__()
        number = next(self.numbers)
        target = self.server.address
        self.services = [InSpace(target, f"{side}-{number}") for side in ("left", "right")]
        self.expected = [Expected(), Expected()]

    def teardown(self) -> None:
        for service in self.services:
            service.channel.close()

    @initialize(word=_words)
    def begin(self, word: str) -> None:
        for at in (0, 1):
            for name in IDS:
                self.create(at, name)
            self.append(at, IDS[at], word, "first")
            self.page(at)

    @rule(at=_spaces, name=_ids)
    def create(self, at: int, name: str) -> None:
        expected = self.expected[at]
        failure = _failure(lambda: self.services[at].create(conversation_id=name))
        if name in expected.texts:
            assert failure is not None
            assert failure.reason == "CONVERSATION_EXISTS"
        else:
            assert failure is None
            expected.texts[name] = []

    @rule(at=_spaces, name=_ids, word=_words, request=_few)
    def append(self, at: int, name: str, word: str, request: str) -> None:
        expected = self.expected[at]
        expected.used.add(request)
        answer: list[api.AppendTurnResponse] = []

        def call() -> None:
            answer.append(self.services[at].append(name, user(word), request_id=request))

        failure = _failure(call)
        before = expected.requests.get(request)
        if name not in expected.texts:
            assert failure is not None
            assert failure.reason in {"CONVERSATION_NOT_FOUND", "REQUEST_ID_REUSED"}
        elif before is not None and before != (name, word):
            assert failure is not None
            assert failure.reason == "REQUEST_ID_REUSED"
        else:
            assert failure is None
            assert answer[0].duplicate == (before is not None)
            if before is None:
                expected.requests[request] = name, word
                expected.texts[name].append(word)
            expected.cursors.append(answer[0].cursor)

    @rule(at=_spaces, appends=st.lists(st.tuples(_ids, _words, _requests), min_size=1, max_size=4))
    def append_at_rest(self, at: int, appends: list[tuple[str, str, str]]) -> None:
        space = self.services[at].space
        self.server.spaces.rest(space)
        before = self.is_awake(space)
        new = True
        for name, word, request in appends:
            expected = self.expected[at]
            new = new and name in expected.texts and request not in expected.used
            self.append(at, name, word, request)
        if new:  # nothing needed the index
            assert before == self.is_awake(space)

    def is_awake(self, space: str) -> bool:
        return space in {it.name for it in self.server.spaces.open_now()}

    @rule(at=_spaces, word=_words)
    def search(self, at: int, word: str) -> None:
        results = set(self.services[at].found(word))
        assert results == {name for name, texts in self.expected[at].texts.items() if word in texts}

    @rule(at=_spaces)
    def page(self, at: int) -> None:
        page = self.services[at].listed(page_size=1)
        if page.next_page_token:
            self.expected[at].page_tokens.append(page.next_page_token)

    @rule(at=_spaces)
    def page_of_the_other_space(self, at: int) -> None:
        for token in self.expected[1 - at].page_tokens[-1:]:
            failure = failure_of(partial(self.services[at].listed, page_size=1, page_token=token))
            assert failure.reason == "INVALID_PAGE_TOKEN"
        for token in self.expected[at].page_tokens[-1:]:
            self.services[at].listed(page_size=1, page_token=token)

    @rule(at=_spaces)
    def cursor_of_the_other_space(self, at: int) -> None:
        for cursor in self.expected[1 - at].cursors[-1:]:
            request = api.StreamUpdatesRequest(cursor=cursor)
            failure = failure_of(partial(self._first_update, at, request))
            assert (failure.reason, failure.fields) == ("INVALID_FIELD", ("cursor",))

    def _first_update(self, at: int, request: api.StreamUpdatesRequest) -> object:
        return next(iter(self.services[at].conversations.StreamUpdates(request)))

    @rule(at=_spaces)
    def resume(self, at: int) -> None:
        for cursor in self.expected[at].cursors[-1:]:
            stream = self.services[at].conversations.StreamUpdates(
                api.StreamUpdatesRequest(cursor=cursor)
            )
            assert not next(iter(stream)).update.reset
            stream.cancel()

    @rule(at=_spaces, name=_ids, draft=_few)
    def publish(self, at: int, name: str, draft: str) -> None:
        expected = self.expected[at]
        if name not in expected.texts:
            return
        before = expected.drafts.get((name, draft), "")
        self.services[at].conversations.PublishDelta(
            api.PublishDeltaRequest(
                conversation_id=name, draft_id=draft, offset=len(before), text="word "
            )
        )
        expected.drafts[name, draft] = before + "word "

    @rule(at=_spaces, name=_ids)
    def delete(self, at: int, name: str) -> None:
        expected = self.expected[at]
        failure = _failure(lambda: self.services[at].delete(name))
        if name in expected.texts:
            assert failure is None
            del expected.texts[name]
            expected.drafts = {key: it for key, it in expected.drafts.items() if key[0] != name}
            forgotten = [it for it, (about, _) in expected.requests.items() if about == name]
            for request in forgotten:
                del expected.requests[request]
        else:
            assert failure is not None
            assert failure.code == "NOT_FOUND"

    @rule(at=_spaces)
    def add_owner(self, at: int) -> None:
        self.services[at].channels.AddOwnerIdentity(
            channels.AddOwnerIdentityRequest(channel="whatsapp", identity=NUMBER)
        )
        self.expected[at].is_owner = True

    @rule(at=_spaces, delivery=_few)
    def receive(self, at: int, delivery: str) -> None:
        expected = self.expected[at]
        answer: Any = self.services[at].channels.Receive(
            channels.ReceiveRequest(
                channel="cli",
                provider_message_id=delivery,
                sender=f"someone-{at}",
                text="From outside",
                cli=CliOrigin(),
            )
        )
        assert answer.duplicate == (delivery in expected.received)
        expected.received.add(delivery)

    @rule(at=_spaces)
    def rest(self, at: int) -> None:
        self.server.spaces.rest(self.services[at].space)

    @rule(at=_spaces)
    def evict(self, at: int) -> None:
        if self.expected[at].drafts:
            return  # they are in memory alone
        self.server.spaces.evict(self.services[at].space)

    @invariant()
    def each_space_has_its_own(self) -> None:
        for service, expected in zip(self.services, self.expected, strict=True):
            for name, texts in expected.texts.items():
                assert [it.content for it in service.load(name).messages] == texts
            owners = service.channels.ListOwnerIdentities(channels.ListOwnerIdentitiesRequest())
            assert len(owners.identities) == int(expected.is_owner)


def _failure(call: Callable[[], object]) -> Failure | None:
    try:
        call()
    except grpc.RpcError as error:
        return failure_in(error)
    return None


@pytest.fixture
def spaces_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[app.App]:
    """Start a server for all examples: each has spaces of its own."""
    chosen = Settings.load(
        None,
        {
            "listen": f"{LOOPBACK}:0",
            "data_dir": tmp_path_factory.mktemp("spaces") / "data",
            "sender_rate": 0,
        },
    )
    running = app.start(chosen, clock=MovableClock(), lock_order=LockOrder())
    yield running
    running.stop()


@pytest.mark.timeout(300)
def test_two_spaces_never_meet(spaces_server: app.App, no_log: None) -> None:
    TwoSpaces.server = spaces_server
    run_state_machine_as_test(
        TwoSpaces,
        settings=settings(
            max_examples=examples(60),
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_cursors_and_page_tokens_of_the_default_space_look_as_before_and_are_its_own(
    server: RunningServer, enter: Enter
) -> None:
    default, other = enter(server.target, "default"), enter(server.target, "other")
    cursors, tokens = [], []
    for service in (default, other):
        name = service.conversation_of("One")
        service.conversation_of("Two")
        cursors.append(service.append(name, user("More")).cursor)
        tokens.append(service.listed(page_size=1).next_page_token)
    assert re.fullmatch(r"[0-9a-f]{12}-(\d+|[0-9a-f]+-\d+\.[0-9a-f]+)", cursors[0])
    for service, of in ((default, 1), (other, 0)):
        request = api.StreamUpdatesRequest(cursor=cursors[of])
        failure = failure_of(partial(next, service.conversations.StreamUpdates(request)))
        assert (failure.reason, failure.fields) == ("INVALID_FIELD", ("cursor",))
        failure = failure_of(partial(service.listed, page_size=1, page_token=tokens[of]))
        assert failure.reason == "INVALID_PAGE_TOKEN"


def test_a_space_has_the_name_that_an_application_gives_its_user(
    start_server: Start, enter: Enter
) -> None:
    names = ("ann.o-brien+work@mail.example.com", "9f2c5e1a-7d3b-4c58-9e0a-1b2c3d4e5f60", "7@b")
    server = start_server(embedder="off")
    for name in names:
        enter(server.target, name).conversation_of(f"I am {name}.")
    server.stop()
    server = start_server(embedder="off")
    with Client(server.target) as client:
        assert {it.name for it in client.admin.list_spaces()} - {"default"} == set(names)
        for name in names:
            [only] = enter(server.target, name).listed().conversations
            assert enter(server.target, name).load(only.id).messages[0].content == f"I am {name}."
        assert client.admin.delete_space(names[0]).name == names[0]
        assert [it.name for it in client.admin.list_spaces(query="@")] == [names[2]]
    for wrong in (
        "Ann@example.com",
        "ann.example",
        "../x@b",
        "a/b@c",
        "@b",
        "a@",
        "a@b/c",
        "a@b@c",
    ):
        refused = failure_of(partial(enter(server.target, wrong).listed))
        assert "or an e-mail address in lower case" in str(refused)
    with Client(server.target) as client:
        assert client.admin.create_token("brain", spaces=names[2:]).token.spaces == names[2:]


def test_a_space_that_is_only_watched_leaves_nothing_behind_and_is_followed_once_it_is_made(
    server: RunningServer,
) -> None:
    with Client(server.target, space="misspelt") as client:
        watches = client.conversations.watch(), client.external.watch()
        assert not next(watches[0]).reset
        next(watches[1])
        assert "misspelt" not in [it.name for it in client.admin.list_spaces()]
        assert not (server.data_dir / "misspelt").exists()
        new = client.conversations.create("web", messages=[Message.user("Now it is meant")])
        client.external.register_contact("email", "ann@example.org")

        def is_shown(it: Update) -> bool:  # in a snapshot marked `reset`, or as it happened
            listed = it.kind.conversations if isinstance(it.kind, ConversationList) else ()
            return new.id in (it.conversation_id, *(one.id for one in listed))

        assert any(map(is_shown, watches[0]))
        assert "ann@example.org" in str(next(watches[1]))
