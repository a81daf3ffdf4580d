"""The composition root: builds every part from the settings, starts them in order, stops them in
reverse. `space` composes one open space, `models` chooses the models, `folder` holds the data
folder.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from recollect_server.access.audit import Audit
from recollect_server.access.audit_file import AuditLog
from recollect_server.access.limits import Allowance, Allowances, Limiter
from recollect_server.access.token_uses import TokenUses
from recollect_server.access.tokens import Tokens
from recollect_server.access.usage_file import UsageFile
from recollect_server.admin.due import DueMarkers
from recollect_server.admin.verifications import VerificationAdministration
from recollect_server.contract import endpoints
from recollect_server.contract.answers import Answers
from recollect_server.contract.certificates import TlsFiles
from recollect_server.contract.gate import Gate
from recollect_server.contract.handling import Rules
from recollect_server.contract.health import HealthPages
from recollect_server.contract.listening import CannotListen
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
    IndexUnavailable,
    InvalidField,
    SpaceBeingDeleted,
    Stopping,
    StorageUnavailable,
)
from recollect_server.kernel.domain.live import Holder, Live
from recollect_server.kernel.domain.telemetry import UNMEASURED, Telemetry
from recollect_server.kernel.domain.time import Clock, system_clock
from recollect_server.kernel.domain.wording import counted
from recollect_server.kernel.format import NewerFormat, mark_format
from recollect_server.kernel.log.store import LogUnavailable
from recollect_server.kernel.space.locks import LockOrder
from recollect_server.kernel.space.spaces import Lease, Spaces
from recollect_server.recall.model.models import EmbeddingModels
from recollect_server.recall.model.workers import Workers
from recollect_server.retention.rule_times import RuleTimesFile
from recollect_server.retention.service import NewRules, RetentionGrace
from recollect_server.run.administration import Administered, admin_handlers
from recollect_server.run.folder import (
    LOCK,
    NO_MEMORY,
    CannotStart,
    FolderInUse,
    FolderLock,
    OutOfMemory,
    cannot_use,
    check_address_space,
    is_out_of_memory,
)
from recollect_server.run.jobs.counts_writer import Bookkeeper
from recollect_server.run.jobs.due_work import Awaited, DueKeeper, DueWork
from recollect_server.run.jobs.loop import Loop
from recollect_server.run.jobs.notes import Abbreviator
from recollect_server.run.jobs.of_space import EmbeddingOrder, ModelReleaser
from recollect_server.run.jobs.rounds import Rounds
from recollect_server.run.metrics import Metrics
from recollect_server.run.metrics_page import Observed, metrics_page
from recollect_server.run.models import embedding_models, model_folder, writer_of_notes
from recollect_server.run.reading import ReadingSpace
from recollect_server.run.settings import Settings
from recollect_server.run.settings.values import FOLDER
from recollect_server.run.space import OpenSpace, Shared
from recollect_server.run.space_jobs import COUNTS, EMBEDDER, FOLLOWER, INDEX, PRUNER, RETENTION
from recollect_server.run.stores import Stores, open_stores
from recollect_server.run.tracing import tracing

if TYPE_CHECKING:
    from recollect_server.contract.plain_http import PlainHttp

log = structlog.get_logger("recollect.app")

__all__ = (
    "LOCK",
    "NO_MEMORY",
    "App",
    "CannotStart",
    "FolderInUse",
    "FolderLock",
    "OutOfMemory",
    "start",
)

_NOBODY_MAY_CALL = (
    "other machines reach it, and there is no token yet: make one with"
    " `recollect-server token create --kind brain {}`"
)


_REMOVALS_EVERY = 1.0  # seconds between two looks for spaces that other servers deleted
_PATIENCE = 2.0  # seconds that such a space may be used on
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
    stores, tokens = _open_data(live, lock, clock, stops)
    uses = TokenUses(stores.token_uses(), clock)
    gate = Gate(settings.space, tokens, uses, token_required=settings.auth == "required")
    pages = _open_pages(settings, stores, tokens, gate, stops)
    audit = Audit(AuditLog(settings.data_dir, settings.audit_bytes, settings.audit_files), clock)
    limiter = Limiter(clock, live.view(_allowances), tokens.limits_of, UsageFile(settings.data_dir))
    stops.append(Bookkeeper(limiter, audit, uses, clock).stop)
    streams = Streams(
        StreamLimits(settings.max_subscribers, settings.heartbeat.total_seconds()),
        pages.telemetry,
    )
    stops.append(streams.stop)
    models, workers = _open_models(live, weights, stops)
    grace = live.view(lambda now: now.retention_grace.total_seconds())
    rules = live.view(lambda now: now.retention_rules)
    new_rules = NewRules(rules, grace, clock, RuleTimesFile(settings.data_dir))
    new_rules.follow()
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
        limiter,
        RetentionGrace(grace, clock),
        new_rules,
        lock_order,
        progress,
        compared_at_once,
        pages.telemetry,
    )
    spaces = Spaces(
        partial(_open_space, shared),
        stores.exists,
        settings.max_open_spaces,
        most_awake,
        partial=partial(_partial_space, shared),
        check=lock.check if settings.store == FOLDER else _nothing,
    )
    stops.append(spaces.close)
    verifications = VerificationAdministration(stores, spaces, clock)
    stops.append(verifications.stop)
    # The disk and the default space are looked at before anybody calls.
    with _default_space(spaces, settings) as space:
        recovered = space.recovered
        administered = Administered(
            live, stores, clock, tokens, uses, limiter, new_rules, spaces, streams, verifications
        )
        server = _server(shared, gate, audit, administered)
    _start_jobs(shared, spaces, stops)
    # as soon as no call is under way: before jobs, which may take a moment to end
    stops.append(lambda: _flush(spaces))
    stops.append(spaces.calls_are_over)
    gate.follow(streams.end, server.end_streams, lambda _: _end_of_made(streams, stores))
    stops.append(gate.stop)
    addresses = tuple(server.start())
    lock.publish(addresses)
    stops.append(lambda: server.stop(settings.shutdown_grace.total_seconds()))
    pages.health.follow(server.health)
    pages.observed.append(Observed(spaces, streams, server, stores, settings.data_dir))
    stops.append(pages.observed.clear)
    # first: a server that stops would wait for open streams, all of its grace
    stops.append(streams.stop)
    stops.append(lambda: stores.expect_close(settings.shutdown_grace.total_seconds()))
    stops.append(lambda: spaces.expect_close(settings.shutdown_grace.total_seconds()))
    stops.append(server.leave)
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
) -> tuple[Stores, Tokens]:
    """Open the stores and the ledger of tokens. Raises CannotStart."""
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
        return stores, Tokens(stores.tokens(), clock)
    except (OSError, LogUnavailable) as error:
        raise cannot_use(data_dir, error) from error


@dataclass(frozen=True, slots=True)
class _Pages:
    """Health and metrics over HTTP, and what the server measures."""

    health: HealthPages
    health_address: str
    metrics_address: str
    telemetry: Telemetry
    observed: list[Observed]
    """The running server that the metrics are of; empty before it listens."""


def _open_pages(
    settings: Settings,
    stores: Stores,
    tokens: Tokens,
    gate: Gate,
    stops: list[Callable[[], None]],
) -> _Pages:
    """Open the pages early, so that probes and scrapes are answered however long the start takes.
    They are closed late. Raises CannotListen, CannotStart.
    """
    pages = HealthPages(lambda: _unready(stores))
    health_address = metrics_address = ""
    if settings.health_listen:
        from recollect_server.contract.plain_http import PlainHttp  # as in _metrics_http

        http = PlainHttp("health-listen", settings.health_listen, pages.pages())
        health_address = http.open()
        stops.append(http.close)
    metrics = Metrics() if settings.metrics else None
    telemetry: Telemetry = metrics or UNMEASURED
    if (traces := tracing(telemetry, settings.traces)) is not None:
        telemetry = traces
        stops.append(traces.stop)
    observed: list[Observed] = []
    if metrics is not None:
        http = _metrics_http(settings, tokens, gate, metrics, observed)
        metrics_address = http.open()
        stops.append(http.close)
    return _Pages(pages, health_address, metrics_address, telemetry, observed)


def _open_models(
    live: Live[Settings], weights: Path | None, stops: list[Callable[[], None]]
) -> tuple[EmbeddingModels | None, Workers | None]:
    """Open the embedding models and the threads that they run in; None without weights."""
    if not weights:
        return None, None
    workers = Workers(live.now.embedding_threads)
    stops.append(workers.stop)
    models = embedding_models(live.now, weights)
    idle = live.view(lambda now: now.embedding_idle.total_seconds())
    stops.append(ModelReleaser(models, idle).stop)
    return models, workers


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


def _server(shared: Shared, gate: Gate, audit: Audit, administered: Administered) -> Server:
    """Build the gRPC server, which does not listen yet."""
    live, spaces = shared.live, administered.spaces
    return Server(
        gate,
        spaces,
        _server_options(live, administered.tokens, shared.telemetry),
        degraded={
            "RecallService": partial(_degraded, spaces, live.now.space),
            "ConversationService": partial(_degraded_logs, spaces, shared.stores),
        },
        rules=Rules(
            shared.limiter,
            audit,
            administered.uses,
            SizeLimits(live.now.max_message_bytes, live.now.max_batch_bytes),
            shared.clock,
        ),
        of_no_space={"AdminService": admin_handlers(administered)},
    )


def _start_jobs(shared: Shared, spaces: Spaces[OpenSpace], stops: list[Callable[[], None]]) -> None:
    settings, stores, due, writer = shared.live.now, shared.stores, shared.due, shared.writer
    jobs = [INDEX, COUNTS, PRUNER, RETENTION]
    jobs += [FOLLOWER] if settings.store != FOLDER else []
    jobs += [EMBEDDER] if shared.workers else []
    # what rules delete is bounded for all spaces together, which two at once could exceed
    stops += [
        Rounds(
            job,
            spaces,
            one_at_a_time=job == RETENTION,
            order=EmbeddingOrder() if job == EMBEDDER else None,
        ).stop
        for job in jobs
    ]
    if settings.store != FOLDER:
        removals = Loop("space-removals", partial(_follow_removals, stores, spaces, shared.streams))
        removals.start()
        stops.append(lambda: removals.stop(spaces.patience()))
    if writer is not None:
        slow = settings.abbreviation_timeout.total_seconds() / 2
        threads = settings.abbreviation_threads
        stops.append(
            Abbreviator(spaces, writer.model, shared.clock, threads, slow, shared.telemetry).stop
        )
        if writer.condenser is not None:
            stops.append(writer.condenser.close)  # before the one that waits for its calls
        log.info("notes_are_taken", by=writer.model.name)
    stops += (DueKeeper(spaces, due, shared.clock).stop, shared.stopping.set)
    if settings.store != FOLDER:
        stops.append(Awaited(stores.awaited, spaces, due, shared.clock).stop)


def _follow_removals(stores: Stores, spaces: Spaces[OpenSpace], streams: Streams) -> float:
    """Remove what other servers deleted; return the seconds until the next look."""

    def close(name: str, remove: Callable[[], None]) -> None:
        with streams.ended_in(name):
            spaces.remove(name, _PATIENCE, remove)

    # What cannot be closed or asked for now is tried again.
    with suppress(StorageUnavailable, SpaceBeingDeleted, Stopping):
        stores.follow_removals(close)
    return _REMOVALS_EVERY


def _degraded(spaces: Spaces[OpenSpace], name: str) -> Mapping[str, str]:
    """Return what is degraded in a space, as `Recall.degraded` does; nothing new of a closed
    one.
    """
    for space in spaces.open_now():
        if space.name == name and (lease := spaces.borrow(space)) is not None:
            with lease:
                return space.recall.degraded()
    return {}


def _degraded_logs(spaces: Spaces[OpenSpace], stores: Stores) -> Mapping[str, str]:
    """Return why the logs or their index lack something: of the database, and of all open
    spaces.
    """
    state = stores.state()
    held = sum(space.held()[0] for space in spaces.open_now())
    not_indexed = sum(space.not_indexed() for space in spaces.open_now())
    store = state.problem if state is not None else ""
    if not store and held:
        # Anybody may ask for the health of a server, and a path is for its operator.
        reasons = sorted(it.held_because() for it in spaces.open_now())
        store = f"{counted(held, 'message')} held in memory, as the logs refuse to take more"
        store += next((f": {it}" for it in reasons if it and "/" not in it), "")
    conversations = counted(not_indexed, "conversation")
    index = f"the newest messages of {conversations} are not indexed yet"
    return {"store": store, "index": index if not_indexed else ""}


def _unready(stores: Stores) -> str:
    """Return why no calls should be sent to this server; empty if they should."""
    state = stores.state()
    return state.problem if state is not None else ""


def _metrics_http(
    settings: Settings, tokens: Tokens, gate: Gate, metrics: Metrics, observed: list[Observed]
) -> "PlainHttp":
    """Return the address of the metrics: on loopback for everybody, beyond it over TLS, or behind
    a proxy that ends it, and with a token. Raises CannotListen, CannotStart.
    """
    from recollect_server.contract.plain_http import PlainHttp  # 1 MiB of the standard library's

    try:
        page = metrics_page(metrics, lambda: next(iter(observed), None))
    except ImportError as error:
        raise CannotStart(
            f"metrics need prometheus-client, which cannot be imported ({error}):"
            " pip install prometheus-client, or start without --metrics"
        ) from error
    if endpoints.is_local(settings.metrics):
        return PlainHttp("metrics", settings.metrics, {"/metrics": page})
    if not tokens.any():
        raise CannotListen(
            f"cannot listen on {settings.metrics}: other machines reach it, and there is no token"
            " yet: make one with `recollect-server token create --kind monitor --space '*'"
            f" --data-dir {settings.data_dir}`"
        )
    return PlainHttp(
        "metrics", settings.metrics, {"/metrics": page}, gate.refusal, _tls_files(settings)
    )


def _flush(spaces: Spaces[OpenSpace]) -> None:
    for space in spaces.open_now():
        space.flush()


def _open_space(shared: Shared, name: str) -> OpenSpace:
    """Open a space. Raises DataUnavailable, which names it."""
    try:
        shared.stores.check_name(name)
        return OpenSpace(name, shared)
    except (OSError, LogUnavailable) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StorageUnavailable(f"the space {name} cannot be opened: {reason}") from error
    except IndexUnavailable as error:
        raise IndexUnavailable(f"the space {name} cannot be opened: {error}") from error


def _partial_space(shared: Shared, name: str) -> ReadingSpace | None:
    """Return what can be read already of a space that is being opened."""
    space = shared.opening.get(name)
    return space.partial() if space is not None else None


def _end_of_made(streams: Streams, stores: Stores) -> None:
    """End the streams that began before their space was made."""
    with suppress(StorageUnavailable):  # the next look is a quarter of a second later
        streams.end_of_made(stores.exists)


def _flag(settings: Settings) -> str:
    """Return the flag that names the ledger of tokens to a command."""
    if settings.store == FOLDER:
        return f"--data-dir {settings.data_dir}"
    return f"--store {settings.store}"


def _tls_files(settings: Settings) -> TlsFiles | None:
    """Return the files of the server's certificate; None if its ports use no TLS."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    return TlsFiles(settings.tls_cert, settings.tls_key, settings.client_ca)


def _allowances(settings: Settings) -> Allowances:
    """Return what a token and a space may use."""
    return Allowances(
        Allowance(
            settings.token_calls, settings.token_burst, settings.token_bytes, settings.token_streams
        ),
        Allowance(
            settings.space_calls, settings.space_burst, settings.space_bytes, settings.space_streams
        ),
    )


def _server_options(live: Live[Settings], tokens: Tokens, telemetry: Telemetry) -> ServerOptions:
    settings = live.now
    return ServerOptions(
        addresses=settings.addresses,
        tls=_tls_files(settings),
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
