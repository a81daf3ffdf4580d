"""The small life of `tests/faults/failing_io_run.py`, as third parties lead it."""

import importlib.util
from pathlib import Path
from typing import TextIO

from recollect_server.kernel.compare.recovery import no_progress, recover
from recollect_server.kernel.domain.time import system_clock
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.space.space import Space
from recollect_server.people.communication import Trust
from recollect_server.people.communication_logs import CommunicationStore
from recollect_server.people.communication_service import External, Received
from recollect_server.run.features import FEATURES

_SPEC = importlib.util.spec_from_file_location(
    "failing_io_run", Path(__file__).parents[1] / "faults" / "failing_io_run.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
lives = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(lives)


class Life(lives.Life):  # type: ignore[name-defined,misc]
    """Calls of third parties and their owner, with the answers."""

    def __init__(self, folder: FolderStore, journal: TextIO) -> None:
        self.journal = journal
        self.index = recover(folder, FEATURES, system_clock, no_progress).index
        self.folder = folder
        self.space = Space(folder, self.index, FEATURES, system_clock)
        self.external = External(CommunicationStore(self.space))

    def write(self, party: str, number: int) -> Received | None:
        """Send a message of a third party."""
        delivered = f"{party}-{number}"

        def call() -> Received | None:
            return self.external.receive("email", party, delivered, f"{delivered} zebra", (), None)

        answer = self.do("receive", call, party=party, delivered=delivered)
        assert answer is None or isinstance(answer, Received)
        return answer

    def live(self) -> None:
        """Let two strangers write; one is trusted, one is answered."""
        ann = self.write("ann", 0)
        bob = self.write("bob", 0)
        if ann:
            name = ann.communication.id
            self.do(
                "trust", lambda: self.external.set_trust(name, Trust.KNOWN, ("billing",), "trust")
            )
            self.do(
                "reply", lambda: self.external.record_reply(name, "reply zebra", "billing", "reply")
            )
        if bob and bob.escalation:
            escalation = bob.escalation.id
            self.do(
                "resolve", lambda: self.external.resolve_escalation(escalation, "Yes", "resolve")
            )
        for number in (1, 2):
            self.write("ann", number)
            self.write("bob", number)


if __name__ == "__main__":
    vars(lives)["Life"] = Life  # what `main` lives
    lives.main()
