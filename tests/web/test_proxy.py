"""The page behind a reverse proxy that says who signs in: its path, its people, and who lies."""

import base64
import http.client
import json
import os
import re
import ssl
import subprocess
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme
from recollect import Client, Message
from recollect.v1.access_service_pb2 import WhoAmIResponse
from recollect_server.kernel.domain.time import system_clock
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.cases import each
from tests.credentials.conftest import grant, tokens_of
from tests.programs import PAGE, Forked, free_port, ran
from tests.web.conftest import Answer, Http, choose, running_nginx

GUIDE = Path(__file__).parents[2] / "docs/guides/page.md"
HOST, BASE = "tools.example", "/recollect"
WHO = "/recollect.v1.AccessService/WhoAmI"
JSON, PROTO = "application/json", "application/proto"


@dataclass
class Setup:
    """A server that asks for tokens, and the files of two people."""

    server: app.App
    folder: Path
    ids: dict[str, str]
    conversation: str

    def people(self, *lines: str, name: str = "people.toml") -> Path:
        """Write a configuration; without lines one of the guide."""
        path = self.folder / name
        path.write_text("\n".join(lines) or _block("toml"))
        return path


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    folder = tmp_path_factory.mktemp("proxy")
    values = {"listen": "127.0.0.1:0", "data_dir": folder / "data", "auth": "required"}
    server = app.start(Settings.load(None, values))
    tokens, ids = tokens_of(folder / "data", system_clock), {}
    for name, kind in (("alex", "brain"), ("sam", "reader")):
        token, secret = tokens.create(grant(kind))
        ids[name] = token.id
        file = folder / f"{name}.token"
        file.write_text(f"{secret}\n")
        file.chmod(0o600)
    with Client(server.address, token=(folder / "alex.token").read_text().strip()) as client:
        messages = [Message.user("The roof leaks."), Message.assistant("Noted.")]
        it = client.conversations.create("web", messages=messages).id
    yield Setup(server, folder, ids, it)
    server.stop()


def _block(language: str) -> str:
    """Return the guide's block of a language, with the people's files beside it."""
    match = re.search(rf"(?ms)^    ```{language}\n(.*?)^    ```", GUIDE.read_text())
    assert match, language
    text = textwrap.dedent(match[1])
    return text.replace("/etc/recollect/", "").replace("sam@example.org", "sam")


class ProxiedPage:
    """A running `recollect-web` that a proxy is before."""

    def __init__(self, setup: Setup, people: Path | None, listen: str, url: str) -> None:
        given = ["--people", str(people)] if people else []
        arguments = ["--address", setup.server.address, "--listen", listen, "--url", url, *given]
        read, write = os.pipe()
        state = {"XDG_STATE_HOME": str(setup.folder / "state")}
        self._process = Forked(
            PAGE, arguments, stdout=subprocess.DEVNULL, stderr=write, env=os.environ | state
        )
        os.close(write)
        self.lines = os.fdopen(read, encoding="utf-8")
        self.notice = self.lines.readline()

    def stop(self) -> str:
        """End it, and return the lines that nobody has read."""
        self._process.terminate()
        self._process.wait()
        with self.lines:
            return self.lines.read()


class ByProxy:
    """Requests as a proxy passes them on."""

    def __init__(self, port: int) -> None:
        self.http = Http(port)

    def send(
        self, method: str, path: str, body: bytes = b"", *persons: str, **headers: str | None
    ) -> Answer:
        """Send a request of the page, with a header for each person that is named."""
        sent: dict[str, str | None] = {"host": HOST, "content-type": PROTO, "connection": "close"}
        if method == "POST":
            sent |= {"origin": f"https://{HOST}", "content-length": str(len(body))}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{name}: {value}" for name, value in sent.items() if value is not None]
        lines += [f"X-Recollect-Person: {it}" for it in persons]
        head = "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""])
        return self.http.raw(head.encode("latin-1") + body)

    def open(self, person: str, **headers: str | None) -> Answer:
        body = b'{"key": ""}'
        return self.send("POST", f"{BASE}/session/open", body, person, content_type=JSON, **headers)

    def who(self, person: str, cookie: str | None, base: str = BASE) -> Answer:
        return self.send("POST", f"{base}{WHO}", b"", person, cookie=cookie)


