"""The log of a server: lines for its calls, on standard error, as text or as JSON."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import structlog
from recollect import Client, InvalidArgument, Message, NotFound
from recollect_server.kernel import format as formats
from structlog.testing import capture_logs

from tests.conftest import reset_logs
from tests.server_cli.conftest import run

UNKNOWN = "conv-01HQ0000000000000000000000"


def logged(
    folder: Path, *flags: str, delete: bool = False, wrong: str = ""
) -> tuple[str, list[str]]:
    """Make some calls to a server of its own; return the id of their conversation, and what was
    logged until it stopped.
    """
    command = [
        sys.executable,
        "-m",
        "recollect_server",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        str(folder / "data"),
    ]
    with (folder / "log").open("w+") as log:
        with subprocess.Popen(
            [*command, *flags], stdout=subprocess.PIPE, stderr=log, text=True
        ) as process:
            assert process.stdout is not None
            try:
                with Client(process.stdout.readline().split()[3]) as client:
                    made = client.conversations.create("web").id
                    client.conversations.append_turn(made, [Message.user("wimblezark")])
                    client.recall.search("wimblezark")
                    with pytest.raises(NotFound):
                        client.conversations.get(UNKNOWN)
                    if wrong:
                        with pytest.raises(InvalidArgument):
                            client.conversations.get(wrong)
                    if delete:
                        client.conversations.delete(made)
                process.send_signal(signal.SIGTERM)
                assert process.wait() == 0
            finally:
                process.kill()
        log.seek(0)
        return made, log.read().splitlines()


def test_what_a_caller_sends_steers_no_terminal_that_shows_the_log(tmp_path: Path) -> None:
    _, lines = logged(tmp_path, wrong="conv-\r\x1b[2J\x9b2Jé")
    [line] = [it for it in lines if "INVALID_ARGUMENT" in it]
    assert r"conversation=conv-\r\x1b[2J\x9b2Jé " in f"{line} "
    assert line.isprintable()


def test_a_call_has_a_line_at_info_if_it_failed_or_administers_the_server_else_at_debug(
    tmp_path: Path,
) -> None:
    _, lines = logged(
        tmp_path, "--log-format", "json", "--log-level", "debug", "--slow-call", "1h", delete=True
    )
    calls = [line for line in map(json.loads, lines) if line["event"] == "call"]
    assert [(line["level"], line["method"].partition(".")[2]) for line in calls] == [
        ("debug", "Create"),
        ("debug", "AppendTurn"),
        ("debug", "Search"),
        ("info", "Get"),
        ("info", "Delete"),
    ]


def test_a_slow_call_is_one_line_at_info_with_its_method_code_time_and_conversation(
    tmp_path: Path,
) -> None:
    made, lines = logged(tmp_path, "--log-format", "json", "--slow-call", "0s", delete=True)
    calls = [line for line in map(json.loads, lines) if line["event"] == "call"]
    assert [(line["method"], line["code"], line.get("conversation")) for line in calls] == [
        ("ConversationService.Create", "OK", made),
        ("ConversationService.AppendTurn", "OK", made),
        ("RecallService.Search", "OK", None),
        ("ConversationService.Get", "NOT_FOUND", UNKNOWN),
        ("ConversationService.Delete", "OK", made),
    ]
    assert all(line["ms"] > 0 and line["level"] == "info" for line in calls)
    assert all(
        re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["timestamp"]) for line in calls
    )
    assert [line["method"] for line in calls if "reason" in line] == ["ConversationService.Get"]


def test_as_text_a_line_says_the_same_in_the_order_that_a_person_reads(tmp_path: Path) -> None:
    made, lines = logged(tmp_path, "--log-format", "text", "--slow-call", "0s")
    [append] = [line for line in lines if "AppendTurn" in line]
    expected = r"timestamp=\S+Z level=info event=call method=ConversationService.AppendTurn code=OK ms=[\d.]+"
    expected += rf" conversation={made} request=\w+"
    assert re.fullmatch(expected, append)


def test_below_the_level_that_is_asked_for_nothing_is_logged(tmp_path: Path) -> None:
    _, lines = logged(tmp_path, "--log-level", "error")
    assert lines == []


def test_a_command_on_a_data_folder_logs_in_the_same_words(tmp_path: Path) -> None:
    made, _ = logged(tmp_path)
    with (tmp_path / "data/default/conversations" / f"{made}.jsonl").open("ab") as file:
        file.write(b"half")
    result = run("rebuild", "--data-dir", tmp_path / "data", "--log-format", "json")
    assert result.exit_code == 0
    [line] = map(json.loads, result.stderr.splitlines())
    assert (line["event"], line["level"], line["conversation"], line["bytes"]) == (
        "torn_tail_cut",
        "warning",
        made,
        4,
    )
    with (tmp_path / "data/default/conversations" / f"{made}.jsonl").open("ab") as file:
        file.write(b"half")
    assert run("rebuild", "--data-dir", tmp_path / "data", "--log-level", "error").stderr == ""


def test_a_logger_that_a_server_in_this_process_kept_is_seen_by_the_tests_after_it() -> None:
    structlog.configure(cache_logger_on_first_use=True)  # as `serve` does
    formats.log.info("kept")
    reset_logs()
    with capture_logs() as logged:
        formats.log.info("seen")
    assert [it["event"] for it in logged] == ["seen"]
