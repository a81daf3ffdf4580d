"""`recollect import` of other products' exports: all that was said, in its order and once, and what
becomes of the rest. The files are written from the formats' documentation.
"""

import io
import json
import tracemalloc
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from recollect import ArchiveFilter, Client, Message, Role, ToolCall
from recollect.imports import chatgpt
from recollect.imports.markup import plain_text
from recollect.imports.reading import Reading
from recollect.imports.transcript import Damaged

from tests.client_cli.conftest import BringIn, Counts, Run, messages_of

BEGAN = 1_714_557_600.25  # 2024-05-01T10:00:00.250Z


def node(
    name: str, parent: str | None, role: str = "user", text: str = "", **fields: Any
) -> dict[str, Any]:
    """Return a node of ChatGPT's tree; without a role the root."""
    metadata = fields.pop("metadata", {})
    content = fields.pop("content", {"content_type": "text", "parts": [text]})
    author = {"role": role, "name": fields.pop("author", None), "metadata": {}}
    message = {"id": name, "author": author, "content": content, "metadata": metadata}
    message |= {"create_time": BEGAN + int(name[1:]), "recipient": "all", "weight": 1.0} | fields
    return {"id": name, "parent": parent, "children": [], "message": message if role else None}


def tree(own: str, *nodes: dict[str, Any], title: str = "Disk", **fields: Any) -> dict[str, Any]:
    """Return a conversation of ChatGPT, which ends at the last of its nodes."""
    for it in nodes:
        it["children"] = [other["id"] for other in nodes if other["parent"] == it["id"]]
    beginning = {"title": title, "create_time": BEGAN, "update_time": BEGAN + 60}
    return (
        beginning
        | {
            "mapping": {it["id"]: it for it in nodes},
            "current_node": nodes[-1]["id"],
            "conversation_id": own,
            "id": own,
            "is_archived": False,
        }
        | fields
    )


def simple(own: str, turns: int = 1, **fields: Any) -> dict[str, Any]:
    """Return a conversation of ChatGPT of so many turns."""
    nodes = [node("n0", None, "")]
    for turn in range(turns):
        nodes.append(node(f"n{2 * turn + 1}", nodes[-1]["id"], "user", f"question {turn}"))
        nodes.append(node(f"n{2 * turn + 2}", nodes[-1]["id"], "assistant", f"answer {turn}"))
    return tree(own, *nodes, **fields)