@pytest.fixture(scope="module")
def page(setup: Setup) -> Iterator[tuple[ByProxy, ProxiedPage]]:
    """Start the page for a proxy on this machine's loopback."""
    text = _block("toml").replace('# peers = ["192.0.2.7"]  ', 'peers = ["127.0.0.1"]')
    port = free_port()
    people = setup.people(text, name="tcp.toml")
    started = ProxiedPage(setup, people, f"127.0.0.1:{port}", f"https://{HOST}{BASE}")
    yield ByProxy(port), started
    started.stop()


def test_each_person_has_a_session_and_a_token_of_their_own(
    setup: Setup, page: tuple[ByProxy, ProxiedPage]
) -> None:
    proxy, _ = page
    cookies = {}
    for name in ("alex", "sam"):
        answer = proxy.open(name)
        assert answer.status == 201
        cookies[name], *attributes = answer.headers["set-cookie"].split("; ")
        assert {it.lower() for it in attributes} == {
            "httponly",
            f"path={BASE}",
            "samesite=strict",
            "secure",
        }
        assert proxy.open(name, cookie=cookies[name]).status == 204  # it has one
    for name, cookie in cookies.items():
        answer = proxy.who(name, cookie)
        assert WhoAmIResponse.FromString(answer.body).token_id == setup.ids[name]
    # the session of one is nobody else's, and neither is anything without one
    for name, cookie in (("sam", cookies["alex"]), ("alex", cookies["sam"]), ("alex", "")):
        answer = proxy.who(name, cookie)
        assert (answer.status, answer.headers["recollect-web"]) == (401, "session")
    # a token cannot be brought to another's session
    body = json.dumps({"token": (setup.folder / "alex.token").read_text().strip()}).encode()
    given = {"content_type": JSON, "cookie": cookies["sam"]}
    assert proxy.send("POST", f"{BASE}/session/sign-in", body, "sam", **given).status == 403
    answer = proxy.who("sam", cookies["sam"])
    assert WhoAmIResponse.FromString(answer.body).token_id == setup.ids["sam"]
    # signing out ends one session for good, and no other
    out = f"{BASE}/session/sign-out"
    assert proxy.send("POST", out, b"", "sam", cookie=cookies["alex"]).status == 401
    answer = proxy.send("POST", out, b"", "alex", cookie=cookies["alex"])
    assert (answer.status, json.loads(answer.body)) == (200, {"location": ""})
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert proxy.who("alex", cookies["alex"]).status == 401
    assert proxy.who("sam", cookies["sam"]).status == 200
    # another process of the same address knows the session, of the same person alone
    port, address = free_port(), f"https://{HOST}{BASE}"
    next_one = ProxiedPage(setup, setup.folder / "tcp.toml", f"127.0.0.1:{port}", address)
    after = ByProxy(port)
    statuses = [after.who(name, cookies["sam"]).status for name in ("alex", "sam")]
    out_again = after.who("alex", cookies["alex"]).status
    next_one.stop()
    assert (statuses, out_again) == ([401, 200], 401)
    # a file of a token is read again when it changes
    file = setup.folder / "sam.token"
    secret = file.read_text()
    file.write_text((setup.folder / "alex.token").read_text())
    answer = proxy.who("sam", cookies["sam"])
    assert WhoAmIResponse.FromString(answer.body).token_id == setup.ids["alex"]
    file.unlink()
    assert proxy.who("sam", cookies["sam"]).status == 403
    file.touch(0o600)
    file.write_text(secret)


@each("persons", [(), ("",), ("alex", "alex"), ("alex", "sam"), ("alex, sam",), ("alex sam",), ("Alex",),
     ("alex\t",), ("al\u00e9x",), ("alex\x7f",), ("../alex",), ("alex;",), ('"alex"',), ("kim",), ("a" * 200,)])  # fmt: skip
