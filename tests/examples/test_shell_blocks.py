"""The blocks of shell on the pages of the documentation, run line by line as a reader types them.

Lines that begin with `pip` are passed over: the tests have what they install. `ELSEWHERE` says of
the blocks that are not run here why.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from recollect import Client, EmailOrigin, Message, Party, Unauthenticated
from recollect_server.kernel.domain.time import system_clock

from tests.buckets import KEY, SECRET
from tests.client_cli.test_import_agents import CLAUDE_CODE, lines_of
from tests.client_cli.test_import_people import CHAT
from tests.client_cli.test_import_products import simple, zipped
from tests.conftest import RunningServer, Start
from tests.credentials.conftest import grant, tokens_of
from tests.postgres import Postgres
from tests.programs import CLIENT, SERVER, Forked, ran
from tests.server_cli.test_bucket import store
from tests.waiting import until

__all__ = ["store"]

DOCS = Path(__file__).parents[2] / "docs"
TEXTS = {
    "guides/administration": ("admin verify", "admin jobs", "token create --kind admin"),
    "guides/credentials": ("token rotate", "--limit", "token use", "audit --since"),
    "guides/deleting": ("--party hanan", "delete-many", "retention preview"),
    "guides/import-export": ("jq -c", "recollect export --folder", "chatgpt-export.zip --dry-run"),
    "guides/leaked-token": (
        *("token revoke", "token list", "token use jbb5fkk7dn4l\n", "communications list"),
        *("jq -c", "recollect recent", "token-use.json"),
    ),
    "guides/postgresql": ("recollect-server migrate", "token create"),
    "operations/monitoring": ("token create --kind monitor",),
    "operations": (
        *("recollect-server rebuild", "backups prune", "backups new-key", "serve --data-dir new"),
        *("--in-bucket", "weekly=5 monthly=12"),
    ),
}
"""Texts by which the tests name the blocks that they run."""
BLOCKS = {
    page: re.findall(
        r"^```(?:sh|console)\n(.*?)^```", (DOCS / f"{page}.md").read_text(), re.M | re.S
    )
    for page in (str(it.relative_to(DOCS).with_suffix("")) for it in DOCS.rglob("*.md"))
}
PROGRAMS = {"recollect": CLIENT, "recollect-server": SERVER}
ELSEWHERE = {
    "$ grpcurl ": "test_grpcurl.py",
    "$ curl ": "test_grpcurl.py",
    "$ recollect export | recollect import -": "tests/client_cli/test_moving.py, in part",
    "make serve ": "the gate of the repository",
    "make serve-postgres": "tests/database/test_serving.py",
    "createdb ": "it needs a server of one's own; tests/database has one",
    "openssl req": "tests/tls",
    "RECOLLECT_CA=": "tests/tls",
    "recollect-web ": "tests/web, with addresses of its own",
    "npm run build": "the gate of the repository",
    "examples/events_out.py": "tests/examples/test_events_out.py, with servers of its own",
    "npm install ./clients": "tests/typescript, which packs both and installs them",
    "pip install './server'": "each page's program is run in an environment that has both",
    "ollama pull": "it fetches a model of gigabytes; tests/naming has the calls",
    "systemctl ": "it needs systemd; tests/deploy looks at the units",
    "systemd-run ": "it needs systemd; tests/deploy looks at the units",
    "kubectl ": "it needs a cluster; tests/deploy renders the chart",
    "docker ": "it needs Docker; tests/deploy looks at the files",
}
"""Texts of the blocks that are not run here, and what runs them or why nothing does."""
BY_THEIR_TEST = ("guides/languages",)
"""Pages whose blocks a test of their own reads from them."""
INCOMPLETE = 6  # as the reference of the command line says
needs_jq = pytest.mark.skipif(
    shutil.which("jq") is None, reason="there is no jq here (apt-get install jq)"
)
BACKUP = "recollect-20261122t030000z"
"""Name of a backup on the pages; the tests take the newest one in its place."""


@dataclass
class Shell:
    """Runs blocks in the folder of the test, whose `.recollect` the server has."""

    env: dict[str, str]
    instead: dict[str, str] = field(default_factory=dict)
    """Replacements for texts of the pages, which name folders and machines of others."""
    codes: dict[str, int] = field(default_factory=dict)
    """Exit codes other than 0, by the beginnings of lines."""
    before: dict[str, Callable[[], Any]] = field(default_factory=dict)
    """Actions before lines, by their beginnings."""
    tokens: list[str] = field(default_factory=list)
    """Ids of the tokens of a page, in whose places those come that are made."""
    other: str = ""
    """Address of the server on the machine `other`."""

    def run(self, page: str, having: str) -> dict[str, str]:
        """Run the block of a page that has a text. Return what each of its commands printed."""
        assert having in TEXTS[page]
        [block] = [it for it in BLOCKS[page] if having in it]
        return {line: self._run(line) for line in _lines(block)}

    def _run(self, line: str) -> str:
        acts = [act for start, act in self.before.items() if line.startswith(start)]
        expected = next((it for start, it in self.codes.items() if line.startswith(start)), 0)
        if BACKUP in line:
            folders = Path(self.instead["/var/backups/recollect"]).iterdir()
            line = line.replace(BACKUP, max(it.name for it in folders))
        for text, other in self.instead.items():
            line = line.replace(text, other)
        for act in acts:
            act()
        code, output = self._outcome(line)
        assert code == expected, (line, output)
        for token in re.findall("rcl_([0-9a-z]{12})_", output):
            self.instead[self.tokens.pop(0) if self.tokens else token] = token
        return output

    def _outcome(self, line: str) -> tuple[int, str]:
        """Return the exit code of a line, and what it printed."""
        words = shlex.split(line, comments=True)
        if words[0] == "pip":
            return 0, ""
        if words[0] == "export":
            self.env |= dict(it.split("=", 1) for it in words[1:])
            return 0, ""
        if words[0] not in PROGRAMS:
            return _in_bash(line, "", self.env)
        output, env = "", self.env
        for piped in " ".join(map(shlex.quote, words)).split(" '|' "):
            program, *arguments = map(os.path.expanduser, shlex.split(piped))
            if program == "ssh":
                _, program, *arguments = arguments
                env = env | {"RECOLLECT_ADDRESS": self.other}
            if arguments[0] == "serve":
                return 0, _served(arguments, env)
            if program in PROGRAMS:
                code, output, errors = ran(PROGRAMS[program], arguments, stdin=output, env=env)
                output += errors
            else:
                code, output = _in_bash(piped, output, env)
            if code:
                break
        return code, output


def _in_bash(line: str, stdin: str, env: dict[str, str]) -> tuple[int, str]:
    command = ["bash", "-c", line]
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, env=env
    )
    return done.returncode, done.stdout + done.stderr


def _lines(block: str) -> Iterator[str]:
    """Yield the commands of a block: what stands behind a prompt, where it has prompts."""
    lines = block.replace("\\\n", " ").splitlines()
    has_prompts = any(it.startswith("$ ") for it in lines)
    for line in lines:
        if line.startswith("$ ") or (line and not has_prompts):
            yield line.removeprefix("$ ")


def _served(arguments: list[str], env: Mapping[str, str]) -> str:
    """Serve until the server says where it listens, and return what it says."""
    env = {**env, "RECOLLECT_LISTEN": "127.0.0.1:0"}
    with Forked(SERVER, arguments, env=env) as process:
        assert process.stdout is not None
        line: str = process.stdout.readline()
        process.terminate()
        process.stdout.read()
    assert process.returncode == 0
    return line


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the folder in which a reader types, and be there."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def server(home: Path, start_server: Start) -> RunningServer:
    """Start a server over `.recollect`."""
    return start_server(data_dir=home / ".recollect", embedder="off")


@pytest.fixture
def shell(server: RunningServer, tmp_path: Path) -> Shell:
    address = {"RECOLLECT_ADDRESS": server.target, "RECOLLECT_LISTEN": server.target}
    (tmp_path / "etc").mkdir()
    instead = {
        "/var/backups/recollect": str(tmp_path / "backups"),
        "/etc/recollect": str(tmp_path / "etc"),
    }
    return Shell(dict(os.environ) | address | {"RECOLLECT_EMBEDDER": "off"}, instead)


@pytest.fixture
def conversation(client: Client) -> str:
    """Begin a conversation with a turn."""
    messages = [Message.user("Why was the server so slow?"), Message.assistant("A zebra.")]
    return client.conversations.create("web", messages=messages).id


def test_every_block_is_run_or_has_its_reason() -> None:
    reasons = set()
    for page in BLOCKS.keys() - {*BY_THEIR_TEST}:
        for block in BLOCKS[page]:
            if not any(name in block for name in TEXTS.get(page, ())):
                matches = {it for it in ELSEWHERE if it in block}
                assert matches, (page, block)
                reasons |= matches
    assert reasons == ELSEWHERE.keys()


def test_the_blocks_of_administration_run(shell: Shell, conversation: str) -> None:
    page = "guides/administration"
    [result] = shell.run(page, "admin verify").values()
    assert json.loads(result)["problemCount"] == 0
    printed = shell.run(page, "admin jobs")
    assert ["idle_timeout" in it for it in printed.values()] == [False, True, False, False, False]
    assert "rcl_" in [*printed.values()][-1]
    assert "rcl_" in str(shell.run(page, "token create --kind admin"))


@pytest.mark.parametrize("text", TEXTS["guides/postgresql"])
def test_a_block_of_postgresql_runs(
    text: str, shell: Shell, conversation: str, server: RunningServer, postgres: Postgres
) -> None:
    url = postgres.new_database()
    shell.instead["postgresql://recollect@db.example/recollect"] = url
    shell.before["recollect-server migrate"] = server.stop
    printed = shell.run("guides/postgresql", text)
    if text == "token create":
        assert "rcl_" in str(printed)
        return
    rows = postgres.execute("SELECT log FROM recollect.lines", url)
    assert (conversation,) in rows
    assert transcript_in("copy", conversation) == transcript_in(".recollect", conversation)


def transcript_in(data_dir: str, conversation: str) -> bytes:
    return Path(data_dir, "default/conversations", f"{conversation}.jsonl").read_bytes()


def test_the_token_of_prometheus_is_made(shell: Shell) -> None:
    assert "rcl_" in str(shell.run("operations/monitoring", "token create --kind monitor"))


@needs_jq
def test_the_blocks_of_credentials_run(shell: Shell, conversation: str) -> None:
    page = "guides/credentials"
    shell.tokens = re.findall("rcl_([0-9a-z]{12})_", "".join(BLOCKS[page]))
    printed = list(shell.run(page, "token rotate").values())
    assert [len(it.splitlines()) for it in printed] == [2, 2, 2, 3, 1]
    shell.run(page, "--limit")
    assert "0 calls let in" in str(shell.run(page, "token use"))
    assert "token" in str(shell.run(page, "audit --since"))


@needs_jq
def test_the_blocks_about_a_leaked_token_show_what_was_done_with_it(
    shell: Shell, server: RunningServer, conversation: str, home: Path
) -> None:
    page = "guides/leaked-token"
    server.clock.move(system_clock() - server.clock())  # which the commands read
    tokens = tokens_of(server.data_dir, server.clock)
    leaked, text = tokens.create(grant("brain"))
    shell.instead["jbb5fkk7dn4l"] = leaked.id
    shell.env["RECOLLECT_TOKEN"] = tokens.create(grant("admin", "*"))[1]
    with Client(server.target, token=text) as thief:
        thief.conversations.load(conversation)
        thief.conversations.delete(thief.conversations.create("web").id)
        shell.run(page, "token revoke")
        until(lambda: _is_refused(thief, conversation))
    with Client(server.target, token=shell.env["RECOLLECT_TOKEN"]) as own:
        list(own.admin.list_token_uses(leaked.id))  # which writes the counts down
    [listed] = shell.run(page, "token list").values()
    assert f"id={leaked.id} kind=brain spaces=default state=revoked" in listed
    [use] = shell.run(page, "token use jbb5fkk7dn4l\n").values()
    assert "method=ConversationService.Load space=default peer=ipv4:" in use
    assert re.search(r"\d+ calls let in and 1 refused", use)
    assert conversation in str(shell.run(page, "communications list"))
    [changed] = shell.run(page, "jq -c").values()
    records = [json.loads(it) for it in changed.splitlines()]
    assert [it["method"].split(".")[1] for it in records] == ["Delete", "Load"]
    shell.run(page, "recollect recent")
    shell.run(page, "token-use.json")
    [refused] = [it for it in json.loads((home / "token-use.json").read_text()) if it["refused"]]
    assert refused["method"] == "ConversationService.Load"


def _is_refused(client: Client, conversation: str) -> bool:
    """Load a conversation; return whether the client's token was refused as a revoked one."""
    try:
        client.conversations.load(conversation)
    except Unauthenticated as error:
        return "was revoked" in str(error)
    else:
        return False


