"""A real server, the bridge as a process, and a real browser: one of each for a module."""

import os
import re
import resource
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from recollect import Client, Message
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.programs import PAGE, Forked, refuses
from tests.waiting import until

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
AXE = Path(__file__).parents[2] / "web/node_modules/axe-core/axe.min.js"
COLOURS = "color-contrast"
"""The one rule of axe whose outcome depends on the theme."""
ROW = "[data-list] .row-link"
"""Rows of the list of conversations."""
TOO_WIDE = """() => document.documentElement.scrollWidth <= innerWidth ? [] :
  [...document.querySelectorAll('*')].filter((it) => it.getBoundingClientRect().right > innerWidth)
    .map((it) => it.outerHTML.slice(0, 80))"""
"""The beginnings of the elements that are wider than the screen."""
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def running_nginx(folder: Path, servers: str, port: int) -> Iterator[None]:
    """Run nginx with some blocks `server`, one of which listens on the port."""
    if not Path(NGINX).exists():
        pytest.skip("nginx is not installed: apt-get install nginx")
    temporary = " ".join(
        f"{it}_temp_path {folder}/{it};"
        for it in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log stderr;\n"
        f"events {{}}\nhttp {{ access_log off; {temporary}\n{servers}}}\n"
    )
    nginx = subprocess.Popen([NGINX, "-c", config, "-e", "stderr"])
    try:
        until(lambda: not refuses(port))
        yield
    finally:
        nginx.kill()  # it missed a SIGTERM once
        nginx.wait()


class Bridge:
    """A running `recollect-web`."""

    def __init__(self, target: str, listen: str = "127.0.0.1:0", **environment: str) -> None:
        arguments = ["--address", target, "--listen", listen]
        read, write = os.pipe()
        self._process = Forked(
            PAGE,
            arguments,
            stdout=subprocess.DEVNULL,
            stderr=write,
            env={**os.environ, **environment},
        )
        os.close(write)
        self._lines = os.fdopen(read, encoding="utf-8")
        self.port = 0
        self.keys: list[str] = []
        self.next_key()

    def next_key(self) -> str:
        """Wait for the next address that is printed, and return its key."""
        line = self._lines.readline()
        match = re.search(r"http://127\.0\.0\.1:(\d+)/#key=(\S+)", line)
        assert match, line
        self.port = int(match[1])
        self.keys.append(match[2])
        return match[2]

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def most_memory(self) -> int:
        """Return the most bytes of memory that the process has had at a time."""
        status = Path(f"/proc/{self._process.pid}/status").read_text("ascii")
        match = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert match
        return 1024 * int(match[1])

    def limit_files(self, size: int) -> None:
        """Let the process write no file of more bytes, as where a disk is full."""
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (size, size))

    def stop(self, *, kill: bool = False) -> None:
        self._process.kill() if kill else self._process.terminate()
        self._process.wait()
        self._lines.close()


class Http:
    """Requests byte by byte, as no browser would send them."""

    def __init__(self, port: int) -> None:
        self._port = port

    def raw(self, data: bytes, seconds: float = 10.0) -> "Answer":
        """Send bytes and return the answer to them."""
        with socket.create_connection(("127.0.0.1", self._port), timeout=seconds) as connection:
            connection.sendall(data)
            received = b""
            while not _is_whole(received):
                part = connection.recv(65536)
                if not part:
                    break
                received += part
        return Answer.of(received)

    def send(self, method: str, path: str, body: bytes = b"", **headers: str | None) -> "Answer":
        """Send a request with the headers of a page of this bridge; None leaves one out."""
        host = f"127.0.0.1:{self._port}"
        sent: dict[str, str | None] = {"host": host, "connection": "close"}
        if method == "POST":
            sent |= {"origin": f"http://{host}", "content-length": str(len(body))}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{name}: {value}" for name, value in sent.items() if value is not None]
        head = "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""])
        return self.raw(head.encode("utf-8") + body)


