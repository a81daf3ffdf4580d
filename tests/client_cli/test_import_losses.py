"""`recollect import`: nothing is cut, guessed or left out in silence. What is, is named on standard
error and counted, and the exit code is 6.
"""

import codecs
import io
import json
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from recollect import Client, Role
from recollect.imports import recall_sets, table, transcripts
from recollect.imports.forms import Options
from recollect.imports.reading import Reading

from tests.client_cli.conftest import Run, messages_of
from tests.client_cli.test_import_products import (
    CLAUDE,
    entry,
    node,
    only,
    simple,
    tree,
    written,
)

AT = "2024-05-01T10:00:00Z"


def of_claude(own: str, *messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a conversation of Claude."""
    return {"uuid": own, "name": own, "created_at": AT, "chat_messages": list(messages)} | more


def said_in_claude(own: str, sender: str, *blocks: Any, **more: Any) -> dict[str, Any]:
    """Return a message of a conversation of Claude."""
    return {"uuid": own, "sender": sender, "content": list(blocks), "created_at": AT} | more


def test_a_text_that_is_cut_and_files_and_calls_that_are_too_many_are_named(
    run: Run, client: Client, tmp_path: Path
) -> None:
    files = [{"file_name": f"f{number}.txt"} for number in range(70)]
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "f", "input": {}} for n in range(140)]
    long = {"type": "text", "text": "x" * 2_000_000 + "THE END"}
    value = [
        of_claude("long", said_in_claude("m1", "human", long)),
        of_claude("files", said_in_claude("m1", "human", {"type": "text"}, attachments=files)),
        of_claude("calls", said_in_claude("m1", "assistant", *calls)),
    ]
    ran = run("import", written(tmp_path / "c.json", value))
    assert (ran.code, ran.lines[0]["messagesNew"]) == (6, 4)
    assert ran.lines[0]["leftOut"] == 2
    assert "the last 1,100,007 of 2,000,007 bytes of its text are cut" in ran.err
    assert "the last 6 of 70 attachments are left out" in ran.err
    ends = {it.metadata["importId"]: it.id for it in client.conversations.list()}
    loaded = client.conversations.load(ends["calls"]).messages
    assert [len(it.tool_calls) for it in loaded] == [128, 12]


def test_times_in_any_form_are_read_and_those_in_none_are_named(
    run: Run, client: Client, tmp_path: Path
) -> None:
    forms: list[Any] = [1.6e9, 1_600_000_000_000, 1_600_000_000_000_000, "1600000000.0"]
    forms += ["1600000000000", "2020-09-13T12:26:40Z", "2020-09-13T14:26:40+0200"]
    forms += ["2020-09-13 12:26:40", "Sun, 13 Sep 2020 12:26:40 +0000"]
    nodes = [("a", form, form) for form in forms] + [("u", None, None), ("x", "soon", "soon")]
    value = [
        tree(
            f"c{index}",
            node("n1", None, "user", f"{own}{index}", create_time=at),
            create_time=begin,
            update_time=1.6e9,
        )
        for index, (own, begin, at) in enumerate(nodes)
    ]
    ran = run("import", written(tmp_path / "c.json", value))
    assert (ran.code, ran.lines[0]["messagesNew"], ran.lines[0]["notes"]) == (6, 11, 1)
    assert "'soon'" in ran.err
    stored = [client.conversations.load(it.id).messages[0] for it in client.conversations.list()]
    assert {it.timestamp for it in stored} == {datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC)}


def test_a_conversation_without_any_time_is_named_as_dated_with_the_import(
    run: Run, client: Client, tmp_path: Path
) -> None:
    nodes = [node("n1", None, "user", "hello", create_time=None)]
    value = [tree(own, *nodes, create_time=0, update_time=None) for own in ("c", "d")]
    path = written(tmp_path / "c.json", value)
    ran = run("import", path)
    assert (ran.code, ran.lines[0]["messagesNew"], ran.lines[0]["leftOut"]) == (6, 2, 0)
    named = "2 times: a conversation has no time: it is dated with the import: conversation 1"
    assert f"note on {path}: {named}\n" in ran.err


def test_what_stands_before_a_parent_that_is_missing_comes_too(
    run: Run, client: Client, tmp_path: Path
) -> None:
    orphan = tree("c", node("n1", None, text="first"), node("n2", "n1", "assistant", "second"))
    orphan["mapping"]["n3"] = node("n3", "gone", text="third")
    orphan["current_node"] = "n3"
    bare = simple("bare", 2)
    for it in bare["mapping"].values():
        del it["parent"], it["children"]
    downwards = simple("downwards", 2)
    for it in downwards["mapping"].values():
        del it["parent"]
    claude = [
        said_in_claude("m1", "human", text="first", parent_message_uuid="0" * 8),
        said_in_claude("m2", "assistant", text="second", parent_message_uuid="m1"),
        said_in_claude("m3", "human", text="third", parent_message_uuid="gone"),
    ]
    path = written(tmp_path / "a" / "c.json", [orphan, bare, downwards])
    ran = run("import", path, written(tmp_path / "b" / "c.json", [of_claude("u", *claude)]))
    assert (ran.code, ran.lines[0]["leftOut"], ran.lines[0]["notes"]) == (6, 0, 2)
    assert ran.err.count("parent is not in the export: ") == 2
    came = {
        it.metadata["importId"]: messages_of(client, it.id) for it in client.conversations.list()
    }
    turns = ["question 0", "answer 0", "question 1", "answer 1"]
    three = ["first", "second", "third"]
    assert came == {"bare": turns, "downwards": turns, "c": three, "u": three}


def test_a_long_conversation_with_parents_and_no_end_is_read_in_linear_time(
    run: Run, tmp_path: Path
) -> None:
    messages = [
        said_in_claude(f"m{n}", ("human", "assistant")[n % 2], text="x")
        | {"parent_message_uuid": f"m{n - 1}"}
        for n in range(10_000)
    ]
    path = written(tmp_path / "c.json", [of_claude("u", *messages)])
    start = time.process_time()
    ran = run("import", path, "--dry-run")
    assert ran.lines[0]["messages"] == 10_000
    assert time.process_time() - start < 4, "it took 8 s when it was quadratic"


def test_the_marks_of_citations_are_removed_and_the_names_in_them_stay(
    run: Run, client: Client, tmp_path: Path
) -> None:
    text = (
        "It opens at nine \ue200cite\ue202turn0search3\ue202turn0search8\ue201. Ask"
        ' \ue200entity\ue202["people", "Beth Doe", 0]\ue201. \ue203Bold claim.\ue204 See'
        " \ue200url\ue202the map\ue202turn0view1\ue201. \ue200cite\ue202turn0file7\ue201 \ue206"
    )
    reference = {
        "matched_text": "\ue200cite\ue202turn0file7\ue201",
        "alt": "([Map](https://m.org))",
    }
    metadata = {"content_references": [reference]}
    nodes = [node("n1", None), node("n2", "n1", "assistant", text, metadata=metadata)]
    run("import", written(tmp_path / "c.json", [tree("c", *nodes)]))
    assert only(client)[-1].content.strip() == (
        "It opens at nine. Ask Beth Doe. Bold claim. See the map. ([Map](https://m.org))"
    )


def test_a_conversation_of_which_the_server_takes_no_message_is_not_begun(
    run: Run, client: Client, tmp_path: Path
) -> None:
    ahead = simple("ahead")
    for it in ahead["mapping"].values():
        if it["message"]:
            it["message"]["create_time"] = time.time() + 3 * 86_400
    zero = of_claude(
        "zero", said_in_claude("m1", "human", text="hi", created_at="0001-01-01T00:00:00Z")
    )
    path = written(tmp_path / "a" / "c.json", [ahead])
    for _ in range(2):
        ran = run("import", path, written(tmp_path / "b" / "c.json", [zero]))
        assert (ran.code, ran.lines[0]["leftOut"], ran.lines[0]["notes"]) == (6, 2, 1)
        [conversation] = client.conversations.list()
        assert (conversation.message_count, conversation.metadata["importId"]) == (1, "zero")
    assert ran.lines[0]["conversationsNew"] == 0


def test_bytes_that_are_not_utf_8_are_read_as_windows_1252_and_named(
    run: Run, client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "c.json"
    value = [simple("c", title="Köln – „Dom“")]
    path.write_bytes(json.dumps(value, ensure_ascii=False).encode("cp1252"))
    ran = run("import", path)
    assert (ran.code, ran.lines[0]["leftOut"], ran.lines[0]["notes"]) == (6, 0, 1)
    assert "4 bytes are no UTF-8: they are read as Windows-1252" in ran.err
    assert [it.title for it in client.conversations.list()] == ["Köln – „Dom“"]


@pytest.mark.parametrize("damage", ["\ud800", ""], ids=["half of a pair", "a cut"])
def test_utf_16_that_is_damaged_costs_nothing_but_its_place(
    run: Run, tmp_path: Path, damage: str
) -> None:
    path = tmp_path / "conversations.json"
    lines = f'[{json.dumps(simple("a"))},\n{json.dumps(simple("b"))[:-1]}, "c": "{damage}"}}]'
    data = codecs.BOM_UTF16_LE + lines.encode("utf-16-le", "surrogatepass")
    path.write_bytes(data if damage else data[:-9])
    ran = run("import", path, "--dry-run")
    assert (ran.code, ran.lines[-1]["conversationsNew"]) == (6, 2 if damage else 1)
    assert ("read as Windows-1252" if damage else "conversation 2: it is cut off") in ran.err


def test_a_line_beyond_all_bounds_is_named_and_the_others_come_in_bounded_memory(
    run: Run, client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "c.jsonl"
    with path.open("w") as file:
        file.write(f'{json.dumps(simple("a"))}\n{{"text": "')
        for _ in range(150):
            file.write("x" * (1 << 20))
        file.write(f'"}}\n{json.dumps(simple("b"))}\n')
    tracemalloc.start()
    ran = run("import", path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (ran.code, ran.lines[0]["conversationsNew"], ran.lines[0]["leftOut"]) == (6, 2, 1)
    assert f"left out {path}:2: it has more than 64 million characters" in ran.err
    assert peak < 250 << 20
    for read in (transcripts.FORMAT.read, recall_sets.FORMAT.read):
        lines = [b'{"type": "meta", "id": "a", "group": "b"}', b'{"a": "%b"}' % (b"x" * 99), b"{}"]
        reading = Reading(io.BytesIO(b"\n".join(lines)), "all.jsonl", max_item=50)
        skips = [skip for it in read(reading, Options()) for skip in getattr(it, "skips", [it])]
        assert "it has more than" in next(it.reason for it in skips if it.where == "all.jsonl:2")


def test_a_file_is_judged_by_all_that_is_in_it(run: Run, client: Client, tmp_path: Path) -> None:
    broken = '{"title": "x", "mapping": tru}'
    texts = [broken, json.dumps(simple("a")), json.dumps(simple("b"))]
    written(tmp_path / "a" / "conversations.json", f"[{', '.join(texts)}]")
    other = {"header": "Search", "title": "Searched for rain", "time": AT, "products": ["Search"]}
    written(tmp_path / "a" / "MyActivity.json", [other, entry(0, "Prompted Hi", "<p>Hello</p>")])
    written(tmp_path / "a" / "user.json", {"id": "user-1"})
    ran = run("import", tmp_path / "a")
    assert (ran.code, ran.lines[0]["conversationsNew"], ran.lines[0]["leftOut"]) == (6, 3, 2)
    assert ran.lines[0]["hidden"] == 1
    assert "MyActivity.json: what the product hides: entry 2: Searched for rain" in ran.err
    assert "conversations.json conversation 1: no JSON: Expecting value" in ran.err
    only_other = written(tmp_path / "b" / "MyActivity.json", [other])
    ran = run("import", only_other)
    assert (ran.code, "none of its entries is one of Gemini" in ran.err) == (6, True)


def test_json_of_an_unknown_shape_is_named_as_that(run: Run, tmp_path: Path) -> None:
    shapes = {
        '{\n "title": "x",\n "turns": []\n}': "JSON of a shape that is not known: title, turns",
        '[\n {"a": 1}, 2]': "JSON of a shape that is not known: a",
        "[]": "JSON without anything in it",
        '[\n "a"': "JSON of a shape that is not known: a text",
        '{\n "a": tru\n}': "no JSON: Expecting value",
        "hello": "neither JSON nor",
    }
    for text, reason in shapes.items():
        ran = run("import", written(tmp_path / "talk.json", text))
        assert (ran.code, ran.lines[0]["leftOut"]) == (6, 1)
        assert reason in ran.err


def test_no_part_of_a_message_vanishes_uncounted(run: Run, client: Client, tmp_path: Path) -> None:
    chunks: list[dict[str, Any]] = [
        {"text": "Look", "role": "user", "createTime": AT},
        {"youtubeVideo": {"id": "v1"}, "role": "user"},
        {
            "executableCode": {"code": "1+1"},
            "codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"},
            "role": "model",
        },
        {"hologram": {"id": 1}, "role": "model"},
        {"text": "", "role": "model"},
    ]
    path = written(tmp_path / "Counting", {"chunkedPrompt": {"chunks": chunks}})
    odd = [said_in_claude("m1", "human", {"type": "hologram", "data": "x"}, text="Hi"), CLAUDE]
    messages = [odd[0], said_in_claude("m2", "assistant", {"type": "hologram", "data": "x"})]
    other = written(tmp_path / "c.json", [of_claude("u", *messages)])
    ran = run("import", path, other)
    assert (ran.code, ran.lines[0]["leftOut"], ran.lines[0]["hidden"]) == (6, 2, 1)
    assert "chunk 4: not read of it: hologram" in ran.err
    assert "2 times: a block of the type 'hologram' is not read" in ran.err
    loaded = [
        message
        for it in client.conversations.list(query="Counting")
        for message in client.conversations.load(it.id).messages
    ]
    roles = [it.role for it in loaded]
    assert roles == [Role.USER, Role.USER, Role.ASSISTANT, Role.TOOL]
    assert loaded[1].attachments[0].uri == "https://www.youtube.com/watch?v=v1"
    assert loaded[3].content == "2"


def test_the_guide_lists_every_format() -> None:
    guide = Path(__file__).parents[2] / "docs" / "guides" / "import-export.md"
    rows = {
        it.split("|")[1].strip() for it in guide.read_text().splitlines() if it.startswith("| `")
    }
    assert {"`--format`", *(f"`{name}`" for name in table.NAMES)} == rows


def test_names_and_titles_that_are_cut_are_named(run: Run, tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "t", "name": "n" * 300, "input": {}}
    value = of_claude("u", said_in_claude("m1", "assistant", call), name="T" * 90)
    ran = run("import", written(tmp_path / "c.json", [value]), "--dry-run")
    assert (ran.code, ran.lines[-1]["leftOut"]) == (6, 2)
    assert "its title is cut to 80 characters" in ran.err
    assert "the name of a tool is cut to 256 characters" in ran.err
