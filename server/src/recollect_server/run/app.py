"""The composition root: builds every part from the settings, starts them in order, stops them in
reverse, with the background work: a thread or a few for each kind of job, over all open spaces.
`space` composes one open space, `models` chooses the models, `folder` holds the data folder.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from recollect_server.access.tokens import Tokens
from recollect_server.admin.due import DueMarkers
from recollect_server.admin.spaces import VerificationAdministration
from recollect_server.contract.admin_service import AdminHandlers
from recollect_server.contract.answers import Answers
from recollect_server.contract.handling import Rules
from recollect_server.contract.rules import SizeLimits
from recollect_server.contract.server import Server, ServerOptions
from recollect_server.contract.streams import StreamLimits, Streams
from recollect_server.kernel.compare.recovery import (
    COMPARED_AT_ONCE,
    Progress,
    Recovered,
    no_progress,
)
from recollect_server.kernel.domain.errors import (
    InvalidField,
    SpaceBeingDeleted,
    Stopping,
    StorageUnavailable,
)
from recollect_server.kernel.domain.live import Holder, Live
from recollect_server.kernel.domain.telemetry import Telemetry
from recollect_server.kernel.domain.time import Clock, system_clock
from recollect_server.kernel.format import NewerFormat, mark_format
from recollect_server.kernel.log.store import LogUnavailable
from recollect_server.kernel.space.locks import LockOrder
from recollect_server.kernel.space.spaces import Lease, Spaces
from recollect_server.run.administration import Callers, admin_handlers, open_callers
from recollect_server.run.folder import (
    NO_MEMORY,
    CannotStart,
    FolderLock,
    OutOfMemory,
    cannot_use,
    check_address_space,
    is_out_of_memory,
)
from recollect_server.run.jobs.due_work import DueKeeper, DueWork, StreamKeeper, request_awaited
from recollect_server.run.jobs.loop import Loop
from recollect_server.run.jobs.notes import Abbreviator
from recollect_server.run.jobs.of_space import JOBS, EmbedderJob, FollowerJob, RetentionKeeper
from recollect_server.run.jobs.rounds import Rounds
from recollect_server.run.models import model_folder, open_models, writer_of_notes
from recollect_server.run.pages import (
    Observed,
    degraded_logs,
    degraded_recall,
    open_pages,
    tls_files,
)
from recollect_server.run.parts.opening import Shared
from recollect_server.run.parts.retention import of_all_spaces
from recollect_server.run.settings import Settings
from recollect_server.run.settings.values import FOLDER
from recollect_server.run.space import Opener, OpenSpace
from recollect_server.run.stores import Stores, open_stores

log = structlog.get_logger("recollect.app")

_NOBODY_MAY_CALL = (
    "other machines reach it, and there is no token yet: make one with"
    " `recollect-server token create --kind brain {}`"
)


_MOST_AWAKE = 100  # see `start`
_LOOKS_EVERY = 5.0  # seconds between two looks at a data folder that nobody uses


@dataclass(frozen=True, slots=True)
class App:
    addresses: tuple[str, ...]
    """Addresses for clients, in the order of the setting."""
    data_dir: Path
    place: str
    """Place of the logs, for people: the data folder, or a database."""
    recovered: Recovered
    """Of the default space."""
    spaces: Spaces[OpenSpace]
    settings: Holder[Settings]
    """The settings in force: administrators may change some of them."""
    metrics_address: str
    """Address of the metrics; empty: they are off."""
    health_address: str
    """Address of health over HTTP; empty: there is none."""
    _stops: tuple[Callable[[], None], ...]

    @property
    def address(self) -> str:
        return self.addresses[0]

    def stop(self) -> None:
        """Finish the calls under way and close everything, in reverse order. Call it once."""
        for stop in reversed(self._stops):
            stop()


def start(
    settings: Settings,
    *,
    clock: Clock = system_clock,
    progress: Progress = no_progress,
    compared_at_once: int = COMPARED_AT_ONCE,
    most_awake: int = _MOST_AWAKE,
    lock_order: LockOrder | None = None,
) -> App:
    """Build and start everything.

    Raises CannotStart, and transport's CannotListen; then nothing is left running. Raises
    OutOfMemory; then the process is to end, for what was started may be in no state to be stopped.

    `compared_at_once`: bytes of transcripts that are compared with an index that no server closed,
    before anybody calls. `most_awake`: open spaces that have their files open, unless more are used
    at once. `lock_order` checks the order in which locks are taken.
    """
    check_address_space(settings)
    live = Holder(settings)
    stops: list[Callable[[], None]] = []
    try:
        return _start(
            live,
            stops,
            clock=clock,
            progress=progress,
            compared_at_once=compared_at_once,
            most_awake=most_awake,
            lock_order=lock_order,
        )
    except BaseException as error:
        if is_out_of_memory(error):
            raise OutOfMemory(NO_MEMORY) from error
        for stop in reversed(stops):
            stop()
        raise


def _start(
    live: Holder[Settings],
    stops: list[Callable[[], None]],
    *,
    clock: Clock,
    progress: Progress,
    compared_at_once: int,
    most_awake: int,
    lock_order: LockOrder | None,
) -> App:
    """Start everything (see `start`). What stops it again is added to `stops`, in order."""
    settings = live.now
    weights = model_folder(settings)
    lock = FolderLock(settings.data_dir)
    stops.append(lock.release)
    watch = Loop("folder", partial(_look, lock), wait=_LOOKS_EVERY)
    watch.start()
    stops.append(watch.stop)
    stores, callers = _open_data(live, lock, clock, stops)
    gate = callers.gate
    pages = open_pages(settings, stores, callers.tokens, gate, stops)
    streams = Streams(
        StreamLimits(settings.max_subscribers, settings.heartbeat.total_seconds()),
        pages.telemetry,
    )
    stops.append(streams.stop)
    models, workers = open_models(live, weights, stops)
    grace, new_rules = of_all_spaces(live, clock)
    shared = Shared(
        live,
        stores,
        clock,
        streams,
        Answers(settings.max_answer_bytes),
        DueWork(DueMarkers(settings.data_dir), settings.space),
        threading.Event(),
        lambda: spaces.note_work(),
        lambda name: spaces.is_leaving(name),
        models,
        workers,
        writer_of_notes(live, clock, pages.telemetry),
        callers.limiter,
        grace,
        new_rules,
        lock_order,
        progress,
        compared_at_once,
        pages.telemetry,
    )
    opener = Opener(shared)
    spaces = Spaces(
        opener.open,
        stores.exists,
        settings.max_open_spaces,
        most_awake,
        partial=opener.partial,
        check=lock.check if settings.store == FOLDER else _nothing,
    )
    stops.append(spaces.close)
    verifications = VerificationAdministration(stores, spaces, clock)
    stops.append(verifications.stop)
    # The disk and the default space are looked at before anybody calls.
    with _default_space(spaces, settings) as space:
        recovered = space.recovered
        handlers = admin_handlers(live, shared, callers, spaces, verifications)
        server = _server(shared, callers, spaces, handlers)
    start_jobs(shared, spaces, stops)
    # as soon as no call is under way: before jobs, which may take a moment to end
    stops.append(lambda: _flush(spaces))
    stops.append(spaces.calls_are_over)
    gate.follow(streams.end, server.end_streams, lambda _: _end_of_made(streams, stores))
    stops.append(gate.stop)
    addresses = tuple(server.start())
    lock.publish(addresses)
    seconds_to_stop = settings.shutdown_grace.total_seconds()
    stops.append(lambda: server.stop(seconds_to_stop))
    pages.health.follow(server.health)
    pages.observed.append(Observed(spaces, streams, server, stores, settings.data_dir))
    stops += (
        pages.observed.clear,
        # first: a server that stops would wait for open streams, all of its grace
        streams.stop,
        lambda: stores.expect_close(seconds_to_stop),
        lambda: spaces.expect_close(seconds_to_stop),
        server.leave,
    )
    return App(
        addresses,
        settings.data_dir,
        stores.place,
        recovered,
        spaces,
        live,
        pages.metrics_address,
        pages.health_address,
        tuple(stops),
    )


def _look(lock: FolderLock) -> float:
    """Look whether the data folder is still held; return the seconds until the next look."""
    lock.look()
    return _LOOKS_EVERY


def _nothing() -> None:
    """Do nothing."""


def _open_data(
    live: Live[Settings], lock: FolderLock, clock: Clock, stops: list[Callable[[], None]]
) -> tuple[Stores, Callers]:
    """Open the stores, with the tokens. Raises CannotStart."""
    data_dir = live.now.data_dir
    try:
        mark_format(data_dir)
    except NewerFormat as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        raise cannot_use(data_dir, error) from error
    stores = open_stores(live, lock.check)
    stops.append(stores.close)
    try:
        for receipt in stores.finish_removals(clock()):
            log.info("space_delete_finished", space=receipt.name)
        return stores, open_callers(live, stores, clock, stops)
    except (OSError, LogUnavailable) as error:
        raise cannot_use(data_dir, error) from error


def _default_space(spaces: Spaces[OpenSpace], settings: Settings) -> Lease[OpenSpace]:
    """Open the default space. Raises CannotStart if its store cannot be used."""
    try:
        return spaces.use(settings.space)
    except InvalidField as error:
        raise CannotStart(f"{error}: name another with --space") from error
    except StorageUnavailable as error:
        if not isinstance(error.__cause__, OSError | LogUnavailable):
            raise
        raise cannot_use(settings.data_dir, error.__cause__) from error


def _server(
    shared: Shared, callers: Callers, spaces: Spaces[OpenSpace], administration: AdminHandlers
) -> Server:
    """Build the gRPC server, which does not listen yet."""
    live = shared.live
    return Server(
        callers.gate,
        spaces,
        _server_options(live, callers.tokens, shared.telemetry),
        degraded={
            "RecallService": partial(degraded_recall, spaces, live.now.space),
            "ConversationService": partial(degraded_logs, spaces, shared.stores),
        },
        rules=Rules(
            callers.limiter,
            callers.audit,
            callers.uses,
            SizeLimits(live.now.max_message_bytes, live.now.max_batch_bytes),
            shared.clock,
        ),
        of_no_space={"AdminService": administration},
    )


def _flush(spaces: Spaces[OpenSpace]) -> None:
    for space in spaces.open_now():
        space.flush()


def _end_of_made(streams: Streams, stores: Stores) -> None:
    """End the streams that began before their space was made."""
    with suppress(StorageUnavailable):  # the next look is a quarter of a second later
        streams.end_of_made(stores.exists)


def _flag(settings: Settings) -> str:
    """Return the flag that names the ledger of tokens to a command."""
    if settings.store == FOLDER:
        return f"--data-dir {settings.data_dir}"
    return f"--store {settings.store}"


def _server_options(live: Live[Settings], tokens: Tokens, telemetry: Telemetry) -> ServerOptions:
    settings = live.now
    return ServerOptions(
        addresses=settings.addresses,
        tls=tls_files(settings),
        refusal=lambda: "" if tokens.any() else _NOBODY_MAY_CALL.format(_flag(settings)),
        threads=settings.threads,
        search_threads=settings.search_threads,
        # Larger than what is allowed, so that what is a little too large is refused with the
        # field's name.
        max_request_bytes=2 * settings.max_batch_bytes + (1 << 20),
        reflection=settings.reflection,
        max_watches=settings.max_subscribers,
        slow_call=live.view(lambda now: now.slow_call.total_seconds()),
        data_dir=settings.data_dir,
        telemetry=telemetry,
    )


_REMOVALS_EVERY = 1.0  # seconds between two looks for spaces that other servers deleted
_PATIENCE = 2.0  # seconds that such a space may be used on


def start_jobs(shared: Shared, spaces: Spaces[OpenSpace], stops: list[Callable[[], None]]) -> None:
    settings, stores, due, writer = shared.live.now, shared.stores, shared.due, shared.writer
    jobs = [
        it
        for it in JOBS
        if not (it is FollowerJob and settings.store == FOLDER)
        and not (it is EmbedderJob and shared.workers is None)
    ]
    # what rules delete is bounded for all spaces together, which two at once could exceed
    stops += [Rounds(job, spaces, one_at_a_time=job is RetentionKeeper).stop for job in jobs]
    if settings.store != FOLDER:
        removals = partial(_follow_removals, stores, spaces, shared.streams)
        stops.append(_repeated("space-removals", removals, spaces))
    if writer is not None:
        slow = settings.abbreviation_timeout.total_seconds() / 2
        threads = settings.abbreviation_threads
        stops.append(
            Abbreviator(spaces, writer.model, shared.clock, threads, slow, shared.telemetry).stop
        )
        if writer.condenser is not None:
            stops.append(writer.condenser.close)  # before the one that waits for its calls
        log.info("notes_are_taken", by=writer.model.name)
    keeper = StreamKeeper(shared.streams.awaited, spaces)
    shared.streams.wake_by(keeper.wake)
    stops.append(keeper.stop)
    stops += (DueKeeper(spaces, due, shared.clock).stop, shared.stopping.set)
    if settings.store != FOLDER:
        awaited = partial(request_awaited, stores.awaited, spaces, due, shared.clock)
        stops.append(_repeated("awaited", awaited, spaces))


def _repeated(
    name: str, look: Callable[[], float], spaces: Spaces[OpenSpace]
) -> Callable[[], None]:
    """Begin to look round after round, and return what stops that."""
    loop = Loop(name, look)
    loop.start()
    return lambda: loop.stop(spaces.patience())


def _follow_removals(stores: Stores, spaces: Spaces[OpenSpace], streams: Streams) -> float:
    """Remove what other servers deleted; return the seconds until the next look."""

    def close(name: str, remove: Callable[[], None]) -> None:
        with streams.ended_in(name):
            spaces.remove(name, _PATIENCE, remove)

    # What cannot be closed or asked for now is tried again.
    with suppress(StorageUnavailable, SpaceBeingDeleted, Stopping):
        stores.follow_removals(close)
    return _REMOVALS_EVERY
