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

from recollect_server.app.administration import Administered, admin_handlers
from recollect_server.app.folder import (
    LOCK,
    NO_MEMORY,
    CannotStart,
    FolderLock,
    OutOfMemory,
    cannot_use,
    check_address_space,
    is_out_of_memory,
)
from recollect_server.app.metrics import Metrics
from recollect_server.app.metrics_page import Observed, metrics_page
from recollect_server.app.models import embedding_models, model_folder, writer_of_notes
from recollect_server.app.reading import ReadingSpace
from recollect_server.app.space import OpenSpace, Shared
from recollect_server.app.space_jobs import EMBEDDER, FOLLOWER, INDEX, PRUNER, RETENTION, TIERS
from recollect_server.app.stores import Stores, open_stores
from recollect_server.app.tracing import tracing
from recollect_server.domain import endpoints
from recollect_server.domain.errors import (
    IndexUnavailable,
    SpaceBeingDeleted,
    Stopping,
    StorageUnavailable,
)
from recollect_server.domain.live import Holder, Live
from recollect_server.domain.telemetry import UNMEASURED, Telemetry
from recollect_server.domain.time import Clock, system_clock
from recollect_server.inference.workers import Workers
from recollect_server.jobs.abbreviator import Abbreviator
from recollect_server.jobs.bookkeeper import Bookkeeper
from recollect_server.jobs.due_work import Awaited, DueKeeper, DueWork
from recollect_server.jobs.loop import Loop
from recollect_server.jobs.rounds import Rounds
from recollect_server.jobs.upkeep import ModelReleaser
from recollect_server.services.administration.verifications import VerificationAdministration
from recollect_server.services.audit import Audit
from recollect_server.services.limits import Allowance, Allowances, Limiter
from recollect_server.services.space.locks import LockOrder
from recollect_server.services.spaces import Spaces
from recollect_server.services.tokens import Tokens
from recollect_server.services.upkeep.recovery import COMPARED_AT_ONCE, Progress, Recovered, unheard
from recollect_server.settings import Settings
from recollect_server.settings.values import FOLDER
from recollect_server.storage.audit import AuditLog
from recollect_server.storage.due import DueMarkers
from recollect_server.storage.format import NewerFormat, mark_format
from recollect_server.storage.logs.store import LogUnavailable
from recollect_server.storage.usage import UsageFile
from recollect_server.transport.answers import Answers
from recollect_server.transport.certificates import TlsFiles
from recollect_server.transport.gate import Gate
from recollect_server.transport.handling import Rules
from recollect_server.transport.health import HealthPages
from recollect_server.transport.listening import CannotListen
from recollect_server.transport.server import Server, ServerOptions
from recollect_server.transport.streams import StreamLimits, Streams

if TYPE_CHECKING:
    from recollect_server.transport.plain_http import PlainHttp

log = structlog.get_logger("recollect.app")