def zipped(path: Path, **members: Any) -> Path:
    """Write an archive of JSON files, and what other files such exports have."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("chat.html", "<html><body>not read</body></html>")
        archive.writestr("user.json", '{"id": "user-1"}')
        for name, value in members.items():
            text = value if isinstance(value, str) else json.dumps(value)
            archive.writestr(name.replace("__", "/"), text)
    return path


def written(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def only(client: Client) -> list[Message]:
    """Return the messages of the only conversation."""
    [conversation] = client.conversations.list(archived=ArchiveFilter.ALL)
    return list(client.conversations.load(conversation.id, max_turns=1000).messages)


def told(messages: list[Message]) -> list[tuple[int, str, str]]:
    return [(it.turn_number, it.role.value, it.content) for it in messages]


RICH = tree(
    "c-rich",
    node("n0", None, ""),
    node("n1", "n0", "system", "You are ChatGPT", weight=0.0),
    node(
        "n2",
        "n1",
        "user",
        content={"content_type": "user_editable_context", "user_profile": "I am Alex"},
        metadata={"is_visually_hidden_from_conversation": True},
    ),
    node("n3", "n2", "user", "An older wording"),
    node("n4", "n3", "assistant", "An answer to that"),
    node(
        "n5",
        "n2",
        "user",
        content={
            "content_type": "multimodal_text",
            "parts": [
                {
                    "content_type": "image_asset_pointer",
                    "asset_pointer": "file-service://file-A1",
                    "size_bytes": 2048,
                },
                "How full is\nthis disk? \ud83d\x00",
            ],
        },
        metadata={
            "attachments": [
                {"id": "file-A1", "name": "disk.png", "size": 2048, "mime_type": "image/png"}
            ]
        },
    ),
    node(
        "n6",
        "n5",
        "assistant",
        content={
            "content_type": "thoughts",
            "thoughts": [{"summary": "Measuring", "content": "I count the bytes."}],
        },
    ),
    node(
        "n7",
        "n6",
        "assistant",
        content={"content_type": "code", "language": "python", "text": "print(97)"},
        recipient="python",
        metadata={"model_slug": "gpt-4o"},
    ),
    node(
        "n8",
        "n7",
        "tool",
        content={"content_type": "execution_output", "text": "97"},
        author="python",
    ),
    node(
        "n10",
        "n8",
        "assistant",
        "a note to itself",
        metadata={"is_visually_hidden_from_conversation": True},
    ),
    node("n9", "n10", "assistant", "97 %, zebra.", metadata={"model_slug": "gpt-4o"}),
    title="Disk of Alex " * 9,
    is_archived=True,
)


def test_the_branch_of_chatgpt_that_was_shown_last_comes_with_all_that_was_said(
    run: Run, client: Client, tmp_path: Path
) -> None:
    path = zipped(tmp_path / "export.zip", **{"conversations.json": [RICH]})
    [line] = run("import", path).lines
    assert (line["messagesNew"], line["otherBranches"], line["hidden"]) == (4, 2, 3)
    [conversation] = client.conversations.list(archived=ArchiveFilter.ARCHIVED)
    assert conversation.channel == "chatgpt"
    assert conversation.create_time == datetime(2024, 5, 1, 10, 0, 0, 250_000, tzinfo=UTC)
    assert conversation.title == ("Disk of Alex " * 9)[:79].rstrip() + "…"
    assert conversation.metadata == {
        "importedFrom": "chatgpt",
        "importId": "c-rich",
        "url": "https://chatgpt.com/c/c-rich",
    }
    question, call, result, answer = only(client)
    assert (question.role, question.content) == (Role.USER, "How full is\nthis disk? ?")
    [file] = question.attachments
    assert (file.uri, file.media_type, file.bytes_length) == (
        "file-service://file-A1",
        "image/png",
        2048,
    )
    assert call.tool_calls == (ToolCall("n7", "python", "```python\nprint(97)\n```"),)
    assert call.thinking_text == "Measuring\nI count the bytes."
    assert (result.role, result.content, result.tool_call_id) == (Role.TOOL, "97", "n7")
    assert (answer.content, answer.turn_number) == ("97 %, zebra.", 1)
    assert answer.metadata == {"importId": "n9", "model": "gpt-4o"}
    assert answer.timestamp == datetime(2024, 5, 1, 10, 0, 9, 250_000, tzinfo=UTC)


def test_a_newer_export_adds_only_what_is_new(
    bring_in: BringIn, run: Run, client: Client, tmp_path: Path
) -> None:
    first = [simple("c-1", 2), simple("c-2")]
    first[0]["mapping"].pop("n4")  # no answer yet
    first[0]["current_node"] = "n3"
    folder = tmp_path / "export"
    written(folder / "conversations-000.json", first[:1])
    written(folder / "conversations-001.json", first[1:])
    assert bring_in(folder) == Counts(2, 0, 5, 0, 0)
    assert bring_in(folder) == Counts(0, 2, 0, 5, 0)
    newer = [simple("c-1", 3, title="Renamed"), simple("c-2"), simple("c-3")]
    path = zipped(tmp_path / "newer.zip", **{"conversations.json": newer})
    assert bring_in(path) == Counts(1, 2, 5, 5, 0)
    [grown] = client.conversations.list(query="Renamed")
    assert messages_of(client, grown.id) == [
        f"{what} {turn}" for turn in range(3) for what in ("question", "answer")
    ]
    assert (grown.turn_count, len(list(client.conversations.list()))) == (3, 3)
    # Somebody goes on here: the same export is known, a newer one is left out and named.
    client.conversations.append_turn(grown.id, [Message.user("here")])
    assert bring_in(path) == Counts(0, 3, 0, 10, 0)
    newest = written(tmp_path / "newest.json", [simple("c-1", 4, title="Renamed")])
    ran = run("import", newest)
    assert (ran.code, ran.lines[0]["messagesNew"]) == (6, 0)
    assert "somebody went on with it here (2 messages left out)" in ran.err


def test_another_branch_than_the_one_imported_is_named_and_left(
    bring_in: BringIn, run: Run, client: Client, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.json", [simple("c-1", 2)])
    bring_in(path)
    other = simple("c-1", 2)
    again = node("n9", "n2", "user", "Another wording")
    other["mapping"]["n9"] = again
    other["current_node"] = "n9"
    ran = run("import", written(tmp_path / "b.json", [other]))
    assert ran.code == 6
    assert "the export shows another branch of it than an earlier import brought" in ran.err
    assert len(only(client)) == 4


CLAUDE = {
    "uuid": "u-1",
    "name": "Trip to Oslo",
    "summary": "",
    "created_at": "2025-03-01T08:00:00.123456Z",
    "updated_at": "2025-03-01T08:05:00Z",
    "account": {"uuid": "a-1"},
    "chat_messages": [
        {
            "uuid": "m-1",
            "sender": "human",
            "text": "Plan it",
            "content": [{"type": "text", "text": "Plan it"}],
            "created_at": "2025-03-01T08:00:01Z",
            "attachments": [
                {
                    "file_name": "list.txt",
                    "file_size": 12,
                    "file_type": "txt",
                    "extracted_content": "socks, zebra",
                },
                {"file_name": "", "extracted_content": "a long pasted text"},
            ],
            "files": [{"file_name": "map.png", "file_uuid": "f-1"}],
        },
        {
            "uuid": "m-2",
            "sender": "assistant",
            "text": "flat text that is not used",
            "content": [
                {"type": "thinking", "thinking": "Which trains run?"},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "toolu_1", "name": "web_search", "input": {"q": "Oslo"}},
                {"type": "token_budget"},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "name": "web_search",
                    "content": [{"type": "text", "text": "Train at 9"}],
                    "is_error": False,
                },
                {"type": "text", "text": "Take the train at 9."},
            ],
            "created_at": "2025-03-01T08:00:20Z",
            "attachments": [],
            "files": [],
        },
        {
            "uuid": "m-3",
            "sender": "human",
            "text": "Old export: no blocks",
            "created_at": "2025-03-01T08:01:00Z",
        },
    ],
}


def test_a_conversation_of_claude_comes_with_its_blocks_in_order(
    bring_in: BringIn, client: Client, tmp_path: Path
) -> None:
    path = zipped(tmp_path / "data.zip", **{"conversations.json": [CLAUDE], "users.json": []})
    assert bring_in(path) == Counts(1, 0, 5, 0, 0)
    assert bring_in(path) == Counts(0, 1, 0, 5, 0)
    [conversation] = client.conversations.list()
    assert (conversation.channel, conversation.title) == ("claude", "Trip to Oslo")
    question, call, result, answer, last = only(client)
    assert question.content == "Plan it\n\n[list.txt]\nsocks, zebra\n\na long pasted text"
    assert [(it.uri, it.media_type) for it in question.attachments] == [
        ("claude-export:list.txt", "text/plain"),
        ("claude-export:f-1", "image/png"),
    ]
    assert (call.content, call.thinking_text) == ("Let me look.", "Which trains run?")
    assert call.tool_calls == (ToolCall("toolu_1", "web_search", '{"q": "Oslo"}'),)
    assert (result.tool_call_id, result.content) == ("toolu_1", "Train at 9")
    assert (answer.content, answer.turn_number) == ("Take the train at 9.", 1)
    assert (last.content, last.turn_number) == ("Old export: no blocks", 2)
    assert last.timestamp == datetime(2025, 3, 1, 8, 1, tzinfo=UTC)
    assert conversation.create_time == datetime(2025, 3, 1, 8, 0, 0, 123_000, tzinfo=UTC)


def test_of_claudes_branches_the_current_one_comes(
    run: Run, client: Client, tmp_path: Path
) -> None:
    root = "00000000-0000-4000-8000-000000000000"
    lines = [
        ("m-1", root, "human", "question"),
        ("m-2", "m-1", "assistant", "first answer"),
        ("m-3", "m-1", "assistant", "second answer"),
    ]
    messages = [
        {"uuid": own, "parent_message_uuid": parent, "sender": sender, "text": text}
        | {"created_at": f"2025-03-01T08:00:0{own[2:]}Z"}
        for own, parent, sender, text in lines
    ]
    newest = CLAUDE | {"uuid": "u-2", "chat_messages": messages}
    chosen = CLAUDE | {"uuid": "u-3", "chat_messages": messages, "current_leaf_message_uuid": "m-2"}
    [line] = run("import", written(tmp_path / "c.json", [newest, chosen])).lines
    assert (line["messagesNew"], line["otherBranches"]) == (4, 2)
    ends = {
        it.metadata["importId"]: messages_of(client, it.id)[-1]
        for it in client.conversations.list()
    }
    assert ends == {"u-2": "second answer", "u-3": "first answer"}


def entry(minute: int, title: str, answer: str = "", **fields: Any) -> dict[str, Any]:
    """Return an entry of Google's My Activity."""
    return (
        {
            "header": "Gemini Apps",
            "title": title,
            "time": f"2024-05-01T10:{minute:02d}:00.000Z",
            "products": ["Gemini Apps"],
            "activityControls": ["Gemini Apps Activity"],
        }
        | ({"safeHtmlItem": [{"html": answer}]} if answer else {})
        | fields
    )


