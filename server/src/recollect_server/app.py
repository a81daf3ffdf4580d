"""Floor 6, the composition root: builds every part from the settings, starts them in order, stops
them in reverse.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import resource
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from recollect_server.domain.time import Clock, milliseconds, system_clock
from recollect_server.inference import claude, openai_api
from recollect_server.inference.circuit_breaker import Backoff
from recollect_server.inference.claude import AnthropicEndpoint
from recollect_server.inference.embedder import Embedder
from recollect_server.inference.extractive import Extractive
from recollect_server.inference.hosted import Endpoint, HostedModel
from recollect_server.inference.language_model import LanguageModel, ModelUnavailable
from recollect_server.inference.openai_api import OpenAIEndpoint
from recollect_server.inference.spending import Budget, Spending, Spent
from recollect_server.inference.weights import NoWeights, WrongWeights, look, shipped
from recollect_server.inference.workers import Workers
from recollect_server.jobs.abbreviator import Abbreviator, Task, Throttle
from recollect_server.jobs.embedder import EmbedderJob
from recollect_server.jobs.index_keeper import IndexKeeper
from recollect_server.jobs.tier_keeper import TierKeeper
from recollect_server.jobs.update_pruner import UpdatePruner
from recollect_server.services.anchors import Anchors
from recollect_server.services.channels.commands import Commands
from recollect_server.services.channels.identities import Identities
from recollect_server.services.channels.rate_limit import RateLimiter
from recollect_server.services.channels.receiving import Receiving
from recollect_server.services.context.building import Choosing, ContextBuilder
from recollect_server.services.context.own import Window
from recollect_server.services.context.packing import Recalling
from recollect_server.services.context.relevance import Weights
from recollect_server.services.conversations import Conversations
from recollect_server.services.external.external import External
from recollect_server.services.external.live import LiveCommunications
from recollect_server.services.external.store import CommunicationStore
from recollect_server.services.notes.compaction import Compaction
from recollect_server.services.notes.naming import Naming
from recollect_server.services.recall.embedding import Embedding
from recollect_server.services.recall.meaning import Meaning
from recollect_server.services.recall.recall import Recall
from recollect_server.services.space.events import Deleted
from recollect_server.services.space.locks import LockOrder
from recollect_server.services.space.space import Space
from recollect_server.services.streaming.live import LiveUpdates
from recollect_server.services.tiers import Tiers
from recollect_server.services.upkeep.recovery import (
    COMPARED_AT_ONCE,
    Progress,
    Recovered,
    recover,
    unheard,
)
from recollect_server.services.working_context import Limits as WorkingLimits
from recollect_server.services.working_context import WorkingContext
from recollect_server.settings import Settings
from recollect_server.storage.logs.files import make_folder, open_transcript
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.logs.ledger import Ledger
from recollect_server.storage.logs.store import IDENTITIES, LogUnavailable
from recollect_server.transport.answers import Answers
from recollect_server.transport.certificates import TlsFiles
from recollect_server.transport.channel_service import ChannelHandlers
from recollect_server.transport.checks import Limits
from recollect_server.transport.conversation_service import ConversationHandlers
from recollect_server.transport.external_communication_service import ExternalCommunicationHandlers
from recollect_server.transport.recall_service import RecallHandlers
from recollect_server.transport.server import Server, ServerOptions
from recollect_server.transport.streams import StreamLimits, Streams
from recollect_server.transport.updates import encode, encode_communication_update

log = structlog.get_logger("recollect.app")

LOCK = "recollect.lock"


class CannotStart(Exception):
    """The server cannot start; the text says why and what to do."""


class OutOfMemory(CannotStart):
    """The system gives this process less memory, or fewer threads, than a server needs."""


NO_MEMORY = (
    "there is not enough memory, or there may be no more threads: "
    "raise the limit (ulimit -v, ulimit -u), or lower --threads"
)
_NOBODY_MAY_CALL = (
    "other machines reach it, and there is no token yet: make one with"
    " `recollect-server token create --kind brain`"
)
# of a day's budget that writing offline notes anew may use: the rest is for new notes
_REDO_SHARE = 0.5
_OTHER_THREADS = 40  # beside those of the calls: gRPC's, the jobs', the streams'
_OTHER_BYTES = 256 << 20  # address space that a start takes beside the stacks of its threads
_USUAL_STACK = 8 << 20
_ARENA_MAX = -8  # glibc's M_ARENA_MAX


def _check_address_space(settings: Settings) -> None:
    """See that a limited address space holds the stacks of all threads, now and not when calls need
    them. Raises OutOfMemory.

    gRPC aborts the process, after some seconds and with a page of text, when it cannot start a
    thread.
    """
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    with suppress(AttributeError, OSError):
        # glibc would take 64 MiB for each of many threads, and leave none for the stacks of others.
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    stack = _USUAL_STACK if stack == resource.RLIM_INFINITY else stack
    wanted = (
        settings.threads + settings.write_threads + settings.search_threads + _OTHER_THREADS
    ) * stack + _OTHER_BYTES
    try:
        mmap.mmap(-1, wanted).close()
    except (OSError, OverflowError) as error:
        raise OutOfMemory(
            f"the limit of this process's memory leaves less than the {wanted >> 20} MiB of address space that a start takes:"
            " raise it (ulimit -v), or lower --threads"
        ) from error


def _is_out_of_memory(error: BaseException) -> bool:
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno in (errno.ENOMEM, errno.EAGAIN))
        or (isinstance(error, RuntimeError) and "can't start new thread" in str(error))
    )


def _cannot_use(data_dir: Path, failure: OSError | LogUnavailable) -> CannotStart:
    """Turn what the data folder's disk refused into a start-up error with advice."""
    error = failure if isinstance(failure, OSError) else failure.__cause__
    assert isinstance(error, OSError)
    what = (error.strerror or str(error)).lower()
    place = (
        f" ({error.filename})"
        if error.filename and Path(error.filename) not in (data_dir, data_dir / LOCK)
        else ""
    )
    match error.errno:
        case errno.EACCES | errno.EPERM:
            todo = "let this user read and write there"
        case errno.ENOTDIR | errno.EEXIST:
            todo = "move the file that is in its place away"
        case errno.ENOSPC | errno.EDQUOT:
            todo = "make room there"
        case _:
            todo = "mend that"
    return CannotStart(
        f"cannot use the data folder {data_dir}: {what}{place}: {todo}, or name another folder with --data-dir"
    )


