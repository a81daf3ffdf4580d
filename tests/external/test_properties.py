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
class Known:
    """Party as the model expects it."""

    name: str = ""
    texts: list[str] = field(default_factory=list)
    trust: int = UNTRUSTED
    asked: bool = False
    released: bool = False


class Story:
    """A server, and the model beside it."""

    def __init__(self, start: Start, meet: Meet, data_dir: Path) -> None:
        self._start, self._meet, self._data_dir = start, meet, data_dir
        self._known = {"ann": Known(), "bob": Known()}
        self._seen: set[int] = set()
        self._count = 0
        self._begin()

    def _begin(self) -> None:
        self.server = self._start(data_dir=self._data_dir)
        self.outside: Outside = self._meet(self.server)

    def deliver(self, party: str, number: int) -> None:
        """Deliver a message. Ids are the channel's: another party's message with the same id is
        taken for the first one.
        """
        received = self.outside.write(f"Message {number}", party=party, delivered=f"id-{number}")
        assert received.duplicate == (number in self._seen)
        if received.duplicate:
            return
        self._seen.add(number)
        known = self._known[party]
        known.name = received.communication.id
        known.texts.append(f"Message {number}")
        known.released = False
        opens = known.trust == UNTRUSTED and not known.asked
        assert (received.escalation is not None) == opens
        known.asked = known.asked or opens

    def trust(self, party: str, trust: int) -> None:
        known = self._known[party]
        if known.name:
            self.outside.trust(known.name, trust)
            known.trust = trust
            known.asked = known.asked and trust != BLOCKED

    def resolve(self, party: str, _: int) -> None:
        known = self._known[party]
        waiting = self.outside.escalations(communication_id=known.name) if known.name else []
        assert len(waiting) == known.asked
        if waiting:
            self.outside.resolve(waiting[0].id)
            known.asked, known.released = False, True

    def reply(self, party: str, _: int) -> None:
        known = self._known[party]
        if not known.name:
            return
        self._count += 1
        allowed = known.trust == KNOWN or (known.trust == UNTRUSTED and known.released)
        try:
            self.outside.reply(known.name, f"Reply {self._count}")
        except grpc.RpcError:
            assert not allowed
        else:
            assert allowed
            known.texts.append(f"Reply {self._count}")

    def restart(self, _: str, lost: int) -> None:
        self.server.stop()
        if lost:
            delete_index(self.server)
        self._begin()

    def compare(self) -> None:
        """Compare the service's answers with the model."""
        for known in self._known.values():
            if known.name:
                communication = self.outside.get(known.name).communication
                assert (communication.trust, communication.open_escalations) == (
                    known.trust,
                    int(known.asked),
                )
                assert communication.message_count == len(known.texts)
                assert self.outside.texts(known.name) == known.texts
        assert len(self.outside.listed()) == sum(bool(known.name) for known in self._known.values())


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