def test_a_header_that_does_not_name_one_known_person_is_refused(
    page: tuple[ByProxy, ProxiedPage], persons: tuple[str, ...]
) -> None:
    proxy, _ = page
    if persons == ("alex\t",):  # the white space around a value is none of it
        assert proxy.open(*persons).status == 201
        return
    for method, path in (("POST", f"{BASE}/session/open"), ("POST", f"{BASE}{WHO}"), ("GET", f"{BASE}/")):  # fmt: skip
        answer = proxy.send(method, path, b"", *persons)
        assert answer.status in (400, 403)
        assert "set-cookie" not in answer.headers
        assert b"<html" not in answer.body
        assert all(it in b"\r\n" or 32 <= it < 127 for it in answer.body)  # nothing odd is repeated


@each(("path", "status"), [
    (f"{BASE}/", 200), (BASE, 200), (f"{BASE}/c/conv-1?turn=2", 200), (f"{BASE}/assets/page.js", 200),
    ("/", 404), ("/assets/page.js", 404), ("/session/open", 404), (f"{BASE}x/", 404), (f"{BASE}.js", 404),
    (f"/{BASE}/", 404), (f"{BASE.upper()}/", 404), ("/%72ecollect/", 404), ("/recollect%2f", 404),
    (f"/x/..{BASE}/", 404), (f"{BASE}/../assets/page.js", 404), (f"{BASE}{BASE}/assets/page.js", 404),
    (f"{BASE}//assets/page.js", 404), (f"http://{HOST}{BASE}/", 404), ("/openapi.json", 404),
])  # fmt: skip
def test_only_what_lies_below_the_path_is_answered(
    page: tuple[ByProxy, ProxiedPage], path: str, status: int
) -> None:
    proxy, _ = page
    answer = proxy.send("GET", path, b"", "alex")
    assert answer.status == status
    if status == 200 and not path.endswith(".js"):
        links = re.findall(rb'(?:src|href)="([^"]+)"', answer.body)
        assert links
        assert all(it.startswith(f"{BASE}/".encode()) for it in links)
    cookie = proxy.open("alex").headers["set-cookie"].split(";")[0]
    for base in ("", "/recollectx", "/%72ecollect", f"/x/..{BASE}"):
        assert proxy.who("alex", cookie, base).status == 404


def test_what_no_proxy_sent_is_refused_and_logged(
    setup: Setup, page: tuple[ByProxy, ProxiedPage]
) -> None:
    proxy, of_peer = page
    assert of_peer.notice == (
        f"The page: https://{HOST}{BASE}/ for 2 people, by {setup.folder / 'tcp.toml'}\n"
    )
    origins = ({"host": "127.0.0.1"}, {"origin": f"http://{HOST}"}, {"origin": "https://evil.example"})  # fmt: skip
    for changed in origins:
        assert proxy.open("alex", **changed).status in (403, 421)
    # the same header from another address, however well it knows everything else
    port = free_port()
    text = (setup.folder / "tcp.toml").read_text().replace("127.0.0.1", "127.0.0.2")
    people = setup.people(text, name="other.toml")
    other = ProxiedPage(setup, people, f"127.0.0.1:{port}", f"https://{HOST}{BASE}")
    stranger = ByProxy(port)
    bearer = f"Bearer {(setup.folder / 'alex.token').read_text().strip()}"
    forwarded = {"authorization": bearer, "x_forwarded_for": "127.0.0.2"}
    answers = [
        stranger.open("alex"),
        stranger.who("alex", None),
        stranger.send("GET", f"{BASE}/", b"", "alex"),
        stranger.send("GET", f"{BASE}/"),
        stranger.send("GET", f"{BASE}/openapi.json"),
        stranger.send("GET", f"{BASE}/healthz"),
        stranger.send("POST", f"{BASE}{WHO}", b"", **forwarded),
    ]
    [line] = other.stop().splitlines()  # one of a kind
    assert [it.status for it in answers] == [403] * len(answers)
    assert line.startswith("Refused a request from 127.0.0.1: only a proxy")