@dataclass(frozen=True)
class Answer:
    """An answer over HTTP."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @classmethod
    def of(cls, received: bytes) -> "Answer":
        head, _, body = received.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        if not first:
            return cls(0)
        pairs = (line.split(": ", 1) for line in lines)
        headers = {name.lower(): value for name, value in pairs}
        return cls(int(first.split(" ")[1]), headers, body)


@contextmanager
def blank_site() -> Iterator[str]:
    """Serve empty pages of another origin, which is yielded."""

    class Blank(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Blank) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_port}"
        site.shutdown()


def _is_whole(received: bytes) -> bool:
    head, end, body = received.partition(b"\r\n\r\n")
    match = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    return bool(end and match and len(body) >= int(match[1]))


@dataclass
class Stage:
    """A server, its bridge, and a client to fill it."""

    server: app.App
    bridge: Bridge
    client: Client
    settings: Settings

    def conversation(self, title: str, *texts: str, channel: str = "web", **fields: Any) -> str:
        """Begin a conversation with a title, and turns of one message and an answer."""
        it = self.client.conversations.create(channel, **fields)
        for text in texts:
            messages = [Message.user(text), Message.assistant(f"About {text}: noted.")]
            self.client.conversations.append_turn(it.id, messages)
        self.client.conversations.rename(it.id, title)
        return it.id


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Start a server and its page over an empty folder, for the tests of one module."""
    folder = tmp_path_factory.mktemp("web") / "data"
    settings = Settings.load(None, {"listen": "127.0.0.1:0", "data_dir": folder})
    server = app.start(settings)
    bridge = Bridge(server.address)
    with Client(server.address) as client:
        yield Stage(server, bridge, client, settings)
    bridge.stop()
    server.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start a browser, for the tests of one module."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is missing: install chromium, or name another in CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=str(CHROMIUM), args=_FLAGS)
        new_context = started.new_context

        def patient(**options: Any) -> Any:
            context = new_context(**options)
            # the limit is that of the test, but this names what lacks
            context.set_default_timeout(100_000)
            return context

        started.new_context = patient
        yield started
        started.close()


class Browsing:
    """A window of the browser that is signed in: its tabs share cookies, storage and worker."""

    def __init__(self, browser: Any, bridge: Bridge, **options: Any) -> None:
        self.context = browser.new_context(
            viewport={"width": 1280, "height": 800}, service_workers="block", **options
        )
        self.bridge = bridge
        self.problems: list[str] = []
        self.foreign: list[str] = []
        first = self.context.new_page()
        first.goto(f"{bridge.origin}/#key={bridge.keys[-1]}")
        first.wait_for_selector(".shell, .gate form")
        bridge.next_key()
        # A page of the origin stays, so that tabs share its process: a new one for each tab takes
        # half a second of processor time.
        first.goto(f"{bridge.origin}/assets/page.css")

    def tab(self, path: str = "/?on=", wait: str = ".shell") -> Any:
        """Open a tab at a path. Without one no conversation is shown; "/" begins at the newest."""
        page = self.context.new_page()
        page.on("console", lambda it: self._note(it.type, it.text))
        page.on("pageerror", lambda it: self.problems.append(str(it)))
        page.on("request", lambda it: self._watch(it.url))
        page.goto(self.bridge.origin + path)
        page.wait_for_selector(wait)
        return page

    def _note(self, kind: str, text: str) -> None:
        # A refused call is logged by the browser too; the page shows it.
        if kind in ("error", "warning") and not text.startswith("Failed to load resource"):
            self.problems.append(text)

    def _watch(self, url: str) -> None:
        if not url.startswith((self.bridge.origin + "/", "data:")):
            self.foreign.append(url)


@pytest.fixture(scope="module")
def window(browser: Any, stage: Stage) -> Iterator[Browsing]:
    """Open a signed-in window, for the tests of one module. At the end nothing violated the content
    policy, no script failed, and no request left the origin.
    """
    opened = Browsing(browser, stage.bridge)
    yield opened
    opened.context.close()
    assert opened.problems == []
    assert opened.foreign == []


def wait(page: Any, expression: str, argument: Any = None) -> None:
    """Wait until an expression is true. Playwright's own way evaluates texts in the page, which
    the content policy forbids. There is no limit but that of the test.
    """
    while not page.evaluate(expression, argument):
        page.wait_for_timeout(20)


def choose(page: Any, item: str) -> None:
    """Choose an item of the menu of who is signed in."""
    page.click(".account")
    page.click(f"[role=menu] >> text={item}")


def visit(page: Any, path: str) -> None:
    """Show another address as a link does, which takes a tenth of loading the page anew."""
    page.evaluate(
        "(path) => { history.pushState(null, '', path); dispatchEvent(new Event('popstate')); }",
        path,
    )


_unchecked: list[str] = []
"""Addresses of pages that axe was to look at, had it been there."""


@pytest.fixture(autouse=True)
def without_axe() -> Iterator[None]:
    """Skip, once its other steps passed, a test that axe was to take part in. In the midst of one
    it would leave a page that several tests share as it is then.
    """
    _unchecked.clear()
    yield
    if _unchecked:
        pytest.skip(f"all passed but what axe would say: {AXE} is missing: npm ci in web/")


def axe(page: Any, *rules: str) -> list[str]:
    """Return the accessibility violations of what a page shows, of all rules or of some. Without
    axe there are none: `without_axe` says so once the test is over.
    """
    if not AXE.exists():
        _unchecked.append(page.url)
        return []
    if not page.evaluate("'axe' in window"):
        # From the protocol, not as an element: the content policy allows no other scripts.
        page.evaluate(AXE.read_text())
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = list(rules)
    outcome = page.evaluate("(options) => axe.run(document, options)", options)
    return [
        f"{it['id']}: {node['html'][:160]} {node['failureSummary'][:300]}"
        for it in outcome["violations"]
        for node in it["nodes"]
    ]
