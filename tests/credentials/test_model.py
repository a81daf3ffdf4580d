"""Tokens of two writers against a model: whatever they do in turn, both agree on who is valid."""

import os
import tempfile
from pathlib import Path

import pytest
import structlog
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from recollect_server.access.principal import Unauthenticated
from recollect_server.access.tokens import Tokens

from tests.conftest import MovableClock, examples
from tests.credentials.conftest import grant, tokens_of

FOREVER = 1 << 60
WRITERS = st.integers(0, 1)


class TwoWriters(RuleBasedStateMachine):
    """A server and a command, each with the ledger open."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))
        self.path = Path(self.folder.name) / "tokens.jsonl"
        self.clock = MovableClock()
        self.writers = [tokens_of(self.path.parent, self.clock) for _ in range(2)]
        self.ends: dict[str, int] = {}
        """End of each token by its text, in the order of creation: the texts are random."""

    def teardown(self) -> None:
        self.folder.cleanup()

    def refreshed(self, writer: int) -> Tokens:
        tokens = self.writers[writer]
        tokens.refresh()
        return tokens

    @rule(writer=WRITERS, lifetime=st.sampled_from([0, 5, 50]))
    def create(self, writer: int, lifetime: int) -> None:
        expires = self.clock.now + lifetime if lifetime else 0
        _, text = self.writers[writer].create(grant(expires=expires))
        self.ends[text] = expires or FOREVER

    @precondition(lambda self: self.ends)
    @rule(writer=WRITERS, data=st.data())
    def revoke(self, writer: int, data: st.DataObject) -> None:
        text = data.draw(st.sampled_from(list(self.ends)))
        self.refreshed(writer).revoke(text.split("_")[1])
        self.ends[text] = 0

    @precondition(lambda self: any(end > self.clock.now for end in self.ends.values()))
    @rule(writer=WRITERS, overlap=st.sampled_from([0, 7]), data=st.data())
    def rotate(self, writer: int, overlap: int, data: st.DataObject) -> None:
        valid = [text for text, end in self.ends.items() if end > self.clock.now]
        text = data.draw(st.sampled_from(valid))
        made = self.refreshed(writer).rotate(text.split("_")[1], 0, overlap)
        self.ends[made[1]] = made[0].grant.expires or FOREVER
        self.ends[text] = min(self.ends[text], self.clock.now + overlap)

    @rule(milliseconds=st.sampled_from([1, 10]))
    def pass_time(self, milliseconds: int) -> None:
        self.clock.move(milliseconds)

    @rule(tail=st.binary(min_size=1, max_size=40).filter(lambda it: b"\n" not in it))
    def break_off(self, tail: bytes) -> None:
        """Leave what an append leaves that a kill cut short."""
        with self.path.open("ab") as file:
            file.write(tail)

    @rule(writer=WRITERS)
    def start_again(self, writer: int) -> None:
        self.writers[writer] = tokens_of(self.path.parent, self.clock)

    @invariant()
    def assert_both_agree_with_the_model(self) -> None:
        """Check, after every step, that both writers verify the tokens that the model has."""
        for writer in range(2):
            tokens = self.refreshed(writer)
            for text, end in self.ends.items():
                if end > self.clock.now:
                    assert tokens.verify(text).id in text
                else:
                    with pytest.raises(Unauthenticated):
                        tokens.verify(text)


@pytest.mark.usefixtures("no_log")
def test_two_writers_agree_whatever_they_do() -> None:
    """The assertion is `assert_both_agree_with_the_model`, after each step."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    machine = settings(max_examples=examples(80), stateful_step_count=25, deadline=None)
    run_state_machine_as_test(TwoWriters, settings=machine)
