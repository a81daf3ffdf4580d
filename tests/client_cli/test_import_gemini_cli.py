"""`recollect import` of files that Gemini CLI wrote (`products/README.md`), and of others."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from recollect import Client, Message, Role, Usage

from tests.client_cli.conftest import BringIn, Counts, Run
from tests.client_cli.test_import_agents import lines_of
from tests.client_cli.test_import_products import only, written

PRODUCTS = Path(__file__).parent / "products"
NEW, OLD = PRODUCTS / "gemini-cli-0.61.0", PRODUCTS / "gemini-cli-0.9.0"
BEGINNING = {"sessionId": "s-1", "projectHash": "p", "startTime": "2025-09-01T10:00:00.000Z"}


def message(own: str, content: Any, **fields: Any) -> dict[str, Any]:
    """Return a line of a session, the model's where its name begins with g."""
    kind = "gemini" if own.startswith("g") else "user"
    parts = [{"text": content}] if isinstance(content, str) and kind == "user" else content
    time = "2025-09-01T10:00:01.000Z"
    return {"id": own, "timestamp": time, "type": kind, "content": parts} | fields


def keep(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"$set": {"messages": list(messages)}}


def session(folder: Path, *lines: dict[str, Any]) -> Path:
    return written(folder / "session-1.jsonl", lines_of(BEGINNING, *lines))


def by_id(client: Client) -> dict[str, list[Message]]:
    """Return the messages of each conversation by its id in the product."""
    return {
        it.metadata["importId"]: list(client.conversations.load(it.id).messages)
        for it in client.conversations.list()
    }


def texts(messages: list[Message]) -> list[str]:
    return [it.content for it in messages if not it.tool_calls]


def test_a_session_that_went_on_comes_with_calls_thinking_tokens_and_its_subagent(
    run: Run, client: Client
) -> None:
    ran = run("import", NEW / "chats")
    assert (ran.code, ran.lines[0]["conversationsNew"]) == (6, 3), ran.err
    came = by_id(client)
    [main] = (own for own in came if own.startswith("36bdb505"))
    context, question, answer, call, result = came[main][:5]
    assert (context.content[:17], context.metadata["boilerplate"]) == ("<session_context>", True)
    assert question.content == "How many trees do we plant? See @plan.md"
    assert question.timestamp == datetime(2025, 9, 1, 10, 0, 1, 949000, tzinfo=UTC)
    assert (answer.thinking_text, answer.usage) == (
        "Reading the plan\nI open the file first.",
        Usage(input=100, output=12),
    )
    assert answer.metadata["model"] == "gemini-2.5-flash"
    assert call.tool_calls[0].arguments == '{"file_path": "plan.md"}'
    assert call.usage is None
    assert (result.tool_call_id, result.content) == (
        call.tool_calls[0].id,
        "We plant forty birch trees.\n",
    )
    assert texts(came[main][6:])[0::2] == ["What names the rows?", "Nothing names rows."]
    assert came[main][7].usage == Usage(input=150, output=6)
    assert "what the product hides: --- Content from referenced files ---" in ran.err
    assert "36bdb505.jsonl: it has only what the tool wrote in the user's name" in ran.err
    [subagent] = client.conversations.list(query="Where are rows named?")
    assert subagent.metadata["subagentOf"] == main
    assert texts(came[subagent.metadata["importId"]])[:2] == ["Where are rows named?", "I look."]
    assert run("import", NEW / "chats").lines[0]["messagesNew"] == 0


def test_messages_that_were_taken_back_are_named_and_a_compressed_chat_comes_once(
    run: Run, client: Client
) -> None:
    [path] = (NEW / "chats").glob("session-2025-09-02*")
    ran = run("import", path)
    assert (ran.code, ran.lines[0]["otherBranches"]) == (6, 2)
    assert "2 times: another version of a question or an answer: Name it oak instead." in ran.err
    [conversation] = client.conversations.list()
    messages = only(client)
    assert conversation.title == "Names of trees"
    assert texts(messages) == [
        "Name the first tree.",
        "Ash.",
        "And the second?",
        "Beech.",
        "<state_snapshot>Ash is the first tree.</state_snapshot>",
        "Got it.",
        "And the third?",
        "Cedar.",
    ]
    assert [it.content for it in messages if it.metadata.get("boilerplate")] == [
        messages[4].content
    ]


def test_a_checkpoint_is_named_by_its_tag_and_grows_and_prompts_alone_stay_out(
    run: Run, bring_in: BringIn, client: Client, tmp_path: Path
) -> None:
    [path] = NEW.glob("checkpoint-*")
    assert bring_in(path) == Counts(1, 0, 6, 0, 0)  # and a note: it has no time
    [conversation] = client.conversations.list()
    assert conversation.title == "ash & co"
    context, question, thought, call, result, answer = only(client)
    assert (context.metadata["boilerplate"], question.content) == (True, "How tall is the ash?")
    assert (thought.thinking_text, call.tool_calls[0].name) == ("I look.", "look")
    assert (result.tool_call_id, result.content) == (call.tool_calls[0].id, "9 m")
    assert answer.content == "It is 9 m tall."
    value = json.loads(path.read_text())
    value["history"] += [{"role": "user", "parts": [{"text": "And the oak?"}]}]
    saved = written(tmp_path / path.name, value)
    assert bring_in(saved) == Counts(0, 1, 1, 6, 0)
    unframed = [*value["history"], value["history"][-1]]
    assert bring_in(written(saved, unframed)) == Counts(0, 1, 1, 7, 0)
    ran = run("import", NEW / "logs.json")
    assert (ran.code, ran.lines[0]["conversationsNew"]) == (6, 0)
    assert "it has prompts without answers: Gemini CLI keeps both in the folder `chats`" in ran.err