ACTIVITY = [  # the newest first, as Takeout has it
    entry(59, "Prompted And tomorrow?", "<p>Sun.</p>"),
    entry(3, "Used Gemini Apps"),
    entry(2, "Prompted Any clothes? Attached 1 file.", attachedFiles=["coat.jpg"]),
    entry(
        0,
        "Prompted Will it rain in Oslo?",
        "<p>Yes, <b>zebra</b>:</p><ul><li>coat</li><li>boots</li></ul>",
    ),
]
OF_ACTIVITY = [
    [
        (1, "user", "Will it rain in Oslo?"),
        (1, "assistant", "Yes, zebra:\n\n- coat\n- boots"),
        (2, "user", "Any clothes?"),
    ],
    [(1, "user", "And tomorrow?"), (1, "assistant", "Sun.")],
]


def of_activity(client: Client) -> list[list[tuple[int, str, str]]]:
    conversations = sorted(client.conversations.list(), key=lambda it: it.create_time)
    return [told(list(client.conversations.load(it.id).messages)) for it in conversations]


def test_prompts_of_gemini_that_follow_each_other_are_one_conversation(
    run: Run, bring_in: BringIn, client: Client, tmp_path: Path
) -> None:
    name = "Takeout/My Activity/Gemini Apps/MyActivity.json"
    path = zipped(tmp_path / "takeout.zip", **{name: ACTIVITY[1:]})
    [line] = run("import", path).lines
    assert (line["conversationsNew"], line["messagesNew"], line["hidden"]) == (1, 3, 1)
    newer = written(tmp_path / "Takeout" / "MyActivity.json", ACTIVITY)
    assert bring_in(newer.parent) == Counts(1, 1, 2, 3, 1)  # "Used Gemini Apps"
    assert of_activity(client) == OF_ACTIVITY
    assert {it.channel for it in client.conversations.list()} == {"gemini"}


