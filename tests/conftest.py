"""Fixtures for all tests: a real server on a real port over a temporary folder, and clients of
it.
"""

import gc
import os
import shutil
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import grpc
import hypothesis
import pytest
import structlog
from recollect import Client
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub
from recollect.v1.recall_service_pb2_grpc import RecallServiceStub
from recollect_server.kernel.space.locks import LockOrder
from recollect_server.run import app
from recollect_server.run.settings import Settings
from recollect_server.run.settings.values import FOLDER

from tests import tiers, with_token

if TYPE_CHECKING:
    from tests.postgres import Pooler, Postgres

# What is imported stays: the collector would go through all of it again and again, a seventh of the
# tests' processor.
gc.disable()

if with_token.ON:
    with_token.turn_on()

# By words alone, unless a test asks for more: loading the model takes half a second of each server.
os.environ["RECOLLECT_EMBEDDER"] = "off"

# Temporary folders are in memory where it has room for them. No test sees whether a sync reached a
# disk: what a killed process wrote is there after it in either case, and what a power failure takes
# is taken from a recorded disk (tests/crash/power.py). Waiting for the disk only makes the tests
# longer, some three times as long. `real_disk_path` is for those that want it.
_MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a folder of its own in it
if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 2 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

_QUARTER, _HARNESS = 0.25, "harness"

_LOGGER = type(structlog.get_logger())
"""Type of the logger that each module has, which makes the one that is used."""

LONG = "HOSTILE_SCALE" in os.environ
"""Set by `make hostile`: what `make test` samples is tried in full."""


LOG_STORE = os.environ.get("LOG_STORE", FOLDER)
"""`LOG_STORE=postgres` runs every test whose server is `start_server`'s over PostgreSQL."""

OVER_EVERY_STORE = {
    "tests.administration.test_verification",
    "tests.channels.test_deliveries",
    "tests.channels.test_stories",
    "tests.external.test_deleting",
    "tests.server.test_append",
    "tests.server.test_previews",
    "tests.server.test_unindex",
    "tests.spaces.test_isolation",
    "tests.streaming.test_resume",
}
"""Modules whose tests run over every log store, but for those marked `files`."""

TWO = "two servers"
"""A parameter of `log_store`: `start_server` starts two servers over one database, and each call of
a test goes to the other one in turn.
"""

OVER_TWO_SERVERS = {
    "tests.channels.test_deliveries",
    "tests.channels.test_stories",
    "tests.server.test_append",
    "tests.streaming.test_resume",
    "tests.streaming.test_stream",
}
"""Modules whose tests run over two servers too, but for those marked `files` or `one_server`."""