def test_a_session_of_an_early_version_comes_and_stays_out_where_a_newer_one_went_on_with_it(
    run: Run, bring_in: BringIn, client: Client, tmp_path: Path
) -> None:
    [path] = OLD.rglob("*.json")
    ran = run("import", path)
    assert (ran.code, ran.lines[0]["hidden"]) == (6, 1)
    assert "what the product hides: Request cancelled.\n" in ran.err
    question, answer, call, result = only(client)
    assert (question.content, answer.content) == ("Which tree grows fastest?", "The poplar.")
    assert (answer.usage, call.tool_calls[0].id) == (Usage(input=20, output=3), "look-1")
    assert (result.tool_call_id, result.content) == ("look-1", "12 m")
    shutil.copy(path, tmp_path)
    value = json.loads(path.read_text())
    messages = value.pop("messages")
    newer = lines_of(value, *messages, message("u9", "And the oak?"))
    written(tmp_path / f"{path.name}l", newer)
    ran = run("import", tmp_path)
    assert ran.lines[0]["messagesNew"] == 1
    assert f"a newer version went on with it in {path.name}l" in ran.err
    assert run("import", tmp_path).lines[0]["messagesNew"] == 0


def test_calls_that_come_later_are_added_to_an_answer_that_was_imported(
    bring_in: BringIn, client: Client, tmp_path: Path
) -> None:
    call: dict[str, Any] = {"id": "c", "name": "ls", "args": {}, "status": "error"}
    call |= {"result": [{"functionResponse": {"id": "c", "response": {"error": "no folder"}}}]}
    question, answer = message("u1", "Look around"), message("g1", "I look.")
    assert bring_in(session(tmp_path, question, answer)) == Counts(1, 0, 2, 0, 0)
    lines = [question, answer, answer | {"toolCalls": [call]}]
    lines.append(message("u2", [{"functionResponse": {"id": "c", "response": {"error": "no"}}}]))
    assert bring_in(session(tmp_path, *lines)) == Counts(0, 1, 2, 2, 0)
    call_part = [{"functionCall": {"name": "ls", "args": {}}}]
    lines.append(keep(*lines[:1], message("g2", call_part, toolCalls=[call | {"id": "d"}])))
    lines.append(BEGINNING | {"startTime": "2025-09-01T11:00:00.000Z"})  # it goes on
    assert bring_in(session(tmp_path, *lines)) == Counts(0, 1, 2, 4, 0)
    result = only(client)[3]
    assert (result.content, result.metadata["isError"]) == ("no folder", True)


def test_copies_of_messages_under_new_ids_come_once_and_equal_questions_come_twice(
    bring_in: BringIn, client: Client, tmp_path: Path
) -> None:
    lines = [
        message("u1", "Go on"),
        message("g1", "One"),
        message("u2", "Go on"),
        message("g2", "Two"),
    ]
    copies = [it | {"id": f"{it['id']}-new"} for it in lines]
    by_lines = [
        *lines,
        *copies,
        keep(*copies),
        message("u3", "Go on"),
        {"$rewindTo": "u2-new"},
        copies[1],
    ]
    added = [keep(message("u9", "Kim wrote"), *lines[:1]), message("u4", "Go on")]
    bring_in(session(tmp_path, *by_lines, *added))
    assert texts(only(client)) == ["Go on", "One", "Kim wrote", "Go on"]
    assert [it.metadata["importId"] for it in only(client)] == ["u1", "g1", "u9", "u4"]
    assert [bool(it.metadata.get("boilerplate")) for it in only(client)] == [
        False,
        False,
        True,
        False,
    ]


def test_what_is_no_line_of_a_session_is_named_and_the_rest_comes(
    run: Run, client: Client, tmp_path: Path
) -> None:
    odd = [{"text": "See"}, {"inlineData": {"mimeType": "image/png", "data": "aa"}}, {"video": 1}]
    lines: list[Any] = [
        message("u1", odd),
        "{",
        {"other": 1},
        message("x", "?", type="hologram"),
        message("g1", "Yes"),
    ]
    path = session(tmp_path)
    with path.open("a") as file:
        file.writelines(f"{it if it == '{' else json.dumps(it)}\n" for it in lines)
    ran = run("import", path)
    assert (ran.code, ran.lines[0]["leftOut"]) == (6, 4)
    reasons = [
        "a part with 'video' is not read: u1",
        f"{path}:3: no JSON",
        f"{path}:4: it is no line",
    ]
    assert [it for it in reasons if it not in ran.err] == []
    assert "a message of the type 'hologram' is not read: ?" in ran.err
    question, answer = only(client)
    assert question.attachments[0].uri == "gemini-cli:s-1/u1/2"
    assert (question.content, answer.role) == ("See", Role.ASSISTANT)


def test_a_state_of_files_is_left_out_with_its_reason(run: Run, tmp_path: Path) -> None:
    state = {"history": [], "clientHistory": [], "toolCall": {"name": "replace", "args": {}}}
    ran = run("import", written(tmp_path / "2025-a.txt-replace.json", state))
    assert (ran.code, ran.lines[0]["conversationsNew"]) == (6, 0)
    assert "it is a state of files before a tool ran: a session has its messages" in ran.err


@pytest.mark.parametrize("separator", ["\n", ",\n"])
def test_sessions_in_one_file_are_conversations_of_their_own(
    bring_in: BringIn, tmp_path: Path, separator: str
) -> None:
    values = [BEGINNING | {"sessionId": own, "messages": [message("u1", "Hi")]} for own in "ab"]
    text = separator.join(map(json.dumps, values))
    path = written(tmp_path / "all.json", text if separator == "\n" else f"[{text}]")
    assert bring_in(path) == Counts(2, 0, 2, 0, 0)