__all__ = (
    "LOCK",
    "NO_MEMORY",
    "App",
    "CannotStart",
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


@dataclass(frozen=True, slots=True)
class App:
    """A server that listens."""

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
        """Return the first address for clients."""
        return self.addresses[0]

    def stop(self) -> None:
        """Finish the calls under way and close everything, in reverse order. Call it once."""
        for stop in reversed(self._stops):
            stop()


def start(
    settings: Settings,
    *,
    clock: Clock = system_clock,
    progress: Progress = unheard,
    compared_at_once: int = COMPARED_AT_ONCE,
    lock_order: LockOrder | None = None,
) -> App:
    """Build and start everything.

    Raises CannotStart, and transport's CannotListen; then nothing is left running. Raises
    OutOfMemory; then the process is to end, for what was started may be in no state to be stopped.

    `compared_at_once`: bytes of transcripts that are compared with an index that no server closed,
    before anybody calls. `lock_order` checks the order in which locks are taken.
    """
    check_address_space(settings)
    live = Holder(settings)
    stops: list[Callable[[], None]] = []
    try:
        weights = model_folder(settings)
        lock = FolderLock(settings.data_dir)
        stops.append(lock.release)
        try:
            mark_format(settings.data_dir)
        except NewerFormat as error:
            raise CannotStart(str(error)) from error
        except OSError as error:
            raise cannot_use(settings.data_dir, error) from error
        stores = open_stores(live)
        stops.append(stores.close)
        try:
            for receipt in stores.finish_removals(clock()):
                log.info("space_delete_finished", space=receipt.name)
            tokens = Tokens(stores.tokens(), clock)
        except (OSError, LogUnavailable) as error:
            raise cannot_use(settings.data_dir, error) from error
        gate = Gate(settings.space, tokens, token_required=settings.auth == "required")
        # Early, so that probes and scrapes are answered however long the start takes; and closed
        # late.
        pages = HealthPages(lambda: _unready(stores))
        health_address = ""
        if settings.health_listen:
            from recollect_server.transport.plain_http import PlainHttp  # as in _metrics_http

            http = PlainHttp("health-listen", settings.health_listen, pages.pages())
            health_address = http.open()
            stops.append(http.close)
        metrics = Metrics() if settings.metrics else None
        telemetry: Telemetry = metrics or UNMEASURED
        if (traces := tracing(telemetry, settings.traces)) is not None:
            telemetry = traces
            stops.append(traces.stop)
        observed: list[Observed] = []
        metrics_address = ""
        if metrics is not None:
            http = _metrics_http(settings, tokens, gate, metrics, observed)
            metrics_address = http.open()
            stops.append(http.close)
        audit = Audit(
            AuditLog(settings.data_dir, settings.audit_bytes, settings.audit_files), clock
        )
        limiter = Limiter(
            clock,
            live.view(_allowances),
            tokens.limits_of,
            UsageFile(settings.data_dir),
        )
        stops.append(Bookkeeper(limiter, audit, clock).stop)
        streams = Streams(
            StreamLimits(settings.max_subscribers, settings.heartbeat.total_seconds()), telemetry
        )
        stops.append(streams.stop)
        workers = Workers(settings.embedding_threads) if weights else None
        if workers is not None:
            stops.append(workers.stop)
        models = embedding_models(settings, weights) if weights else None
        if models is not None:
            idle = live.view(lambda now: now.embedding_idle.total_seconds())
            stops.append(ModelReleaser(models, idle).stop)
        writer, stopping = writer_of_notes(live, clock, telemetry), threading.Event()
        due = DueWork(DueMarkers(settings.data_dir), settings.space)
        shared = Shared(
            live,
            stores,
            clock,
            streams,
            Answers(settings.max_answer_bytes),
            due,
            stopping,
            lambda: spaces.note_work(),
            models,
            workers,
            writer,
            limiter,
            lock_order,
            progress,
            compared_at_once,
            telemetry,
        )
        spaces = Spaces(
            partial(_open_space, shared),
            stores.exists,
            settings.max_open_spaces,
            settings.max_suspended_spaces,
            partial=partial(_partial_space, shared),
        )
        stops.append(spaces.close)
        verifications = VerificationAdministration(stores, spaces, clock)
        stops.append(verifications.stop)
        # The disk and the default space are looked at before anybody calls.
        try:
            lease = spaces.use(settings.space)
        except StorageUnavailable as error:
            if not isinstance(error.__cause__, OSError | LogUnavailable):
                raise
            raise cannot_use(settings.data_dir, error.__cause__) from error
        with lease as space:
            recovered = space.recovered
            server = Server(
                gate,
                spaces,
                _server_options(live, tokens, telemetry),
                degraded={
                    "RecallService": partial(_degraded, spaces, settings.space),
                    "ConversationService": partial(_degraded_logs, spaces, stores),
                },
                rules=Rules(limiter, audit),
                of_no_space={
                    "AdminService": admin_handlers(
                        Administered(
                            live, stores, clock, tokens, limiter, spaces, streams, verifications
                        )
                    )
                },
            )
        jobs = [INDEX, TIERS, PRUNER, RETENTION]
        jobs += [FOLLOWER] if settings.store != FOLDER else []
        jobs += [EMBEDDER] if workers else []
        stops += [Rounds(job, spaces).stop for job in jobs]
        if settings.store != FOLDER:
            removals = Loop("space-removals", partial(_follow_removals, stores, spaces, streams))
            removals.start()
            stops.append(removals.stop)
        if writer is not None:
            slow = settings.abbreviation_timeout.total_seconds() / 2
            stops.append(
                Abbreviator(
                    spaces, writer.model, clock, settings.abbreviation_threads, slow, telemetry
                ).stop
            )
            log.info("notes_are_taken", by=writer.model.name)
        stops += (DueKeeper(spaces, due, clock).stop, stopping.set)
        if settings.store != FOLDER:
            stops.append(Awaited(stores.awaited, spaces, due, clock).stop)
        # as soon as no call is under way: before jobs, which may take a moment to end
        stops.append(lambda: _flush(spaces))
        gate.follow(streams.end, server.end_streams)
        stops.append(gate.stop)
        addresses = tuple(server.start())
        lock.publish(addresses)
        stops.append(lambda: server.stop(settings.shutdown_grace.total_seconds()))
        pages.follow(server.health)
        observed.append(Observed(spaces, streams, server, stores, settings.data_dir))
        stops.append(observed.clear)
        # first: a server that stops would wait for open streams, all of its grace
        stops.append(streams.stop)
        stops.append(server.leave)
        stops.append(lambda: stores.expect_close(settings.shutdown_grace.total_seconds()))
    except BaseException as error:
        if is_out_of_memory(error):
            raise OutOfMemory(NO_MEMORY) from error
        for stop in reversed(stops):
            stop()
        raise
    return App(
        addresses,
        settings.data_dir,
        stores.place,
        recovered,
        spaces,
        live,
        metrics_address,
        health_address,
        tuple(stops),
    )


def _follow_removals(stores: Stores, spaces: Spaces[OpenSpace], streams: Streams) -> float:
    """Remove what other servers deleted; return the seconds until the next look."""

    def close(name: str, remove: Callable[[], None]) -> None:
        streams.end_of_space(name)
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
        store = f"{held} messages wait in memory, for their logs refuse them"
    index = f"the newest messages of {not_indexed} conversations are not indexed yet"
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
    from recollect_server.transport.plain_http import PlainHttp  # 1 MiB of the standard library's

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
    """Open a space. Raises StorageUnavailable, IndexUnavailable, which name it."""
    try:
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
        write_threads=settings.write_threads,
        search_threads=settings.search_threads,
        # Larger than what is allowed, so that what is a little too large is refused with the
        # field's name.
        max_request_bytes=2 * settings.max_batch_bytes + (1 << 20),
        reflection=settings.reflection,
        max_watches=settings.max_subscribers,
        slow_call=live.view(lambda now: now.slow_call.total_seconds()),
        telemetry=telemetry,
    )
