"""`make serve` starts the page beside the server, and ends it with the server; what it serves."""

import gzip
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import PAGE, Forked, free_port, ran, refuses
from tests.waiting import until
from tests.web.conftest import Browsing, Http, Stage

SCRIPT = Path(__file__).parents[2] / "scripts/serve.py"
VIEWS = Path(__file__).parents[2] / "web/src/views"
STATIC = Path(__file__).parents[2] / "packages/page/src/recollect/web/static"


def test_the_page_stands_beside_the_server_and_ends_with_it(tmp_path: Path) -> None:
    page_port = free_port()
    # the server is not surprised by what is for the page
    environment = os.environ | {
        "RECOLLECT_WEB_LISTEN": f"127.0.0.1:{page_port}",
        "RECOLLECT_WEB_URL": "http://page.example/memory",
    }
    listen = f"127.0.0.1:{free_port()}"
    command: list[str | Path] = [
        sys.executable,
        SCRIPT,
        "--listen",
        listen,
        "--data-dir",
        tmp_path / "data",
    ]
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        until(lambda: "http://page.example/memory/#key=" in log.read_text())
        until(lambda: f"Recollect listens on {listen}" in log.read_text())
        page = Http(page_port)
        assert page.send("GET", "/memory/", host="page.example").status == 200
        assert page.send("GET", "/memory/").status == 421
    finally:
        os.kill(process.pid, signal.SIGKILL)  # no signal reaches the page: it sees the pipe end
        process.wait()
    until(lambda: refuses(page_port))


@pytest.mark.parametrize(
    ("listen", "refusal"),
    [
        ("0.0.0.0:0", "can be reached from other machines"),
        ("192.0.2.1:80", "can be reached from other machines"),
        ("127.0.0.1", "is no address such as"),
        ("127.0.0.1:99999", "is no address such as"),
        ("page.example:80", "is no address such as"),
    ],
)
def test_the_page_is_served_to_this_machine_alone(listen: str, refusal: str) -> None:
    status, _, errors = ran(PAGE, ["--listen", listen])
    assert status == 2
    assert refusal in " ".join(errors.split())


def test_only_views_are_answered_with_the_page(stage: Stage) -> None:
    http = Http(stage.bridge.port)
    views = [
        re.findall(r'^  path: "(.+)",$', it.read_text(), re.M) for it in VIEWS.glob("*/index.ts")
    ]
    assert len(views) > 5
    below = ("/", "/c/conv-01HQ0000000000000000000000", "/third-parties/ext-1")
    for path in (*below, *(it for [it] in views)):
        answer = http.send("GET", path)
        assert (answer.status, b"<html" in answer.body) == (200, True), path
    for path in (
        "/nothing",
        "/api",
        "/c/a/b",
        "/cc",
        "/favicon.ico",
        "/assets/nothing",
        "/session/open",
    ):
        answer = http.send("GET", path)
        assert (answer.status, answer.body) == (404, b"there is no such page\n"), path
        assert "content-security-policy" in answer.headers
        # the page says so to people
        shown = http.send("GET", path, accept="text/html,*/*;q=0.8")
        assert (shown.status, b"<html" in shown.body) == (404, True), path


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, _, errors = ran(PAGE, ["--listen", address])
    assert status == 1
    assert f"cannot listen on {address}" in errors
    assert "--listen or RECOLLECT_WEB_LISTEN" in errors


def test_the_page_is_served_on_when_nobody_reads_its_addresses_any_more() -> None:
    with Forked(PAGE, ["--listen", "127.0.0.1:0"], stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            address = re.search(r":(\d+)/#key=(\S+)", process.stderr.readline())
            assert address
            process.stderr.close()
            http = Http(int(address[1]))
            key = json.dumps({"key": address[2]}).encode()
            opened = http.send("POST", "/session/open", key, content_type="application/json")
            assert opened.status == 204  # and the address for another browser went nowhere
            assert process.poll() is None
        finally:
            process.terminate()


def test_the_page_can_be_installed_and_keeps_no_data_of_its_own(window: Browsing) -> None:
    page = window.tab("/?on=")
    devtools = window.context.new_cdp_session(page)
    manifest = devtools.send("Page.getAppManifest")
    assert manifest["errors"] == []
    assert manifest["url"] == f"{window.bridge.origin}/manifest.webmanifest"
    values = json.loads(manifest["data"])
    assert (values["name"], values["display"]) == ("Recollect", "standalone")
    http = Http(window.bridge.port)
    for icon in values["icons"]:
        answer = http.send("GET", f"/{icon['src']}")
        assert (answer.status, answer.headers["content-type"]) == (200, icon["type"])
    answer = devtools.send("Page.getInstallabilityErrors")
    errors = [it["errorId"] for it in answer["installabilityErrors"]]
    assert set(errors) <= {"in-incognito"}  # as every window of a test is
    page.close()
    # nothing stands between the page and its server that could answer with old conversations
    scripts = [it.read_text() for it in (STATIC / "assets").glob("*.js")]
    assert not [it for it in scripts if "serviceWorker" in it]


def test_the_bundle_stays_small() -> None:
    # what the page loads before anybody opens a view: its files, and those that they import
    files = {"page.js", "page.css", "worker.js"}
    while True:
        sources = [(STATIC / "assets" / it).read_text() for it in files if it.endswith(".js")]
        imports = {it for text in sources for it in _IMPORT.findall(text)}
        if imports <= files:
            break
        files |= imports
    assert len(files) > 3
    assert (STATIC / "assets/mathematics.js").stat().st_size > 200_000  # which a formula loads
    size = sum(len(gzip.compress((STATIC / "assets" / it).read_bytes(), 9)) for it in files)
    assert size < 95_000


_IMPORT = re.compile(r'(?:from|import) ?"\./([^"]+)"')
