"""Any order of deliveries, answers, restarts and lost indexes, against a model so simple that it is
plainly right.
"""

from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import Start
from tests.external.conftest import BLOCKED, KNOWN, UNTRUSTED, Meet, Outside
from tests.server.conftest import delete_index

PARTIES = st.sampled_from(["ann", "bob"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), PARTIES, st.integers(1, 12)),
        st.tuples(st.just("trust"), PARTIES, st.sampled_from([UNTRUSTED, KNOWN, BLOCKED])),
        st.tuples(st.just("resolve"), PARTIES, st.just(0)),
        st.tuples(st.just("reply"), PARTIES, st.just(0)),
        st.tuples(st.just("restart"), PARTIES, st.integers(0, 1)),
    ),
    min_size=5,
    max_size=40,
)


@dataclass
class Expected:
    """Party as the model expects it."""

    name: str = ""
    texts: list[str] = field(default_factory=list)
    trust: int = UNTRUSTED
    is_escalated: bool = False
    released: bool = False


class Story:
    """A server, and the model beside it."""

    def __init__(self, start: Start, meet: Meet, data_dir: Path) -> None:
        self._start, self._meet, self._data_dir = start, meet, data_dir
        self._expected = {"ann": Expected(), "bob": Expected()}
        self._delivered: set[tuple[str, int]] = set()
        self._count = 0
        self._begin()

    def _begin(self) -> None:
        self.server = self._start(data_dir=self._data_dir)
        self.outside: Outside = self._meet(self.server)

    def deliver(self, party: str, number: int) -> None:
        """Deliver a message. Another party's message with the same id is another one."""
        received = self.outside.write(f"Message {number}", party=party, delivered=f"id-{number}")
        assert received.duplicate == ((party, number) in self._delivered)
        if received.duplicate:
            return
        self._delivered.add((party, number))
        expected = self._expected[party]
        expected.name = received.communication.id
        expected.texts.append(f"Message {number}")
        expected.released = False
        opens = expected.trust == UNTRUSTED and not expected.is_escalated
        assert (received.escalation is not None) == opens
        expected.is_escalated = expected.is_escalated or opens

    def trust(self, party: str, trust: int) -> None:
        expected = self._expected[party]
        if expected.name:
            self.outside.trust(expected.name, trust)
            expected.trust = trust
            expected.is_escalated = expected.is_escalated and trust != BLOCKED

    def resolve(self, party: str, _: int) -> None:
        expected = self._expected[party]
        waiting = self.outside.escalations(communication_id=expected.name) if expected.name else []
        assert len(waiting) == expected.is_escalated
        if waiting:
            self.outside.resolve(waiting[0].id)
            expected.is_escalated, expected.released = False, True

    def reply(self, party: str, _: int) -> None:
        expected = self._expected[party]
        if not expected.name:
            return
        self._count += 1
        allowed = expected.trust == KNOWN or (expected.trust == UNTRUSTED and expected.released)
        try:
            self.outside.reply(expected.name, f"Reply {self._count}")
        except grpc.RpcError:
            assert not allowed
        else:
            assert allowed
            expected.texts.append(f"Reply {self._count}")

    def restart(self, _: str, lost: int) -> None:
        self.server.stop()
        if lost:
            delete_index(self.server)
        self._begin()

    def compare(self) -> None:
        """Compare the service's answers with the model."""
        for expected in self._expected.values():
            if expected.name:
                communication = self.outside.get(expected.name).communication
                assert (communication.trust, communication.open_escalations) == (
                    expected.trust,
                    int(expected.is_escalated),
                )
                assert communication.message_count == len(expected.texts)
                assert self.outside.texts(expected.name) == expected.texts
        assert len(self.outside.listed()) == sum(
            bool(expected.name) for expected in self._expected.values()
        )


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_every_story_is_told_as_the_model_tells_it(
    steps: list[tuple[str, str, int]],
    start_server: Start,
    meet: Meet,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    story = Story(start_server, meet, tmp_path_factory.mktemp("story"))
    for action, party, value in steps:
        getattr(story, action)(party, value)
    story.compare()
    story.server.stop()