def test_a_program_behind_a_proxy_brings_a_token(
    setup: Setup, page: tuple[ByProxy, ProxiedPage]
) -> None:
    body = b"{}"
    sent: dict[str, Any] = {"origin": None, "content_type": JSON}
    # the person whom a proxy names is a browser's
    for persons in ((), ("alex",)):
        denied = page[0].send("POST", f"{BASE}{WHO}", body, *persons, **sent)
        assert (denied.status, json.loads(denied.body)["code"]) == (403, "permission_denied")
    port = free_port()
    other = ProxiedPage(setup, None, f"127.0.0.1:{port}", f"https://{HOST}{BASE}")
    try:
        proxy = ByProxy(port)
        refused = proxy.send("POST", f"{BASE}{WHO}", body, **sent)
        assert (refused.status, json.loads(refused.body)["code"]) == (401, "unauthenticated")
        assert "authorization: is missing" in json.loads(refused.body)["message"]
        sent["authorization"] = f"Bearer {(setup.folder / 'alex.token').read_text().strip()}"
        assert proxy.send("POST", f"{BASE}{WHO}", body, **sent).status == 200
    finally:
        other.stop()


@each(("change", "complaint"), [
    ({"header": '"Cookie"'}, "header: is required"),
    ({"header": "7"}, "header: is required"),
    ({"proxy_replaces_header": "false"}, "proxy_replaces_header: must be true"),
    ({"peers": "[]"}, "peers: is required"),
    ({"peers": '["127.0.0.0/8"]'}, "each is one exact address"),
    ({"peers": '["proxy.example"]'}, "each is one exact address"),
    ({"sign_out": '"javascript:alert(1)"'}, "sign_out: is no path"),
    ({"sign_out": '"//evil.example"'}, "sign_out: is no path"),
    ({"people": '{"a b" = "alex.token"}'}, "people: 'a b': is no name"),
    ({"people": '{alex = "gone.token"}'}, "people: alex: "),
    ({"people": '{alex = "open.token"}'}, "others may read it"),
    ({"people": "{}"}, "people: is required"),
    ({"person": "{}"}, "person: is no key"),
])  # fmt: skip
def test_a_wrong_configuration_starts_nothing(
    setup: Setup, change: dict[str, str], complaint: str
) -> None:
    values = {
        "header": '"X-Recollect-Person"',
        "proxy_replaces_header": "true",
        "peers": '["127.0.0.1"]',
        "people": '{alex = "alex.token"}',
    }
    (setup.folder / "open.token").write_text("rcl_x")
    people = setup.people(*(f"{key} = {it}" for key, it in (values | change).items()), name="x")
    url = ["--url", f"https://{HOST}"]
    status, _, errors = ran(PAGE, ["--listen", "127.0.0.1:0", "--people", str(people), *url])
    assert (status, complaint in errors) == (2, True), errors


def test_no_token_of_a_person_crosses_a_network_in_plain_text(setup: Setup) -> None:
    # Refused at the start: a browser with a session of before asks for no new one.
    given = ["--address", "192.0.2.1:50051", "--listen", f"unix:{setup.folder / 'plain.sock'}"]
    given += ["--url", f"https://{HOST}", "--people", str(setup.people(name="plain.toml"))]
    status, _, errors = ran(PAGE, [*given, "--until-input-ends"])
    assert (status, "--people: the tokens would go" in errors) == (2, True), errors


def test_a_path_that_takes_no_socket_is_named(setup: Setup) -> None:
    path = setup.folder / ("x" * 120)
    status, _, errors = ran(PAGE, ["--listen", f"unix:{path}", "--url", f"https://{HOST}"])
    assert (status, "path too long" in errors) == (1, True), errors


@each("arguments", [["--url", "tools.example"], ["--url", "https://Tools.example"], ["--url", "https://x/../y"],
     ["--url", "https://x/a?b"], ["--listen", "unix:/tmp/x.sock"]])  # fmt: skip
def test_a_wrong_address_is_refused(arguments: list[str]) -> None:
    status, _, errors = ran(PAGE, arguments)
    assert status == 2
    assert "--url" in errors


