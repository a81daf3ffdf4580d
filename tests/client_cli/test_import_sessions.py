"""`recollect import` of what agents log: turns that were taken back, steps beside each other,
subagents, and the items of OpenAI's Responses.
"""

import json
from pathlib import Path
from typing import Any

from recollect import Client, Role

from tests.client_cli.conftest import Run
from tests.client_cli.test_import_agents import CODEX, item, lines_of, loaded, message
from tests.client_cli.test_import_products import only, written

SESSION = "11111111-2222-3333-4444-555555555555"
PNG = "data:image/png;base64,aa"


def step(
    own: str, parent: str | None, content: Any, minute: int, *, side: bool = False
) -> dict[str, Any]:
    """Return a line of Claude Code, the agent's where its name begins with s."""
    kind = "assistant" if own.startswith("s") else "user"
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    body = {"id": f"msg-{own}", "role": kind, "content": blocks}
    fields = {"type": kind, "uuid": own, "parentUuid": parent, "sessionId": SESSION}
    time = f"2026-01-05T11:{minute:02}:00Z"
    return fields | {"timestamp": time, "isSidechain": side, "message": body}


def use(own: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": own, "name": "ls", "input": {}}


def result(own: str, text: str) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": own, "content": text}]


def test_turns_of_codex_that_were_taken_back_are_named_and_stay_out(
    run: Run, client: Client, tmp_path: Path
) -> None:
    def back(turns: Any) -> dict[str, Any]:
        return {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": turns}}

    lines = [
        back(3),
        message("user", "<environment_context>x</environment_context>"),
        message("user", "look around"),
        message("assistant", "done"),
        message("user", "make it red"),
        item("reasoning", summary=[{"type": "summary_text", "text": "Red?"}]),
        message("assistant", "red"),
        message("user", "make it green"),
        message("assistant", "green"),
        back(2),
        back("many"),
        message("user", "make it blue"),
        message("assistant", "blue"),
    ]
    path = written(tmp_path / "rollout-1.jsonl", lines_of(CODEX[0], *lines))
    ran = run("import", path)
    assert (ran.code, ran.lines[0]["otherBranches"]) == (6, 5)
    assert "5 times: another version of a question or an answer: make it red" in ran.err
    texts = [it.content for it in only(client)]
    assert texts[1:] == ["look around", "done", "make it blue", "blue"]


def test_pictures_that_a_tool_of_codex_returns_are_kept_by_reference(
    run: Run, client: Client, tmp_path: Path
) -> None:
    parts = [{"type": "input_text", "text": "a.png"}, {"type": "input_image", "image_url": PNG}]
    content = [{"type": "input_image", "image_url": PNG}, {"type": "input_text", "text": "See"}]
    lines = [
        item("message", role="user", content=[*content, {"type": "hologram"}]),
        item("function_call", name="view_image", arguments="{}", call_id="c"),
        item("function_call_output", call_id="c", output=parts),
    ]
    ran = run("import", written(tmp_path / "rollout-1.jsonl", lines_of(CODEX[0], *lines)))
    assert (ran.code, "a part of the type 'hologram' is not read: 1" in ran.err) == (6, True)
    question, _, output = only(client)
    assert (question.content, question.attachments[0].media_type) == ("See", "image/png")
    assert (output.content, output.metadata["files"]) == ("a.png", ["codex:r-1/3"])


def test_steps_of_an_agent_that_name_the_same_question_are_no_branches(
    run: Run, client: Client, tmp_path: Path
) -> None:
    lines = [
        step("q", None, "start it", 1),
        step("s1", "q", [{"type": "text", "text": "I look first."}, use("t1")], 2),
        step("r1", "s1", result("t1", "a.py"), 3),
        step("s2", "q", [{"type": "text", "text": "Now I change it."}, use("t2")], 4),
        step("r2", "s2", result("t2", "ok"), 5),
        step("s3", "q", "Done.", 6),
        step("old", "q", "taken back", 1),
    ]
    ran = run("import", written(tmp_path / f"{SESSION}.jsonl", lines_of(*lines)))
    assert (ran.code, ran.lines[0]["otherBranches"]) == (6, 1)
    texts = ["start it", "I look first.", "a.py", "Now I change it.", "ok", "Done."]
    assert [it.content for it in only(client)] == texts


def test_a_last_line_that_is_older_than_the_others_ends_no_session(
    run: Run, client: Client, tmp_path: Path
) -> None:
    lines = [
        step("q", None, "one", 1),
        step("old", "q", "taken back", 2),
        step("q2", "q", "two", 3),
        step("s1", "q2", "three", 4),
        step("older", "q", "written late", 2),
    ]
    ran = run("import", written(tmp_path / f"{SESSION}.jsonl", lines_of(*lines)))
    assert (ran.code, ran.lines[0]["otherBranches"]) == (6, 2)
    assert [it.content for it in only(client)] == ["one", "two", "three"]


def test_subagents_within_a_session_are_conversations_of_their_own(
    run: Run, client: Client, tmp_path: Path
) -> None:
    lines = [
        step("q", None, "one", 1),
        step("s1", "q", "two", 2),
        step("a", None, "find the file", 3, side=True),
        step("b", None, "find the other", 4, side=True),
        step("sa", "a", "it is in src", 5, side=True),
        step("sb", "b", "it is in lib", 6, side=True),
        step("q2", "s1", "three", 7),
    ]
    ran = run("import", written(tmp_path / f"{SESSION}.jsonl", lines_of(*lines)))
    assert (ran.code, ran.lines[0]["conversationsNew"]) == (0, 3)
    came = {
        it.metadata["importId"]: [m.content for m in client.conversations.load(it.id).messages]
        for it in client.conversations.list()
    }
    assert came == {
        SESSION: ["one", "two", "three"],
        f"{SESSION}/a": ["find the file", "it is in src"],
        f"{SESSION}/b": ["find the other", "it is in lib"],
    }


def test_the_output_of_newer_answers_of_open_webui_is_read(
    run: Run, client: Client, tmp_path: Path
) -> None:
    text = [{"type": "output_text", "text": "At 200 °C."}]
    output = [
        {"type": "reasoning", "content": [{"type": "output_text", "text": "Which oven?"}]},
        {"type": "function_call", "call_id": "c", "name": "search", "arguments": '{"q": 1}'},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "200"}]},
        {"type": "open_webui:code_interpreter", "id": "d", "code": "1+1", "output": {"stdout": "2"}},
        {"type": "message", "role": "assistant", "content": text},
    ]  # fmt: skip
    answer = {"id": "2", "parentId": "1", "role": "assistant", "content": "", "output": output}
    question = {"id": "1", "parentId": None, "role": "user", "content": "How hot?"}
    history = {"currentId": "2", "messages": {"1": question, "2": answer | {"model": "llama3"}}}
    value = [{"id": "w", "created_at": 1_756_720_800, "chat": {"history": history}}]
    ran = run("import", written(tmp_path / "c.json", value))
    assert ran.code == 0, ran.err
    _, thought, call, hit, code, stdout, last = only(client)
    assert (thought.thinking_text, last.content) == ("Which oven?", "At 200 °C.")
    assert (call.tool_calls[0].name, hit.tool_call_id, hit.content) == ("search", "c", "200")
    assert (code.tool_calls[0].arguments, stdout.content) == ("1+1", '{"stdout": "2"}')
    assert last.metadata["model"] == "llama3"


