"""A space as its parts open it: what the server gives to each, and what each gives to the space."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from recollect_server.access.limits import Limiter
from recollect_server.admin.jobs import JobReport
from recollect_server.contract.answers import Answers
from recollect_server.contract.convert import CursorSeal
from recollect_server.contract.streams import Streams
from recollect_server.kernel.compare.recovery import COMPARED_AT_ONCE, Progress, no_progress
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.telemetry import UNMEASURED, Telemetry
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.space.locks import LockOrder
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.stream.log import UpdateLog
from recollect_server.recall.embedding.pace import Share
from recollect_server.recall.model.models import EmbeddingModels
from recollect_server.recall.model.workers import Workers
from recollect_server.retention.service import NewRules, RetentionGrace
from recollect_server.run.jobs.due_work import DueWork
from recollect_server.run.jobs.rounds import Job
from recollect_server.run.models import NotesWriter
from recollect_server.run.settings import Settings
from recollect_server.run.stores import Stores

T = TypeVar("T")
J = TypeVar("J", bound=Job)


@dataclass(frozen=True, slots=True)
class Shared:
    """Parts of the server that all its spaces share."""

    live: Live[Settings]
    stores: Stores
    clock: Clock
    streams: Streams
    answers: Answers
    due: DueWork
    stopping: threading.Event
    """Set when the jobs are to stop."""
    note_work: Callable[[], None]
    """Wakes the jobs: others than calls gave them something to do."""
    is_leaving: Callable[[str], bool]
    """Tells whether a space is to be deleted, or all are to be closed."""
    models: EmbeddingModels | None
    """None: nothing is embedded."""
    workers: Workers | None
    writer: NotesWriter | None
    """None: nobody takes notes."""
    limiter: Limiter
    retention_grace: RetentionGrace
    new_rules: NewRules
    lock_order: LockOrder | None = None
    progress: Progress = no_progress
    compared_at_once: int = COMPARED_AT_ONCE
    telemetry: Telemetry = UNMEASURED
    embedding_share: Share = field(default_factory=Share)
    """Share of a processor that the embedding of all spaces takes beside appends."""


class Opening:
    """A space that is being opened, or whose index is being made."""

    def __init__(self, name: str, shared: Shared, space: Space) -> None:
        self.name = name
        self.shared = shared
        self.live = shared.live
        self.space = space
        self.seal = CursorSeal(name, is_default=name == shared.live.now.space)
        self.handlers: dict[str, object] = {}
        """Handlers of the calls in the space, by the names of their services."""
        self.jobs: dict[str, Job] = {}
        self.reports: list[Callable[[], JobReport]] = []
        """Reports on work that has no job of its own."""
        self.watched: list[UpdateLog[Any]] = []
        """Updates that the streams watch."""
        self.flushes: list[Callable[[], None]] = []
        """Functions that write what is kept in memory, before the files are closed."""
        self.stops: list[Callable[[], None]] = []
        """Functions that close files of parts."""
        self.stored: list[Callable[[], int]] = []
        """Functions that count the bytes of what is stored beside conversations."""
        self._services: dict[type, object] = {}

    def give(self, service: T) -> T:
        """Let later parts use a service, and the callers of the open space."""
        self._services[type(service)] = service
        return service

    def service(self, kind: type[T]) -> T:
        """Return the service of a type. Raises KeyError if no earlier part gave it."""
        return cast(T, self._services[kind])

    def close(self) -> None:
        """Close the files of the parts, those of the last one first."""
        while self.stops:
            self.stops.pop()()

    def start(self, job: J) -> J:
        """Let a job have its turns in the space."""
        self.jobs[job.name] = job
        return job


def _nothing(_: Opening) -> None:
    """Do nothing: nothing of the part is read while an index is being made."""


@dataclass(frozen=True, slots=True)
class SpacePart:
    """A feature's part in a space. It uses the services of the parts before it."""

    register: Callable[[Opening], None]
    """Gives an open space its services, handlers, jobs and subscriptions, behind `read`."""
    read: Callable[[Opening], None] = _nothing
    """Gives what answers searches, also while the index is being made. It writes nothing."""
