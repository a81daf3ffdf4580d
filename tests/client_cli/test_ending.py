"""Ends of the command: exit codes, one sentence, Ctrl-C, a closed pipe."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recollect import Client, Conversation, Message
from recollect.cli.exits import MEANINGS

from tests.cases import each
from tests.client_cli.conftest import Inside, Ran, Recollect, Run, environment
from tests.programs import CLIENT, Forked

UNKNOWN = "conv-01HQ0000000000000000000000"
NOBODY = "127.0.0.1:1"
_BACKWARDS = ("--since", "2026-02-02", "--until", "2026-01-01")


def test_the_version_is_printed_without_the_commands() -> None:
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "recollect.cli.main", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith("recollect, version ")
    assert [
        it for it in ("click", "grpc", "rich", "importlib.metadata") if f" {it}\n" in ran.stderr
    ] == []


@pytest.mark.parametrize("command", ["show", "export", "rename"])
def test_an_unknown_conversation_is_told_by_its_own_code(inside: Inside, command: str) -> None:
    ran = inside(command, UNKNOWN, *(["A title"] if command == "rename" else []))
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("Error: ")
    assert UNKNOWN in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("command", ["list", "export", "search", "--help"])
def test_an_output_on_a_full_disk_ends_the_command_with_a_sentence(
    recollect: Any, talked: Callable[..., Conversation], command: str
) -> None:
    full = Path("/dev/full")
    if not full.is_char_device():
        pytest.skip("there is no /dev/full here")
    talked(1, text="zebra")
    arguments = (command, *(["zebra"] if command == "search" else []))
    with (
        full.open("wb") as output,
        Forked(
            CLIENT,
            arguments,
            stdout=output.fileno(),
            stderr=subprocess.PIPE,
            env=environment(recollect.address),
        ) as process,
    ):
        assert process.stderr is not None
        stderr = process.stderr.read()
        code = process.wait()
    assert (code, stderr) == (1, "Error: cannot write standard output: No space left on device\n")


def test_a_channel_without_a_conversation_is_not_found(recollect: Any) -> None:
    ran = recollect("show", "--channel", "discord")
    assert (ran.code, ran.out, ran.err) == (
        3,
        "",
        "Error: there is no conversation on discord yet\n",
    )


@each(
    ("arguments", "named"),
    [
        (("show", "../../etc/passwd"), "CONVERSATION "),
        (("rename", UNKNOWN, "x" * 81), "TITLE "),
        (("list", "--channel", "Web!"), "--channel "),
        (("search", " "), "WORDS "),
        (("search", "\udcff"), "WORDS "),
        (("list", "--limit", "many"), "--limit"),
        (("list", "--limit", str(10**20)), "--limit"),
        (("show", UNKNOWN, "--before", str(2**31)), "--before"),
        (("list", "--timeout", "1e300"), "--timeout"),
        (("list", "--timeout", "nan"), "timeout"),
        (("list", "--since", "99999w"), "--since"),
        (("list", "--until", "9999-12-31"), "--until"),
        (("list", "--address", "127.0.0.1:99999"), "--address"),
        (("list", "--colour"), "--colour"),
        (("--colour", "list"), "--colour"),
        (("--space", "alex", "list"), "as in: recollect list --space …"),
        (("show",), "--channel"),
        (("frobnicate",), "frobnicate"),
        (("lst",), "do you mean list?"),
        (("anchors", "forget"), "there are delete, list, set"),
        (("show", "nonsense"), "nor the end of one: `recollect list` shows them"),
        (("tail", "nonsense"), "nor the end of one: `recollect list` shows them"),
        (("topics", UNKNOWN, "A B"), "as disk-full"),
        (("delete-many", UNKNOWN, "nonsense"), "Error: CONVERSATION "),
        (("list", "--name", "x" * 300), "Error: --name "),
        (("list", *_BACKWARDS), "Error: --until is not after --since"),
        (("recent", *_BACKWARDS), "Error: --until is not after --since"),
        (("search", "x", *_BACKWARDS), "Error: --until is not after --since"),
        (("switch", "--from", "nonsense", UNKNOWN), "Error: --from "),
        (("switch", "nonsense"), "nor the end of one: `recollect list` shows them"),
        (("delete", "nonsense", "--yes"), "Error: CONVERSATION "),
        (("export", "nonsense"), "Error: CONVERSATION "),
        (("metadata", UNKNOWN, "a=" + "x" * 70_000), "Error: KEY=VALUE "),
        (("owners", "link", "alex", "W!", "a@b.example"), "Error: CHANNEL "),
        (("threads", "delete", "x" * 600, "--yes"), "Error: THREAD "),
        (("admin", "tokens", "revoke", "nonsense"), "Error: ID "),
        (("admin", "tokens", "create", "--kind", "brain", "--for-space", "A B"), "--for-space "),
    ],
)
def test_wrong_usage_names_what_is_wrong(
    inside: Inside, arguments: tuple[str, ...], named: str
) -> None:
    ran = inside(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert named in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("command", [["list"], ["tail"], ["stats"], ["import", "-"]])
def test_without_a_server_one_sentence_says_how_to_start_one(command: list[str]) -> None:
    ran = Recollect(NOBODY)(*command, stdin='{"type":"meta","id":"x","channel":"web"}\n')
    assert (ran.code, ran.out) == (4, "")
    assert ran.err == (
        f"Error: no Recollect server answers on {NOBODY}: start one with `recollect-server serve`, or name it with --address\n"
    )


def test_the_address_may_be_a_flag(recollect: Any, talked: Callable[..., Conversation]) -> None:
    it = talked()
    ran = Recollect(NOBODY)("list", "--address", recollect.address)
    assert [line["id"] for line in ran.lines] == [it.id]


def test_a_server_that_does_not_answer_is_not_waited_for_longer_than_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        ran = Recollect(address)("list", "--timeout", "0.5")
    assert (ran.code, ran.out, ran.err) == (
        4,
        "",
        f"Error: {address} did not answer within 0.5 s\n",
    )


def test_a_reader_that_goes_away_ends_it_quietly(recollect: Any, client: Client) -> None:
    it = client.conversations.create("web")
    client.conversations.append_turn(it.id, [Message.user("x" * 1000) for _ in range(1000)])
    for arguments in (("show", it.id, "--all"), ("export",)):
        with recollect.started(*arguments) as process:
            assert process.stdout.readline().startswith(b"{")
            process.stdout.close()
            assert (process.wait(), process.stderr.read()) == (141, b"")


def test_ctrl_c_ends_a_tail_quietly(recollect: Any, talked: Callable[..., Conversation]) -> None:
    talked()
    with recollect.started("tail") as process:
        assert json.loads(process.stdout.readline())["kind"] == "conversationList"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr.read().strip() == b""


def test_ctrl_c_while_it_starts_ends_it_quietly(recollect: Any, tmp_path: Path) -> None:
    # The module raises what Ctrl-C does, for a signal cannot be aimed at the import of one.
    (tmp_path / "rich.py").write_text("raise KeyboardInterrupt\n")
    env = environment(recollect.address, PYTHONPATH=str(tmp_path))
    ended = subprocess.run(
        [sys.executable, "-m", CLIENT, "list"], env=env, capture_output=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


@pytest.mark.parametrize(("closed", "shown"), [("stdout", False), ("stderr", True)])
def test_a_standard_stream_that_is_closed_is_as_one_that_nobody_reads(
    recollect: Any, talked: Callable[..., Conversation], closed: str, shown: bool
) -> None:
    talked()
    number = {"stdout": 1, "stderr": 2}[closed]
    shell = f'exec "$0" -m {CLIENT} list {number}>&-'
    ended = subprocess.run(
        ["/bin/sh", "-c", shell, sys.executable],
        env=environment(recollect.address),
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, bool(ended.stdout), ended.stderr) == (0, shown, b"")


def test_the_help_and_the_page_name_every_exit_code(inside: Inside) -> None:
    text = inside("--help").out
    page = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()
    for code, meaning in MEANINGS.items():
        assert f"{code}  {meaning}" in text
        assert f"{code}  {meaning}" in page


@pytest.mark.parametrize("command", [(), ("admin",), ("anchors",), ("admin", "retention")])
def test_commands_are_listed_by_whole_sentences(inside: Inside, command: tuple[str, ...]) -> None:
    listed = inside(*command, "--help").out.partition("-h, --help")[2]
    assert listed
    assert "..." not in listed


def test_the_help_lists_commands_by_what_a_person_wants(inside: Inside) -> None:
    text = inside("--help").out
    headings = ["Find", "Read", "Write", "Keep", "Answer", "Administer"]
    first = ["search", "show", "chat", "archive", "communications", "stats"]
    places = [
        re.search(rf"^{heading}.*:\n  {command} +\w", text, re.MULTILINE)
        for heading, command in zip(headings, first, strict=True)
    ]
    starts = [it.start() for it in places if it]
    assert (len(starts), starts) == (len(headings), sorted(starts))


@pytest.mark.parametrize("command", [(), ("admin",), ("admin", "tokens")])
def test_a_group_without_a_command_shows_its_help(inside: Inside, command: tuple[str, ...]) -> None:
    ran = inside(*command)
    assert (ran.code, ran.out, ran.err) == (2, "", inside(*command, "--help").out)


def test_a_shell_completes_commands_and_conversations(
    recollect: Any, talked: Callable[..., Conversation]
) -> None:
    first, second = talked(title="Disk"), talked()

    def completed(words: str, number: int) -> list[str]:
        ran = recollect(
            _RECOLLECT_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(number)
        )
        assert ran.code == 0
        return [line.partition(",")[2] for line in ran.out.splitlines()]

    assert completed("recollect se", 1) == ["search"]
    assert sorted(completed("recollect show conv-", 2)) == sorted([first.id, second.id])
    assert completed(f"recollect show {first.id}", 2) == [first.id]
    assert "--since" in completed("recollect list --s", 2)
    assert "_recollect_completion" in recollect(_RECOLLECT_COMPLETE="bash_source").out
    nobody = Recollect(NOBODY)(
        _RECOLLECT_COMPLETE="bash_complete", COMP_WORDS="recollect show conv-", COMP_CWORD="2"
    )
    assert (nobody.code, nobody.out.strip(), nobody.err) == (0, "", "")


def test_a_profile_names_a_server_with_its_token_and_no_other_gets_that(
    recollect: Any, talked: Callable[..., Conversation], client: Client, tmp_path: Path
) -> None:
    talked(title="Disk")
    token = client.admin.create_token("panel", spaces=["default"])
    folder = tmp_path / "recollect"
    folder.mkdir()
    secret = folder / "work.token"
    secret.write_text(f"{token.secret}\n")
    secret.chmod(0o640)
    file = folder / "profiles.toml"
    work = f'address = "{recollect.address}"\n'
    file.write_text(f'[work]\n{work}token_file = "work.token"\n[open]\n{work}[else]\ntoken = 7\n')

    other = {"RECOLLECT_TOKEN": "of-another"}
    certificate = {"RECOLLECT_CLIENT_CERT": "gone", "RECOLLECT_CLIENT_KEY": "gone"}
    own = {"XDG_CONFIG_HOME": str(tmp_path), **other}

    def called(*arguments: str, **env: str) -> Ran:
        ran: Ran = Recollect(NOBODY)(*arguments, **own, **env)
        assert token.secret not in ran.out + ran.err
        return ran

    for ran in (
        called("--profile", "work", "list", **certificate),
        called("list", RECOLLECT_PROFILE="work"),
        called("--profile", "work", "list", RECOLLECT_PROFILE="else"),
    ):
        assert [it["title"] for it in ran.lines] == ["Disk"], ran.err
    alone = called("--profile", "open", "list")  # it has no token, and no other's is sent
    assert (alone.code, alone.err) == (5, recollect("list").err)
    assert alone.err != recollect("list", **other).err
    assert called("list").code == 4
    for name, sentence in [
        ("other", f"--profile: {file} has no profile other (it has: else, open, work)"),
        ("else", f"{file}: token of else is no text, or none of address, token"),
    ]:
        wrong = called("list", RECOLLECT_PROFILE=name)
        assert (wrong.code, sentence in wrong.err) == (2, True), wrong.err
    # the server is the profile's: its token goes nowhere else, nor while a shell completes
    elsewhere = ("--address", NOBODY)
    wrong = called("--profile", "work", "list", *elsewhere)
    assert (wrong.code, "--address: the profile work names the server" in wrong.err) == (2, True)
    typed = {"COMP_WORDS": f"recollect --profile work show --address {NOBODY} ", "COMP_CWORD": "6"}
    completed = called(**typed, _RECOLLECT_COMPLETE="bash_complete")
    assert "conv-" in completed.out


@pytest.mark.parametrize("is_beside", [False, True])
def test_a_profiles_token_that_others_may_read_is_refused(is_beside: bool, tmp_path: Path) -> None:
    folder = tmp_path / "recollect"
    folder.mkdir()
    file, secret = folder / "profiles.toml", folder / "work.token"
    token = 'token_file = "work.token"' if is_beside else 'token = "quixotriple"'
    file.write_text(f'[work]\naddress = "{NOBODY}"\n{token}\n[open]\naddress = "{NOBODY}"\n')
    secret.write_text("quixotriple")
    exposed = secret if is_beside else file
    for path in (file, secret):
        path.chmod(0o644 if path is exposed else 0o600)

    def listed(profile: str) -> Ran:
        ran: Ran = Recollect(NOBODY)("--profile", profile, "list", XDG_CONFIG_HOME=str(tmp_path))
        assert "quixotriple" not in ran.out + ran.err
        return ran

    refused = listed("work")
    sentence = f"{exposed}: others may read the token in it: chmod o= {exposed}"
    assert (refused.code, sentence in refused.err) == (2, True), refused.err
    assert listed("open").code == 4  # nobody is there: it names no token
    exposed.chmod(0o640)
    assert listed("work").code == 4


def test_a_profile_names_files_from_its_own_folder_or_from_home(tmp_path: Path) -> None:
    folder = tmp_path / "recollect"
    folder.mkdir()
    (folder / "profiles.toml").write_text(
        f'[home]\naddress = "{NOBODY}"\nca = "~/ca.pem"\n[own]\naddress = "{NOBODY}"\nca = "ca.pem"\n'
    )
    for profile, place in (("home", tmp_path), ("own", folder)):
        ran = Recollect(NOBODY)(
            "--profile", profile, "list", XDG_CONFIG_HOME=str(tmp_path), HOME=str(tmp_path)
        )
        assert f"cannot be read: '{place / 'ca.pem'}'" in ran.err


@pytest.mark.parametrize(
    ("ca", "code", "sentence"),
    [("", 4, ""), ("~nobody-of-that-name/ca.pem", 2, "profiles.toml: ca of work: ")],
)
def test_a_profiles_file_that_is_empty_is_none_and_one_without_a_home_is_refused(
    tmp_path: Path, ca: str, code: int, sentence: str
) -> None:
    folder = tmp_path / "recollect"
    folder.mkdir()
    (folder / "profiles.toml").write_text(f'[work]\naddress = "{NOBODY}"\nca = "{ca}"\n')
    ran = Recollect(NOBODY)("--profile", "work", "list", XDG_CONFIG_HOME=str(tmp_path))
    assert (ran.code, sentence in ran.err) == (code, True), ran.err


@pytest.mark.parametrize("command", ["import", "export"])
@pytest.mark.parametrize(
    "address", ["localhost", "http://127.0.0.1:1", "unix:", "a b:1", "127.0.0.1:"]
)
def test_an_address_that_is_none_is_refused_by_name(
    run_at: Run, command: str, address: str
) -> None:
    for ran in (run_at(NOBODY, command, "-", "--address", address), run_at(address, command, "-")):
        assert (ran.code, ran.out) == (2, "")
        assert "--address" in ran.err
        assert "127.0.0.1:50051" in ran.err  # how one looks


@pytest.mark.parametrize("arguments", [["export", "-d", ""], ["export", "-o", ""], ["import", ""]])
def test_an_empty_path_is_refused_and_is_not_the_current_folder(
    run_at: Run, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run_at(NOBODY, *arguments)
    assert ran.code == 2
    assert "must not be empty" in ran.err
    assert list(tmp_path.iterdir()) == []
