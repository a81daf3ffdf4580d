"""The calls that the documentation makes with grpcurl, made with `buf curl`: grpcurl itself is in
no package of Python.
"""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recollect import Client, Message

from tests.conftest import RunningServer

ROOT = Path(__file__).parents[2]
PAGES = ["docs/quickstart.md", "examples/grpcurl/README.md"]
BUF = str(Path(sys.executable).parent / "buf")
ID = re.compile(r"conv-[0-7][0-9A-HJKMNP-TV-Z]{25}")


def commands(page: str) -> list[list[str]]:
    """Return the grpcurl commands of a page, split into words."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    lines: list[list[str]] = []
    for block in blocks:
        if "grpcurl -plaintext" in block:
            lines += [
                shlex.split(f"grpcurl -plaintext{part}")
                for part in block.split("grpcurl -plaintext")[1:]
            ]
    return lines


def as_buf(words: list[str], target: str) -> list[str]:
    """Return the same call as a command of `buf curl`."""
    data = words[words.index("-d") + 1] if "-d" in words else ""
    method = words[-1]
    if method == "list":
        return [
            BUF,
            "curl",
            "--http2-prior-knowledge",
            "--protocol",
            "grpc",
            "--list-methods",
            f"http://{target}",
        ]
    return [
        BUF,
        "curl",
        "--http2-prior-knowledge",
        "--protocol",
        "grpc",
        "-d",
        data,
        f"http://{target}/{method}",
    ]


@pytest.mark.parametrize("page", PAGES)
def test_the_calls_of_a_page_do_what_it_says(
    server: RunningServer, client: Client, page: str
) -> None:
    answers: dict[str, Any] = {}
    conversation = ""
    for words in commands(page):
        method = words[-1].rpartition("/")[2]
        if method == "StreamUpdates":
            continue
        command = [ID.sub(conversation, word) for word in as_buf(words, server.target)]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (result.returncode, result.stderr) == (0, ""), command
        answers[method] = result.stdout if method == "list" else json.loads(result.stdout)
        conversation = answers.get("Create", {}).get("conversation", {}).get("id", "")
    assert [it.id for it in client.conversations.list()] == [conversation]
    assert answers["AppendTurn"]["turnNumber"] == 1
    assert answers["Search"]["hits"][0]["conversationId"] == conversation
    if "list" in answers:
        assert "recollect.v1.ConversationService/StreamUpdates" in answers["list"]
        assert len(answers["Load"]["messages"]) == 2


def test_a_stream_goes_on_behind_the_cursor_that_a_shell_saw(
    server: RunningServer, client: Client
) -> None:
    streams = [
        words for page in PAGES for words in commands(page) if words[-1].endswith("/StreamUpdates")
    ]
    assert len(streams) >= 2
    conversation = client.conversations.create("web")
    first = client.conversations.append_turn(conversation.id, [Message.user("One")])
    second = client.conversations.append_turn(conversation.id, [Message.user("Two")])
    begin_anew = go_on = 0
    for words in streams:
        command = [
            re.sub(r"[0-9a-f]{12}-\d+", first.cursor, word) for word in as_buf(words, server.target)
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                updates = [it["update"] for it in two_objects(process.stdout)]
            finally:
                process.kill()
        if "cursor" in command[-2]:
            go_on += 1
            assert updates[0]["conversationUpdated"]["messages"][0]["content"] == "Two"
            assert (updates[0]["cursor"], "heartbeat" in updates[1]) == (second.cursor, True)
        else:
            begin_anew += 1
            assert ("conversationList" in updates[0], "conversationLoaded" in updates[1]) == (
                True,
                True,
            )
    assert begin_anew
    assert go_on


def two_objects(lines: Any) -> list[Any]:
    """Return the first two JSON objects of an output."""
    objects: list[Any] = []
    text = ""
    for line in lines:
        text += line
        try:
            objects.append(json.loads(text))
        except ValueError:
            continue
        text = ""
        if len(objects) == 2:
            break
    return objects