def test_a_takeout_that_lost_its_first_entry_begins_no_conversation_again(
    run: Run, client: Client, tmp_path: Path
) -> None:
    activity = [entry(it, f"Prompted question {it}", f"<p>{it}</p>") for it in (5, 4, 3)]
    run("import", written(tmp_path / "MyActivity.json", activity))
    ran = run("import", written(tmp_path / "MyActivity.json", activity[:2]))
    names = ("conversationsNew", "conversationsKnown", "messagesNew", "messagesKnown")
    assert (ran.code, [ran.lines[0][it] for it in names]) == (0, [0, 1, 0, 4])
    assert len(only(client)) == 6


def test_my_activity_as_html_comes_as_json_does(run: Run, client: Client, tmp_path: Path) -> None:
    def cell(title: str, time: str, answer: str = "") -> str:
        kind = "content-cell mdl-cell mdl-cell--6-col mdl-typography--body-1"
        return (
            '<div class="outer-cell"><div class="mdl-grid"><div class="header-cell">'
            '<p class="mdl-typography--title">Gemini Apps<br></p></div>'
            f'<div class="{kind}">{title}<br>{time}<br>{answer}</div>'
            f'<div class="{kind} mdl-typography--text-right"></div>'
            '<div class="content-cell mdl-typography--caption"><b>Products:</b><br>Gemini</div>'
            "</div></div>"
        )

    cells = (
        cell("Prompted&nbsp;And tomorrow?", "May 1, 2024, 12:59:00\u202fPM CEST", "<p>Sun.</p>"),
        cell("Used Gemini Apps", "May 1, 2024, 10:03:00 AM UTC"),
        cell("Prompted Any clothes? Attached 1 file.", "1 May 2024, 11:02:00 BST"),
        cell(
            "Prompted Will it rain in Oslo?",
            "May 1, 2024, 6:00:00 AM EDT",
            ACTIVITY[3]["safeHtmlItem"][0]["html"],
        ),
        cell("Invite : Bonjour", "1 mai 2024, 12:00:00 heure d’été", "<p>Bonjour !</p>"),
    )
    page = f"<html><head><title>My Activity</title></head><body>{''.join(cells)}</body></html>"
    ran = run("import", written(tmp_path / "MyActivity.html", page))
    assert of_activity(client) == OF_ACTIVITY
    assert ran.code == 6
    assert "MyActivity.html entry 5: its time cannot be read: export My Activity as JSON" in ran.err