def test_the_blocks_of_deleting_run(shell: Shell, client: Client, home: Path) -> None:
    page = "guides/deleting"
    client.channels.add_owner_identity("email", "alex@example.org")
    client.channels.link_identities("Alex", [("email", "alex@example.org")])
    alex = Party(contact="alex@example.org")
    of = client.conversations.create("email", party=alex, messages=[Message.user("A zebra")]).id
    for number, person in enumerate(("hanan", "alex")):
        sender, origin = f"{person}@example.com", EmailOrigin(message_id=f"<{number}@example.org>")
        client.channels.receive("email", f"m{number}", "Is it free?", sender=sender, origin=origin)
    shell.instead |= {
        "hanan@example.org": "hanan@example.com",
        "--party Alex": "--party alex@example.com",
    }
    would_go, receipt = shell.run(page, "--party hanan").values()
    assert ('"dryRun":true' in would_go, '"dryRun":false' in receipt) == (True, True)
    printed = list(shell.run(page, "delete-many").values())
    assert [of in it for it in printed] == [False, True, False, True, True, False, False, False]
    assert of in (home / "alex.jsonl").read_text()
    assert [[*client.conversations.list()], [*client.external.list_communications()]] == [[], []]
    shell.run(page, "retention preview")


@needs_jq
def test_the_blocks_of_import_and_export_run(
    shell: Shell, conversation: str, client: Client, start_server: Start, tmp_path: Path, home: Path
) -> None:
    page = "guides/import-export"
    [printed] = shell.run(page, "jq -c").values()
    assert [json.loads(it)["type"] for it in printed.splitlines()] == ["meta", "turn", "turn"]
    started = start_server(data_dir=tmp_path / "other")
    with Client(started.target) as other:
        shell.other = started.target
        shell.run(page, "recollect export --folder")
        assert [it.id for it in other.conversations.list()] == [conversation]
    assert [it.id for it in client.conversations.list()] == [conversation]
    zipped(home / "chatgpt-export.zip", **{"conversations.json": [simple("c-1")]})
    zipped(home / "newer-export.zip", **{"conversations.json": [simple("c-1", 2), simple("c-2")]})
    zipped(home / "WhatsApp.zip", **{"_chat.txt": CHAT})
    session = home / ".claude/projects/shop/s-1.jsonl"
    session.parent.mkdir(parents=True)
    session.write_text(lines_of(*CLAUDE_CODE))
    history = home / "shop/.aider.chat.history.md"
    history.parent.mkdir()
    history.write_text("# aider chat started at 2024-05-01 10:00:00\n\n#### Hi  \n\nHello.\n")
    shell.codes["recollect import WhatsApp.zip"] = INCOMPLETE  # a file is not in the export
    shell.codes["recollect import ~/.claude"] = INCOMPLETE  # reminders of the product are hidden
    shell.run(page, "chatgpt-export.zip --dry-run")
    channels = ["aider", "chatgpt", "chatgpt", *2 * ["claude-code"], "web", "whatsapp-export"]
    assert sorted(it.channel for it in client.conversations.list()) == channels


@pytest.mark.parametrize("text", TEXTS["operations"][:4])
def test_a_block_of_operations_runs(
    text: str, shell: Shell, conversation: str, server: RunningServer
) -> None:
    if text != "backups new-key":  # which makes its own: a second has one name
        shell.run("operations", "weekly=5 monthly=12")
    shell.before["recollect-server rebuild"] = server.stop
    for line, output in shell.run("operations", text).items():
        assert "serve" not in line.split() or "keeps 1 conversation " in output


def test_the_block_of_operations_about_a_bucket_runs(
    shell: Shell, conversation: str, store: str, tmp_path: Path
) -> None:
    (tmp_path / "etc/s3.secret").write_text(SECRET)
    shell.instead["https://s3.eu-central-1.amazonaws.com/my-bucket"] = f"{store}/backups"
    shell.instead["AWS_ACCESS_KEY_ID=…"] = f"AWS_ACCESS_KEY_ID={KEY}"
    shell.before["recollect-server backups fetch"] = lambda: shutil.rmtree(tmp_path / "backups")
    shell.run("operations", "--in-bucket")
    assert [it.name[:10] for it in (tmp_path / "backups").iterdir()] == [BACKUP[:10]]