@pytest.fixture
def site(setup: Setup, tmp_path: Path) -> Iterator[str]:
    """Start the page at a Unix socket and nginx before it, with the guide's files. Returns the
    origin.
    """
    port, path = free_port(), setup.folder / "page.sock"
    certificate = trustme.CA().issue_cert("localhost")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "tls.pem")
    (tmp_path / "people.htpasswd").write_text("alex:{PLAIN}one\nsam:{PLAIN}two\nkim:{PLAIN}three\n")
    block = _block("nginx")
    for before, after in {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "server_name tools.example": "server_name localhost",
        "/etc/ssl/tools.example.pem": f"{tmp_path}/tls.pem",
        "/etc/ssl/private/tools.example.key": f"{tmp_path}/tls.pem",
        "auth_basic_user_file ": f"auth_basic_user_file {tmp_path}/",
        "/run/recollect-web/page.sock": str(path),
    }.items():
        assert before in block
        block = block.replace(before, after)
    given = setup, setup.people(), f"unix:{path}", f"https://localhost:{port}{BASE}"
    ProxiedPage(*given).stop()  # leaves its socket, which the next one takes over
    started = ProxiedPage(*given)
    assert path.stat().st_mode & 0o777 == 0o660
    with running_nginx(tmp_path, block, port):
        yield f"https://localhost:{port}"
    started.stop()