@pytest.mark.parametrize(
    "stamp",
    ["01.05.2024, 12:00:05 MESZ", "1. Mai 2024, 12:00:05 MESZ", "1. Dez. 2024, 11:00:05 MEZ"],
)
def test_my_activity_in_german_is_read(
    run: Run, client: Client, tmp_path: Path, stamp: str
) -> None:
    cell = '<div class="content-cell mdl-cell mdl-typography--body-1">'
    page = (
        '<div class="outer-cell"><p class="mdl-typography--title">Gemini-Apps<br></p>'
        f"{cell}Wie wird das Wetter?<br>{stamp}<br><p>Sonnig &amp; warm, outer-cell.</p></div></div>"
    )
    ran = run("import", written(tmp_path / "MeineAktivitäten.html", f"<html>{page}"))
    assert ran.code == 0, ran.err
    question, answer = only(client)
    assert (question.content, answer.content) == (
        "Wie wird das Wetter?",
        "Sonnig & warm, outer-cell.",
    )
    assert question.timestamp is not None
    assert (question.timestamp.day, question.timestamp.hour) == (1, 10)


def test_a_file_of_ai_studio_is_a_conversation(
    bring_in: BringIn, client: Client, tmp_path: Path
) -> None:
    chunks: list[dict[str, Any]] = [
        {"driveImage": {"id": "d1"}, "role": "user"},
        {"text": "How many?", "role": "user", "createTime": "2025-06-01T09:00:00Z"},
        {"text": "Let me count.", "role": "model", "isThought": True},
        {"executableCode": {"language": "PYTHON", "code": "1+1"}, "role": "model"},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}, "role": "model"},
        {"parts": [{"text": "hm", "thought": True}, {"text": "Two"}], "role": "model"},
    ]
    value = {
        "runSettings": {"model": "models/gemini-2.5-pro"},
        "systemInstruction": {"text": "Be brief"},
        "chunkedPrompt": {"chunks": chunks, "pendingInputs": [{"text": "", "role": "user"}]},
    }
    path = written(tmp_path / "Google AI Studio" / "Counting", json.dumps(value, indent=2))
    assert bring_in(path) == Counts(1, 0, 5, 0, 1)  # the instruction to the model
    chunks.append({"text": "Thanks", "role": "user"})
    written(path, value)
    assert bring_in(path.parent) == Counts(0, 1, 1, 5, 1)
    [conversation] = client.conversations.list()
    assert (conversation.title, conversation.channel) == ("Counting", "gemini")
    image, question, call, result, answer, thanks = only(client)
    assert image.attachments[0].uri == "https://drive.google.com/file/d/d1"
    assert (question.content, call.thinking_text) == ("How many?", "Let me count.")
    assert (call.tool_calls[0].id, result.content) == (result.tool_call_id, "2")
    assert (answer.content, answer.metadata["model"]) == ("Two", "gemini-2.5-pro")
    assert thanks.content == "Thanks"