class FolderLock:
    """Holds a data folder for one process. The kernel lets go of it when the process ends, however
    it ends.
    """

    def __init__(self, data_dir: Path) -> None:
        """Take the lock. Raises CannotStart if another process has it, or the folder cannot be
        written.
        """
        try:
            make_folder(data_dir)
            self._handle = open_transcript(data_dir / LOCK, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise _cannot_use(data_dir, error) from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._handle)
            raise CannotStart(
                f"another server uses the data folder {data_dir}: stop it, or name another folder with --data-dir"
            ) from None

    def release(self) -> None:
        """Lets go of the folder."""
        os.close(self._handle)


@dataclass(frozen=True, slots=True)
class App:
    """A server that listens."""

    addresses: tuple[str, ...]
    """Addresses for clients, in the order of the setting."""
    data_dir: Path
    recovered: Recovered
    external: External
    """External communications, where messages of third parties arrive."""
    _stops: tuple[Callable[[], None], ...]

    @property
    def address(self) -> str:
        """The first address for clients."""
        return self.addresses[0]

    def stop(self) -> None:
        """Finishes the calls under way and closes everything, in reverse order. Call it once."""
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
    _check_address_space(settings)
    stops: list[Callable[[], None]] = []
    try:
        model_folder = _model_folder(settings)
        lock = FolderLock(settings.data_dir)
        stops.append(lock.release)
        logs = FolderStore.of(
            settings.data_dir, settings.space, sync=settings.durability == "fsync"
        )
        try:
            recovered = recover(logs, clock, progress, compared_at_once)
            space = Space(
                logs, recovered.index, clock, unverified=recovered.suspects, lock_order=lock_order
            )
        except (OSError, LogUnavailable) as error:
            raise _cannot_use(settings.data_dir, error) from error
        stops += (space.close, logs.close)
        communications = CommunicationStore(space)
        external = External(communications, settings.acknowledgement)
        pruner = UpdatePruner(space, settings.update_retention, settings.max_updates)
        working_limits = WorkingLimits(
            settings.max_working_turns, settings.max_working_tokens, settings.max_answer_bytes
        )
        live = LiveUpdates(
            space,
            working_limits,
            encode,
            draft_timeout=milliseconds(settings.draft_timeout),
            max_draft=settings.max_message_bytes,
        )
        live_communications = LiveCommunications(communications, encode_communication_update)
        stream_limits = StreamLimits(settings.max_subscribers, settings.heartbeat.total_seconds())
        streams = Streams((live, live_communications), stream_limits)
        stops += (pruner.stop, streams.stop)
        meaning = Meaning(logs.root, model_folder)
        stops.append(meaning.close)
        space.subscribe(Deleted, meaning.forget)
        anchors = Anchors(space)
        tiers = Tiers(space, milliseconds(settings.warm_for))
        stops.append(TierKeeper(tiers).stop)
        weights = Weights(
            settings.recency_weight,
            settings.similarity_weight,
            settings.anchor_weight,
            settings.recency_decay,
        )
        recalling = Recalling(
            settings.relevance_threshold, settings.recall_limit, settings.context_conversation_share
        )
        window = Window(settings.context_hot_turns, settings.context_warm_turns)
        choosing = Choosing(weights, recalling, settings.excerpt_tokens, window)
        builder = ContextBuilder(
            space, meaning, anchors, tiers, choosing, external, settings.max_answer_bytes
        )
        conversations = Conversations(space, notes_by_rule=_abbreviator(settings) == "extractive")
        try:
            identities = Identities(space, Ledger(logs, IDENTITIES))
        except LogUnavailable as error:
            raise _cannot_use(settings.data_dir, error) from error
        senders = RateLimiter(space, settings.sender_rate, settings.sender_burst)
        stops.append(senders.close)
        receiving = Receiving(
            space,
            identities,
            Commands(space, conversations, settings.model_names),
            senders,
            external,
        )
        limits = Limits(settings.max_message_bytes, settings.max_batch_bytes)
        answers = Answers(settings.max_answer_bytes)
        recall = Recall(space, meaning, tiers, identities)
        server = Server(
            {
                "ConversationService": ConversationHandlers(
                    conversations,
                    WorkingContext(space, working_limits),
                    live,
                    streams,
                    limits,
                    answers,
                    clock,
                    settings.model_names,
                ),
                "RecallService": RecallHandlers(
                    recall,
                    anchors,
                    builder,
                    tiers,
                    answers,
                    settings.search_timeout.total_seconds(),
                ),
                "ChannelService": ChannelHandlers(receiving, identities, limits, clock),
                "ExternalCommunicationService": ExternalCommunicationHandlers(
                    external,
                    live_communications,
                    streams,
                    limits,
                    answers,
                    settings.search_timeout.total_seconds(),
                ),
            },
            ServerOptions(
                addresses=settings.addresses,
                tls=_tls_files(settings),
                refusal=lambda: _NOBODY_MAY_CALL,
                threads=settings.threads,
                write_threads=settings.write_threads,
                search_threads=settings.search_threads,
                # Larger than what is allowed, so that what is a little too large is refused with
                # the field's name.
                max_request_bytes=2 * settings.max_batch_bytes + (1 << 20),
                reflection=settings.reflection,
                max_watches=settings.max_subscribers,
                slow_call=settings.slow_call.total_seconds(),
            ),
            degraded={"RecallService": recall.degraded},
        )
        # only now: it may give the index up, which all before read or listen to
        stops.append(IndexKeeper(space).stop)
        if meaning.on:
            workers = Workers(settings.embedding_threads)
            stops += (workers.stop, EmbedderJob(Embedding(space, meaning, workers)).stop)
        if (notes := _writer(settings, space)) is not None:
            model = notes.model
            tasks: list[Task] = [
                Naming(space, model, milliseconds(settings.idle_timeout), notes.may_redo)
            ]
            if settings.compaction:
                tasks.append(
                    Compaction(space, model, settings.compaction_messages, settings.compaction_keep)
                )
            sweep_interval = milliseconds(settings.sweep_interval)
            slow = settings.abbreviation_timeout.total_seconds() / 2
            stops.append(
                Abbreviator(
                    tasks, model, clock, sweep_interval, settings.abbreviation_threads, slow
                ).stop
            )
            log.info("notes_are_taken", by=model.name)
        # as soon as no call is under way: before jobs, which may take a moment to end
        stops.append(space.flush)
        addresses = tuple(server.start())
        stops.append(lambda: server.stop(settings.shutdown_grace.total_seconds()))
        # first: a server that stops would wait for open streams, all of its grace
        stops.append(streams.stop)
        stops.append(server.leave)
    except BaseException as error:
        if _is_out_of_memory(error):
            raise OutOfMemory(NO_MEMORY) from error
        for stop in reversed(stops):
            stop()
        raise
    return App(addresses, settings.data_dir, recovered, external, tuple(stops))