def test_two_people_use_the_page_behind_nginx_as_the_guide_says(
    setup: Setup, site: str, browser: Any
) -> None:
    # a browser that names somebody else is not believed, and nobody comes in without a password
    host = site.removeprefix("https://")

    def status(user: str, **headers: str) -> int:
        given = {name.replace("_", "-"): it for name, it in headers.items()}
        if user:
            given["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        context = ssl._create_unverified_context()  # noqa: S323 - of this test
        connection = http.client.HTTPSConnection(host, context=context)
        connection.request("GET", f"{BASE}/", headers=given)
        answer = connection.getresponse()
        connection.close()
        return answer.status

    assert status("", X_Recollect_Person="alex") == 401
    assert (
        status("kim:three", X_Recollect_Person="alex") == 403
    )  # nginx knows kim, the page does not
    assert status("sam:two") == 200

    def window(name: str, password: str) -> Any:
        opened = browser.new_context(
            http_credentials={"username": name, "password": password}, ignore_https_errors=True
        )
        opened.on("request", lambda it: sent.append(it.url))
        return opened

    sent: list[str] = []
    alexs, sams = window("alex", "one"), window("sam", "two")
    alex, sam = alexs.new_page(), sams.new_page()
    for tab in (alex, sam):
        tab.goto(f"{site}{BASE}/c/{setup.conversation}")
        tab.wait_for_selector("text=The roof leaks.")
        tab.wait_for_selector(".live-live", state="attached")
    sam.wait_for_selector("text=Your token may read, not write.")
    # who is signed in stands in the head
    for tab, name, kind in ((alex, "alex", "brain"), (sam, "sam", "reader")):
        assert tab.inner_text(".account") == name
        assert tab.get_attribute(".account", "title") == f"{name}, with a token of kind {kind}"
    alex.fill(".composer textarea", "Who mends it?")
    alex.keyboard.press("Enter")
    sam.wait_for_selector(".message >> text=Who mends it?")  # live, through the proxy
    alex.click("nav a >> text=Search")
    alex.wait_for_selector("input[type=search]")
    assert alex.url == f"{site}{BASE}/search"
    alex.reload()
    alex.click(".brand-name a")
    alex.click(f"#row-{setup.conversation}")
    alex.wait_for_selector("text=The roof leaks.")
    assert alex.url.startswith(f"{site}{BASE}/c/")
    [cookie] = alexs.cookies()
    assert (cookie["path"], cookie["secure"], cookie["httpOnly"]) == (BASE, True, True)
    # signed out is signed out, in another tab too, until somebody signs in
    second = alexs.new_page()
    second.goto(f"{site}{BASE}/")
    second.wait_for_selector(".shell")
    alex.bring_to_front()
    choose(alex, "Sign out")
    for tab in (alex, second):
        tab.wait_for_selector("h1 >> text=You are not signed in")
    assert alexs.cookies() == []
    alex.reload()
    alex.wait_for_selector("h1 >> text=You are not signed in")
    sam.reload()
    sam.wait_for_selector("text=The roof leaks.")
    assert sam.inner_text(".account") == "sam"  # also where the browser had its session
    alex.click(".gate button")
    alex.wait_for_selector(".shell .live-live", state="attached")
    # a browser with the cookie of another person begins a session of its own
    sams.clear_cookies()
    sams.add_cookies(alexs.cookies())
    sam.reload()
    sam.wait_for_selector("text=Your token may read, not write.")
    assert sams.cookies()[0]["value"] != alexs.cookies()[0]["value"]
    assert all(it.startswith((f"{site}{BASE}/", "data:")) for it in sent)
    alexs.close()
    sams.close()


@pytest.fixture
def signed_in(setup: Setup, browser: Any) -> Iterator[tuple[Any, str]]:
    """Open a window of a browser in which a proxy signs alex in, and return the page's address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    text = _block("toml").replace('# peers = ["192.0.2.7"]  ', 'peers = ["127.0.0.1"]')
    started = ProxiedPage(setup, setup.people(text, name="own.toml"), f"127.0.0.1:{port}", url)
    window = browser.new_context(
        service_workers="block", extra_http_headers={"X-Recollect-Person": "alex"}
    )
    yield window, url
    window.close()
    started.stop()


def test_tabs_of_a_browser_that_keeps_no_cookie_do_not_reload_each_other(
    signed_in: tuple[Any, str],
) -> None:
    window, url = signed_in

    def open_without_cookie(route: Any) -> None:
        answer = route.fetch()
        window.clear_cookies()
        headers = {name: it for name, it in answer.headers.items() if name != "set-cookie"}
        route.fulfill(response=answer, headers=headers)

    window.route("**/session/open", open_without_cookie)
    tabs = [window.new_page(), window.new_page()]
    for tab in tabs:
        tab.goto(f"{url}/")
        tab.wait_for_selector("text=This browser keeps no cookie of this page")
        tab.evaluate("window.isFirst = true")
    tabs[1].reload()
    tabs[1].wait_for_selector("text=This browser keeps no cookie of this page")
    assert tabs[0].evaluate("window.isFirst") is True


@each("answer", [{"status": 302, "headers": {"location": "/oauth2/start"}},
     {"status": 403, "content_type": "text/html", "body": "<html>Sign in</html>"}])  # fmt: skip
def test_a_page_whose_proxy_asks_to_sign_in_again_leads_there(
    setup: Setup, signed_in: tuple[Any, str], answer: dict[str, Any]
) -> None:
    window, url = signed_in
    tab = window.new_page()
    tab.goto(f"{url}/c/{setup.conversation}")
    tab.wait_for_selector("text=The roof leaks.")
    tab.fill(".composer textarea", "Who mends it?")
    window.route("**/recollect.v1.*/**", lambda route: route.fulfill(**answer))
    tab.keyboard.press("Enter")
    tab.wait_for_selector("h1 >> text=You are not signed in")
    window.unroute("**/recollect.v1.*/**")
    tab.click(".gate button")
    tab.wait_for_selector("text=The roof leaks.")
    assert tab.input_value(".composer textarea") == "Who mends it?"


def test_a_sign_out_that_is_refused_says_so(setup: Setup, signed_in: tuple[Any, str]) -> None:
    window, url = signed_in
    tab = window.new_page()
    tab.goto(f"{url}/c/{setup.conversation}")
    tab.fill(".composer textarea", "Not sent")
    refused = {"status": 503, "body": "try again later"}
    window.route("**/session/sign-out", lambda route: route.fulfill(**refused))
    choose(tab, "Sign out")
    tab.wait_for_selector("text=You are still signed in: try again later")
    window.unroute("**/session/sign-out")
    choose(tab, "Sign out")
    tab.wait_for_selector("h1 >> text=You are not signed in")
    assert "Not sent" not in tab.evaluate("JSON.stringify(sessionStorage)")