def test_a_dry_run_prints_what_would_come_and_changes_nothing(
    run: Run, client: Client, tmp_path: Path
) -> None:
    path = written(tmp_path / "conversations.json", [RICH, simple("c-1")])
    first, second, counts = run("import", path, "--dry-run").lines
    assert (first["channel"], first["messages"], second["title"]) == ("chatgpt", 4, "Disk")
    assert second["createTime"] == "2024-05-01T10:00:00.250Z"
    assert (counts["messagesNew"], counts["otherBranches"], counts["dryRun"]) == (6, 2, True)
    assert list(client.conversations.list(archived=ArchiveFilter.ALL)) == []


def test_memory_is_bounded_by_a_conversation_and_not_by_the_file() -> None:
    nodes = [node(f"n{number}", f"n{number - 1}", "user", "x" * 50_000) for number in range(1, 9)]
    one = json.dumps(tree("c", node("n0", None, ""), *nodes)).encode()

    class Endless(io.RawIOBase):
        """A list of many conversations, of which only what is read exists."""

        size = 0

        def read(self, size: int = -1) -> bytes:
            if self.size > 60 << 20:
                return b""
            data = (
                (b"[" if not self.size else b"") + b",".join([one] * (size // len(one) + 1)) + b","
            )
            self.size += len(data)
            return data

    file = Endless()
    reading = Reading(file, "endless")  # type: ignore[arg-type]
    tracemalloc.start()
    try:
        count = sum(
            not isinstance(item, Damaged) for _, item in reading.items(chatgpt.is_conversation)
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == (file.size - 1) // (len(one) + 1)
    assert peak < 8 << 20


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>a<br>b</p><p>c &amp; d</p>", "a\nb\n\nc & d"),
        (
            "<ol><li><p>one</p></li><li>two<ul><li>deep</li></ul></li></ol>x",
            "1. one\n2. two\n  - deep\n\nx",
        ),
        ("<pre><code>if a:\n    b</code></pre>", "```\nif a:\n    b\n```"),
        ("use <code>ls</code> now<script>evil()</script>", "use `ls` now"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a | b\nc"),
    ],
)
def test_html_becomes_text(html: str, text: str) -> None:
    assert plain_text(html) == text