def _tls_files(settings: Settings) -> TlsFiles | None:
    """Return the files of the server's certificate; None if its ports use no TLS."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    return TlsFiles(settings.tls_cert, settings.tls_key, settings.client_ca)


def _model_folder(settings: Settings) -> Path | None:
    """Return the folder of the embedding model; None if search by meaning is off. Raises
    CannotStart for a wrong one.

    The checksums are compared. A model that does not come with the server is loaded as well: only
    that shows its dimensions.
    """
    if settings.embedder == "off":
        return None
    folder = shipped() if settings.embedding_model == "shipped" else Path(settings.embedding_model)
    try:
        found = look(folder)
        if folder != shipped():
            Embedder(found)
    except WrongWeights as error:
        raise CannotStart(str(error)) from error
    except (NoWeights, ImportError):
        pass  # searches say so, and the job tries again
    return folder


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writer of notes, and whether offline notes may be rewritten now."""

    model: LanguageModel
    may_redo: Callable[[], bool] = lambda: False


def _writer(settings: Settings, space: Space) -> _Writer | None:
    """Return who takes notes; None for nobody. Raise CannotStart if it is one that cannot be
    asked.
    """
    chosen = _abbreviator(settings)
    if chosen == "off":
        return None
    if chosen == "extractive":
        return _Writer(Extractive(Throttle()))
    budget = Budget(
        settings.abbreviation_daily_calls,
        settings.abbreviation_daily_tokens,
        settings.abbreviation_daily_cost,
        settings.abbreviation_input_price,
        settings.abbreviation_output_price,
    )
    spending = Spending(
        space.clock,
        budget,
        read=lambda day: Spent(*space.index.notes.spent(day)),
        write=lambda day, spent: space.index.notes.spend(
            day, spent.calls, spent.tokens, spent.cost
        ),
    )
    backoff = Backoff(
        tries=settings.abbreviation_tries,
        failures=settings.abbreviation_failures,
        rest=settings.abbreviation_rest.total_seconds(),
    )
    try:
        model = HostedModel(_endpoint(settings, chosen, spending), backoff)
    except ModelUnavailable as error:
        raise CannotStart(str(error)) from error
    return _Writer(model, lambda: settings.redo_offline_notes and spending.share() < _REDO_SHARE)


def _abbreviator(settings: Settings) -> str:
    """Return which kind of writer takes notes: `anthropic`, `openai`, `extractive` or `off`."""
    if settings.abbreviator == "auto":
        return "anthropic" if os.environ.get(claude.KEY) else "extractive"
    return settings.abbreviator


def _endpoint(settings: Settings, chosen: str, spending: Spending) -> Endpoint:
    """Return the endpoint of a hosted model. Raise ModelUnavailable if it cannot be asked."""
    model, part_tokens = settings.abbreviation_model, settings.abbreviation_part_tokens
    timeout = settings.abbreviation_timeout.total_seconds()
    if chosen == "anthropic":
        name = "haiku" if model == "auto" else model
        return AnthropicEndpoint(
            name, spending, timeout=timeout, part_tokens=part_tokens or claude.PART_TOKENS
        )
    if model == "auto":
        raise ModelUnavailable(
            "--abbreviator openai needs a model: name one that the server has with --abbreviation-model"
        )
    return OpenAIEndpoint(
        settings.abbreviation_url,
        model,
        spending,
        timeout=timeout,
        part_tokens=part_tokens or openai_api.PART_TOKENS,
    )