def test_calls_of_sharegpt_come_with_their_names_and_arguments(
    run: Run, client: Client, tmp_path: Path
) -> None:
    call = {"name": "weigh", "arguments": {"what": "salt"}}
    marked = f"<tool_call>\n{json.dumps({'name': 'cook', 'arguments': '{}'})}\n</tool_call>"
    turns = [
        ("human", "How salty?"),
        ("function_call", json.dumps(call)),
        ("observation", "20 g"),
        ("tool_call", marked),
        ("observation", "done"),
        ("function_call", "no JSON"),
        ("gpt", "Very."),
    ]
    value = {"conversations": [{"from": it, "value": text} for it, text in turns]}
    run("import", written(tmp_path / "c.json", value))
    _, one, first, two, second, three, last = only(client)
    calls = [it.tool_calls[0] for it in (one, two, three)]
    assert [it.name for it in calls] == ["weigh", "cook", "tool"]
    assert [it.arguments for it in calls] == ['{"what": "salt"}', "{}", "no JSON"]
    assert (first.tool_call_id, second.tool_call_id) == (calls[0].id, calls[1].id)
    assert (last.role, last.content) == (Role.ASSISTANT, "Very.")


def test_a_response_of_openai_comes_with_what_it_answers(
    run: Run, client: Client, tmp_path: Path
) -> None:
    output = [
        {"type": "web_search_call", "id": "w", "action": {"query": "rain"}},
        {"type": "hologram"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "No."}]},
    ]  # fmt: skip
    value = {"id": "resp_1", "object": "response", "created_at": 1_756_720_800, "model": "gpt-5"}
    value |= {"instructions": "Be brief", "input": "Will it rain?", "output": output}
    ran = run("import", written(tmp_path / "c.jsonl", json.dumps(value)))
    assert (ran.code, ran.lines[0]["leftOut"]) == (6, 2)
    assert "what the product hides: line 1: Be brief" in ran.err
    assert "an item of the type 'hologram' is not read: item-3" in ran.err
    question, call, answer = loaded(client, channel="chat-messages")
    assert (question.content, answer.content) == ("Will it rain?", "No.")
    assert call.tool_calls[0].arguments == '{"query": "rain"}'