def examples(count: int) -> int:
    """Return the number of examples that are tried of a property: all in the long form, else a
    quarter, but 20 at least.
    """
    return count if LONG else max(count // 4, min(count, 20))


# Timing on a busy machine is no reason to fail.
hypothesis.settings.register_profile(
    "recollect",
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("recollect")

# Of each process that runs tests its own, so that a server that starts again finds its port free. A
# Mac has but the first.
_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
LOOPBACK = (
    f"127.0.0.{10 + int(_WORKER.removeprefix('gw'))}"
    if _WORKER and sys.platform == "linux"
    else "127.0.0.1"
)


class MovableClock:
    """A clock that stands still until a test moves it. Milliseconds since 1970."""

    def __init__(self, now: int = 1_790_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def move(self, milliseconds: int) -> None:
        self.now += milliseconds


@dataclass
class RunningServer:
    """A server that listens, with what a test needs to look behind it."""

    app: app.App
    clock: MovableClock
    settings: Settings
    beside: "RunningServer | None" = None
    """Another server over the same database, to which every second call goes."""
    stopped: bool = False

    def stop(self) -> None:
        """Stop the server as Ctrl-C does. Stopping twice is harmless."""
        if not self.stopped:
            self.stopped = True
            self.app.stop()
        if self.beside is not None:
            self.beside.stop()

    @property
    def target(self) -> str:
        """Its address; with a server beside it, both, with a comma between them."""
        if self.beside is not None:
            return f"{self.app.address},{self.beside.target}"
        return self.app.address

    @property
    def data_dir(self) -> Path:
        return self.app.data_dir

    @property
    def folder(self) -> Path:
        """The folder of the index: over the folder store that of the transcripts too."""
        space = self.data_dir / self.settings.space
        if self.settings.store != FOLDER:
            return next(space.glob("postgres-*"))
        return space / "conversations"


Start = Callable[..., RunningServer]
"""Type of the fixture `start_server`, which takes settings by name."""


_TESTS = Path(__file__).parent


def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are cores: a third of a test's time is spent waiting for a
    disk, a port or another process. With one more the tests took as long.
    """
    return (os.cpu_count() or 1) + 1


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options by which `make test` and the gate choose tests (tests/README.md)."""
    group = parser.getgroup("tiers")
    group.addoption("--sample", metavar="SEED", help="of store and reach, a sample by this seed")
    group.addoption("--share", type=float, default=0.1, help="how much of each harness a sample is")
    group.addoption("--whole", default="", metavar="HARNESS,…", help="what of it is not sampled")
    group.addoption(
        "--quarter", default="", metavar="HARNESS,…", help="of what a quarter is chosen"
    )
    group.addoption("--modules", default="", metavar="PATH,…", help="modules that are not sampled")
    group.addoption(
        "--passed", metavar="FILE", help="where the whole harnesses that passed are named"
    )
    group.addoption("--at-most", type=int, metavar="N", help="run N of the tests, by the seed")
    group.addoption("--any-order", metavar="SEED", help="run modules and their tests in any order")


def pytest_configure(config: pytest.Config) -> None:
    """Take no sample of tests that the caller names. Let each worker begin to collect at another
    folder: pytest rewrites the assertions of a module where no worker has kept it rewritten, which
    takes longer than to import all of them.
    """
    worker = getattr(config, "workerinput", None)  # it gets the options that the controller has
    if worker is None:
        if config.args_source is pytest.Config.ArgsSource.ARGS:
            config.option.sample = None
    elif config.args == ["tests"] and not (config.option.ignore or config.option.ignore_glob):
        folders = {path.parent for path in _TESTS.glob("*/test_*.py")}
        paths = sorted(folders | {*_TESTS.glob("test_*.py")})
        first = int(worker["workerid"].removeprefix("gw")) * len(paths) // worker["workercount"]
        config.args = [str(path) for path in paths[first:] + paths[:first]]


def pytest_report_header(config: pytest.Config) -> str:
    """Say which tests are chosen, and how to choose the same."""
    if config.option.sample is None:
        return f"tests: all of them, any order: {config.option.any_order}"
    whole, quarter = config.option.whole or "none", config.option.quarter or "none"
    return (
        f"tests: contract; a sample of store and reach, SEED={config.option.sample} "
        f"({config.option.share:.0%}); whole harnesses: {whole}; a quarter of: {quarter}"
    )


def harness_of(item: pytest.Item) -> str:
    """Return the harness of a collected test."""
    chosen = getattr(item, "callspec", None)
    values = chosen.params.values() if chosen is not None else ()
    stores = [value for value in values if isinstance(value, str) and value in ("postgres", TWO)]
    return tiers.harness_of(
        item.path.relative_to(_TESTS).as_posix(),
        over_other_stores=bool(stores) or "postgres" in getattr(item, "fixturenames", ()),
    )


def chosen_of(tests: dict[str, str], config: pytest.Config) -> set[str]:
    """Return the ids of those tests that the options choose. `tests` gives the harness of each."""
    seed, at_most = config.option.sample, config.option.at_most
    if at_most is not None:
        return set(tiers.by_seed(tests, seed or "")[:at_most])
    if seed is None:
        return set(tests)
    whole = {harness for harness in tests.values() if tiers.TIER_OF[harness] == tiers.CONTRACT}
    whole |= set(config.option.whole.split(","))
    modules = set(config.option.modules.split(","))
    sampled = {
        test: harness
        for test, harness in tests.items()
        if harness not in whole and test.partition("::")[0] not in modules
    }
    quarter = set(config.option.quarter.split(","))
    shares = defaultdict(lambda: config.option.share, dict.fromkeys(quarter, _QUARTER))
    return (tests.keys() - sampled.keys()) | tiers.sample(sampled, seed, shares.__getitem__)


@pytest.hookimpl(tryfirst=True)  # before those of a parameter of a whole module are put together
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its tier, leave out what the options do not choose, and run the tests
    with a time limit of their own first: they are long, and at the end no worker should wait for
    another. A sample runs in an order of its seed's own: a test that needs another one fails.
    """
    if hasattr(config, "workerinput"):  # each worker has collected them in another order
        items.sort(key=lambda item: item.path)
    harnesses = {item.nodeid: harness_of(item) for item in items}
    for item in items:
        item.add_marker(tiers.TIER_OF[harnesses[item.nodeid]])
        item.user_properties.append((_HARNESS, harnesses[item.nodeid]))
    chosen = chosen_of(harnesses, config)
    left_out = [item for item in items if item.nodeid not in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.nodeid in chosen]
    if order := config.option.any_order or config.option.sample:
        module_of = {item: item.nodeid.partition("::")[0] for item in items}
        rank = {module: at for at, module in enumerate(tiers.by_seed({*module_of.values()}, order))}
        place = {test: at for at, test in enumerate(tiers.by_seed(chosen, order))}
        items.sort(key=lambda item: (rank[module_of[item]], place[item.nodeid]))
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Say how long each harness took, and name in a file those that were whole and passed, and such
    modules: another one that failed takes nothing from them.
    """
    seconds: defaultdict[str, float] = defaultdict(float)
    modules: set[str] = set()
    failed: set[str] = set()
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                harness = str(dict(report.user_properties)[_HARNESS])
                module = report.nodeid.partition("::")[0]
                seconds[harness] += report.duration
                modules.add(module)
                failed |= {harness, module} if outcome in ("failed", "error") else set()
    if not hasattr(config, "workerinput") and len(seconds) > 1:
        longest = (f"{it} {seconds[it]:.0f}" for it in sorted(seconds, key=lambda it: -seconds[it]))
        terminalreporter.write_line(f"seconds of each harness: {', '.join(longest)}")
    if config.option.passed:
        is_over = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        whole = {*config.option.whole.split(","), *config.option.modules.split(",")}
        passed = whole & (seconds.keys() | modules) - failed if is_over else ()
        Path(config.option.passed).write_text(" ".join(sorted(passed)))


def pytest_collection_finish() -> None:
    """Freeze the imported objects, so that the garbage collector only visits those that tests
    make.
    """
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def interrupts_are_heeded() -> Iterator[None]:
    """Heed Ctrl-C: a shell ignores it for what it runs in the background, and children inherit
    that.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True, scope="session")
def nobody_takes_notes() -> Iterator[None]:
    """Turn notes and models off for all servers, in this process and others. A test that needs them
    turns them on.
    """
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RECOLLECT_ABBREVIATOR", "off")
        environment.delenv("ANTHROPIC_API_KEY", raising=False)
        yield


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """Reset the logs, which a command that ran in this process has set up."""
    yield
    reset_logs()


def reset_logs() -> None:
    """Reset the logs, and let each logger follow what is set up from now on.

    A server that somebody runs makes each logger once, at its first use, which `capture_logs` does
    not see any more; so does `serve` in this process, even if it refuses to start.
    """
    if structlog.get_config()["cache_logger_on_first_use"]:
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "recollect_server":
                for value in list(vars(module).values()):
                    if isinstance(value, _LOGGER):
                        vars(value).pop("bind", None)  # the logger that it keeps
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def postgres() -> Iterator["Postgres"]:
    """Start a PostgreSQL that the tests of this process share."""
    from tests.postgres import running  # only those tests need its packages

    with running() as server:
        yield server


@pytest.fixture(scope="session")
def pooler(postgres: "Postgres") -> Iterator["Pooler"]:
    """Start a PgBouncer in transaction mode that the tests of this process share."""
    from tests.postgres import pooled

    with pooled(postgres) as running:
        yield running


@pytest.fixture
def no_log() -> None:
    """Discard the log of a test."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def real_disk_path() -> Iterator[Path]:
    """Yield a temporary folder on the machine's disk."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


@cache
def load_models_once() -> None:
    """Share a model among the servers of this process: loading one takes longer than most tests."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before the import, as in the embedder
    import onnxruntime

    load, loaded = onnxruntime.InferenceSession, {}

    def session(model: bytes, options: Any, providers: list[str]) -> Any:
        if model not in loaded:
            loaded[model] = load(model, options, providers=providers)
        return loaded[model]

    onnxruntime.InferenceSession = session


LogStoreOf = Callable[[Path], dict[str, str]]
"""Type of the fixture `log_store`: the setting `store` of a server, by its data folder."""


@pytest.fixture
def log_store(request: pytest.FixtureRequest) -> LogStoreOf:
    """Choose where servers keep their logs: in the data folder, or in a database for each."""
    if getattr(request, "param", LOG_STORE) == FOLDER:
        return lambda _: {}
    postgres: Postgres = request.getfixturevalue("postgres")
    urls: dict[Path, str] = {}

    def store(data_dir: Path) -> dict[str, str]:
        if data_dir not in urls:
            urls[data_dir] = postgres.new_database()
        return {"store": urls[data_dir]}

    return store


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of some modules over every log store."""
    module, test = metafunc.module.__name__, metafunc.definition
    if "log_store" not in metafunc.fixturenames or test.get_closest_marker("files"):
        return
    stores = [FOLDER]
    if module in OVER_EVERY_STORE:
        stores.append("postgres")
    if module in OVER_TWO_SERVERS and not test.get_closest_marker("one_server"):
        stores.append(TWO)
    if len(stores) > 1:
        metafunc.parametrize("log_store", stores, indirect=True)


@pytest.fixture
def start_server(
    request: pytest.FixtureRequest, tmp_path: Path, clock: MovableClock, log_store: LogStoreOf
) -> Iterator[Start]:
    """Start servers, by default over one temporary folder; those still running at the end are
    stopped.
    """
    running: list[RunningServer] = []
    parameters = getattr(request.node, "callspec", None)
    is_spread = parameters is not None and parameters.params.get("log_store") == TWO

    def start(config: Path | None = None, **settings: Any) -> RunningServer:
        if settings.get("embedder") == "onnx":
            load_models_once()
        values: dict[str, Any] = {
            "listen": f"{LOOPBACK}:0",
            "data_dir": tmp_path / "data",
            "shutdown_grace": "2s",
        } | settings
        values = log_store(Path(values["data_dir"])) | values

        def start_one(**changed: Any) -> RunningServer:
            chosen = Settings.load(config, values | changed)
            server = RunningServer(
                app.start(chosen, clock=clock, lock_order=LockOrder()), clock, chosen
            )
            running.append(server)
            return server

        server = start_one()
        if is_spread:
            folder = Path(values["data_dir"])
            server.beside = start_one(
                data_dir=folder.with_name(f"{folder.name} beside"), listen=f"{LOOPBACK}:0"
            )
        return server

    yield start
    for server in running:
        server.stop()


@pytest.fixture
def server(start_server: Start) -> RunningServer:
    """Start a server over an empty folder."""
    return start_server()


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    """Connect a client to `server`."""
    with Client(server.target) as connected:
        yield connected


@dataclass
class Stubs:
    """The generated stubs, for what a well-behaved client would not send."""

    conversations: ConversationServiceStub
    recall: RecallServiceStub
    channel: grpc.Channel


@pytest.fixture
def stubs(server: RunningServer) -> Iterator[Stubs]:
    """Connect bare stubs to `server`."""
    with grpc.insecure_channel(server.target) as channel:
        yield Stubs(ConversationServiceStub(channel), RecallServiceStub(channel), channel)
