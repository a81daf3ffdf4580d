"""The log of a server: a line for each call, on standard error, as text or as JSON."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from recollect import Client, Message, NotFound

from tests.cli.conftest import run

UNKNOWN = "conv-01HQ0000000000000000000000"


def logged(folder: Path, *flags: str) -> tuple[str, list[str]]:
    """Some calls to a server of its own: the conversation that they made, and the lines that it logged until it had stopped."""
    command = [sys.executable, "-m", "recollect_server", "serve", "--listen", "127.0.0.1:0", "--data-dir", str(folder / "data")]
    with (folder / "log").open("w+") as log:
        with subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, stderr=log, text=True) as process:
            assert process.stdout is not None
            try:
                with Client(process.stdout.readline().split()[3]) as client:
                    made = client.conversations.create("web").id
                    client.conversations.append_turn(made, [Message.user("wimblezark")])
                    client.recall.search("wimblezark")
                    with pytest.raises(NotFound):
                        client.conversations.get(UNKNOWN)
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0
            finally:
                process.kill()
        log.seek(0)
        return made, log.read().splitlines()


def test_every_call_is_one_line_with_its_method_code_time_and_conversation(tmp_path: Path) -> None:
    made, lines = logged(tmp_path, "--log-format", "json")
    calls = [line for line in map(json.loads, lines) if line["event"] == "call"]
    assert [(line["method"], line["code"], line.get("conversation")) for line in calls] == [
        ("ConversationService.Create", "OK", made),
        ("ConversationService.AppendTurn", "OK", made),
        ("RecallService.Search", "OK", None),
        ("ConversationService.Get", "NOT_FOUND", UNKNOWN),
    ]
    assert all(line["ms"] > 0 and line["level"] == "info" for line in calls)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["timestamp"]) for line in calls)
    assert "reason" in calls[-1]


def test_as_text_a_line_says_the_same_in_the_order_that_a_person_reads(tmp_path: Path) -> None:
    made, lines = logged(tmp_path, "--log-format", "text")
    [append] = [line for line in lines if "AppendTurn" in line]
    expected = rf"timestamp=\S+Z level=info event=call method=ConversationService.AppendTurn code=OK ms=[\d.]+ conversation={made}"
    assert re.fullmatch(expected, append)


def test_below_the_level_that_is_asked_for_nothing_is_logged(tmp_path: Path) -> None:
    _, lines = logged(tmp_path, "--log-level", "error")
    assert lines == []


def test_a_command_on_a_data_folder_logs_in_the_same_words(tmp_path: Path) -> None:
    made, _ = logged(tmp_path)
    with (tmp_path / "data/default/conversations" / f"{made}.jsonl").open("ab") as file:
        file.write(b"half")
    said = run("rebuild", "--data-dir", tmp_path / "data", "--log-format", "json")
    assert said.exit_code == 0
    [line] = map(json.loads, said.stderr.splitlines())
    assert (line["event"], line["level"], line["conversation"], line["bytes"]) == ("torn_tail_cut", "warning", made, 4)
    with (tmp_path / "data/default/conversations" / f"{made}.jsonl").open("ab") as file:
        file.write(b"half")
    assert run("rebuild", "--data-dir", tmp_path / "data", "--log-level", "error").stderr == ""
