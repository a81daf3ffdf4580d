"""`recollect-server import`, the command: what it says and refuses, exactly once across kills, and whole sets."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recollect import Client

from tests.cli.conftest import BringIn, Counts, Set, counts_of, messages_of, run, set_line, talk

SHARED_SETS = Path(__file__).parents[3] / "shared" / "recall-sets"


def test_an_import_that_was_killed_is_finished_by_the_next(write_set: Set, server: Any, client: Client, bring_in: BringIn) -> None:
    folder = write_set(*(set_line(f"s{number}", talk(6)) for number in range(400)))
    command = [sys.executable, "-m", "recollect_server", "import", str(folder), "--target", server.target]
    importing = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not any(it.message_count for it in client.conversations.list_page(page_size=20).conversations):
        assert importing.poll() is None
    importing.kill()
    assert importing.communicate()[0] == b"", "it was to be killed before its end"
    partly = sum(it.message_count for it in client.conversations.list())
    counts = bring_in(folder)
    assert 0 < counts.messages_new < 2400
    assert counts.messages_new + counts.messages_known == 2400
    assert counts.messages_known >= partly
    conversations = list(client.conversations.list())
    assert sorted(it.message_count for it in conversations) == [6] * 400
    assert messages_of(client, conversations[0].id) == [message["content"] for message in talk(6)]


def test_two_imports_at_once_add_everything_once(write_set: Set, server: Any, client: Client) -> None:
    folder = write_set(*(set_line(f"s{number}", talk(4)) for number in range(60)))
    command = [sys.executable, "-m", "recollect_server", "import", str(folder), "--target", server.target]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    counts = [counts_of(it.communicate(timeout=60)[0]) for it in both]
    assert [it.message_count for it in client.conversations.list()] == [4] * 60
    assert sum(it.messages_new for it in counts) == 240
    assert all(it.messages_new + it.messages_known == 240 and it.skipped == 0 for it in counts)


def test_a_bar_is_shown_on_a_terminal_and_nothing_but_the_summary_elsewhere(write_set: Set, server: Any) -> None:
    folder = write_set(*(set_line(f"s{number}", talk(2)) for number in range(30)))
    command = [sys.executable, "-m", "recollect_server", "import", str(folder), "--target", server.target]
    piped = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (counts_of(piped.stdout).messages_new, piped.stderr) == (60, "")
    ours, theirs = pty.openpty()
    importing = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "xterm", "COLUMNS": "200"})
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # what the end of a terminal is
        while part := os.read(ours, 65536):
            shown += part
    os.close(ours)
    assert importing.wait() == 0
    assert b"Importing" in shown
    assert b"30/30" in shown
    assert b"30 already there" in shown


def test_without_a_server_one_sentence_says_so(write_set: Set) -> None:
    result = run("import", write_set(set_line("s1", talk(2))), "--target", "127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "no Recollect server answers on 127.0.0.1:1" in result.stderr


def test_the_target_is_by_default_what_the_settings_say(write_set: Set, server: Any, tmp_path: Path) -> None:
    folder = write_set(set_line("s1", talk(2)))
    by_environment = run("import", folder, env={"RECOLLECT_LISTEN": server.target})
    assert counts_of(by_environment.stdout) == Counts(1, 0, 2, 0, 0)
    config = tmp_path / "settings.yaml"
    config.write_text(f"listen: {server.target}\n")
    by_file = run("import", folder, "--config", config)
    assert counts_of(by_file.stdout) == Counts(0, 1, 0, 2, 0)


def test_a_server_that_stops_ends_the_import_with_a_sentence(
    start_server: Callable[..., Any], write_set: Set, tmp_path: Path
) -> None:
    folder = write_set(*(set_line(f"s{number}", talk(6)) for number in range(400)))
    server = start_server(data_dir=tmp_path / "one", shutdown_grace="100ms")
    command = [sys.executable, "-m", "recollect_server", "import", str(folder), "--target", server.target]
    importing = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with Client(server.target) as client:
        while not client.conversations.list_page(page_size=1).conversations:
            assert importing.poll() is None
    server.stop()
    output, error = importing.communicate(timeout=60)
    assert (importing.returncode, output) == (1, "")
    assert "the same command again goes on from there" in error
    assert "Traceback" not in error


def test_a_path_with_nothing_to_import_is_refused(tmp_path: Path, server: Any) -> None:
    result = run("import", tmp_path, "--target", server.target)
    assert result.exit_code == 1
    assert "holds nothing to import" in result.stderr
    assert run("import", tmp_path / "none", "--target", server.target).exit_code == 2


@pytest.mark.parametrize("flags", [("--channel", "Web Page"), ("--channel", "")])
def test_a_channel_that_is_none_is_refused_before_anything_is_sent(
    write_set: Set, server: Any, client: Client, flags: tuple[str, ...]
) -> None:
    result = run("import", write_set(set_line("s1", talk(2))), "--target", server.target, *flags)
    assert result.exit_code == 2
    assert "--channel: is not a channel" in result.stderr
    assert not list(client.conversations.list())


@pytest.mark.skipif(not SHARED_SETS.is_dir(), reason=f"the recall sets are not there: {SHARED_SETS}")
def test_the_shared_recall_sets_arrive_whole_and_once(bring_in: BringIn, client: Client) -> None:
    path = SHARED_SETS / "locomo"
    with (path / "conversations.jsonl").open("rb") as file:
        sizes = sorted(len(json.loads(line)["messages"]) for line in file)
    assert bring_in(path, "--abbreviations") == Counts(len(sizes), 0, sum(sizes), 0, 0)
    assert bring_in(path, "--abbreviations") == Counts(0, len(sizes), 0, sum(sizes), 0)
    conversations = list(client.conversations.list())
    assert sorted(it.message_count for it in conversations) == sizes
    assert all(it.abbreviation for it in conversations)
