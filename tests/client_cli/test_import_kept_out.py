"""`recollect import`: what a product hides, or shows no more, is named where it has text."""

from pathlib import Path

import pytest
from recollect import Client, Role, ToolCall
from recollect.imports.talks import Talk

from tests.client_cli.conftest import Run
from tests.client_cli.test_import_agents import LIBRE, WEBUI
from tests.client_cli.test_import_losses import of_claude, said_in_claude
from tests.client_cli.test_import_products import node, simple, tree, written


def test_answers_in_other_versions_and_hidden_messages_are_named_once_for_a_file(
    run: Run, tmp_path: Path
) -> None:
    value = [
        tree(
            own,
            node("n1", None, "system", "You are kind"),
            node("n2", "n1", text="Which?"),
            node("n3", "n2", "assistant", "This one"),
            node("n4", "n2", "assistant", "That one"),
        )
        for own in ("a", "b")
    ]
    path = written(tmp_path / "c.json", value)
    ran = run("import", path)
    counts = [ran.lines[0][it] for it in ("messagesNew", "otherBranches", "hidden", "leftOut")]
    assert (ran.code, counts) == (6, [4, 2, 2, 2])
    other = "another version of a question or an answer: conversation 1: This one"
    assert f"left out {path}: 2 times: {other}\n" in ran.err
    hidden = "what the product hides: conversation 1: You are kind"
    assert f"left out {path}: 2 times: {hidden}\n" in ran.err


def test_a_message_without_text_that_stays_out_is_only_counted(run: Run, tmp_path: Path) -> None:
    empty = tree("c", node("n1", None, "system", ""), node("n2", "n1", text="Hi"))
    ran = run("import", written(tmp_path / "c.json", [empty]))
    assert (ran.code, ran.lines[0]["hidden"], ran.lines[0]["leftOut"]) == (0, 1, 0)


@pytest.mark.parametrize("product", ["claude", "open-webui", "librechat"])
def test_branches_of_every_product_are_named(run: Run, tmp_path: Path, product: str) -> None:
    chat = [
        said_in_claude("m1", "human", text="Which?", parent_message_uuid="0" * 8),
        said_in_claude("m2", "assistant", text="Warm.", parent_message_uuid="m1"),
        said_in_claude("m3", "assistant", text="Hot.", parent_message_uuid="m1"),
    ]
    messages = [*LIBRE["messages"][:1]]
    for own, text in (("b", "Warm."), ("c", "Hot.")):
        answer = {"messageId": own, "parentMessageId": "a", "text": text, "sender": "gpt"}
        messages.append(answer | {"createdAt": f"2025-09-01T10:00:0{2 + (own == 'c')}Z"})
    values = {
        "claude": [of_claude("u", *chat)],
        "open-webui": [WEBUI],
        "librechat": [LIBRE | {"messages": messages}],
    }
    ran = run("import", written(tmp_path / "c.json", values[product]))
    assert (ran.code, ran.lines[0]["otherBranches"]) == (6, 1)
    assert "another version of a question or an answer: conversation 1: Warm.\n" in ran.err


def test_a_conversation_of_which_the_server_takes_nothing_is_deleted_whatever_its_file(
    run: Run, client: Client, tmp_path: Path
) -> None:
    meta = '{"type": "meta", "channel": "web", "created": "2024-05-01T10:00:00Z"}'
    ahead = (
        '{"type": "turn", "role": "user", "content": "soon", "timestamp": "2999-01-01T10:00:00Z"}'
    )
    title = '{"type": "event", "event": "title_assigned", "title": "Soon"}'
    path = written(tmp_path / "conv-1.jsonl", f"{meta}\n{ahead}\n{title}\n")
    for _ in range(2):
        ran = run("import", path)
        assert (ran.code, ran.lines[0]["conversationsNew"]) == (6, 0)
        assert list(client.conversations.list()) == []


def test_a_circle_of_messages_ends_no_import_of_others(
    run: Run, client: Client, tmp_path: Path
) -> None:
    session = "1" * 8 + "-2222-3333-4444-" + "5" * 12
    lines = [
        f'{{"type": "user", "uuid": "{own}", "parentUuid": "{parent}", "sessionId": "{session}",'
        f' "message": {{"role": "user", "content": "round"}}}}\n'
        for own, parent in (("a", "b"), ("b", "a"))
    ]
    folder = tmp_path / "projects"
    written(folder / "a.jsonl", "".join(lines))
    written(folder / "b.json", [simple("c")])
    ran = run("import", folder)
    assert (ran.code, ran.lines[0]["messagesNew"]) == (6, 2)
    assert "a.jsonl: its messages form a circle: none is the last" in ran.err


def test_a_result_without_an_id_answers_the_oldest_call() -> None:
    talk = Talk("x", "1", "x")
    calls = [ToolCall("", name, "") for name in ("f", "g")]
    talk.say(Role.ASSISTANT, "a", "", 1.6e9, calls=calls)
    talk.result("r", "", "of f", None)
    talk.result("s", "", "of g", None)
    placed = [it.message for it in talk.placed]
    assert [it.tool_call_id for it in placed[1:]] == [it.id for it in placed[0].tool_calls]
