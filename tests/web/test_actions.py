"""Changes of conversations on the page: each says first what goes, and afterwards what
went.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from recollect import AnchorSource, Message, NotFound, ToolCall

from tests.web.conftest import ROW, Browsing, Stage, axe, wait


@pytest.fixture(scope="module")
def page(window: Browsing) -> Iterator[Any]:
    """Open one tab, which the tests of the module share."""
    opened = window.tab()
    opened.wait_for_selector(".live-live", state="attached")
    yield opened
    opened.close()


def show(page: Any, it: str) -> None:
    page.click(f"#row-{it}")
    page.wait_for_selector(f"[data-selected=true] #row-{it}")
    page.wait_for_selector(".message")


def from_menu(page: Any, item: str) -> None:
    page.click("main [aria-label='More actions']")
    page.click(f"[role=menu] >> text={item}")
    page.wait_for_selector("dialog[open]")


def test_a_conversation_is_deleted_with_its_facts_and_leaves_a_receipt(
    stage: Stage, page: Any
) -> None:
    it = stage.conversation("The old flat", "My rent is 900 euros")
    stage.client.recall.set_anchor("rent", "900", source=AnchorSource(it, 2))
    show(page, it)
    from_menu(page, "Delete…")
    page.wait_for_selector("dialog >> text=Delete 1 conversation?")
    page.wait_for_selector("dialog >> text=2 messages, the notes")
    page.wait_for_selector("dialog >> text=Facts that were learned")
    assert page.is_disabled("dialog >> text=Delete for good")
    assert axe(page) == []
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    assert stage.client.conversations.get(it).message_count == 2
    from_menu(page, "Delete…")
    page.check("dialog >> text=Delete them too")
    page.click("dialog >> text=Delete for good")
    page.wait_for_selector("dialog >> text=1 conversation was deleted")
    facts = dict(
        zip(
            page.locator("dialog dt").all_inner_texts(),
            page.locator("dialog dd").all_inner_texts(),
            strict=True,
        )
    )
    assert (facts["Messages"], facts["Facts (anchors)"]) == ("2", "1")
    names = "all => all.filter((it) => it.checkVisibility()).map((it) => it.innerText)"
    shown = page.locator("dialog dt").evaluate_all(names)
    assert shown == ["Conversations", "Messages", "Facts (anchors)"]
    page.click("dialog >> text=And what was made of them")
    assert "Files" in page.locator("dialog dt").evaluate_all(names)
    assert "1 kB" in page.locator("dialog .counts").inner_text()
    assert axe(page) == []
    with pytest.raises(NotFound):
        stage.client.conversations.get(it)
    page.click("dialog .primary")
    page.wait_for_selector("text=This conversation was deleted.")
    page.wait_for_selector(f"#row-{it}", state="detached")


def test_a_copy_goes_on_from_a_message_and_keeps_what_is_redacted_there(
    stage: Stage, page: Any
) -> None:
    it = stage.conversation("The code", "The code is 4711", "Which one?")
    show(page, it)
    message = page.locator(".message", has_text="The code is 4711").first
    message.hover()
    message.get_by_label("Go on from here in a copy").click()
    wait(page, "(id) => !location.pathname.endsWith(id)", it)
    copy = page.url.rsplit("/", 1)[1]
    page.wait_for_selector(".notice >> text=A copy up to turn 1.")
    assert [m.content for m in stage.client.conversations.load(copy).messages] == [
        "The code is 4711",
        "About The code is 4711: noted.",
    ]
    page.click(".notice >> text=The original")
    page.wait_for_selector(".message >> text=Which one?")
    message.hover()
    message.get_by_label("Take its text away").click()
    page.wait_for_selector("dialog .action-quote >> text=The code is 4711")
    assert axe(page) == []
    page.check("dialog >> text=All messages of turn 1")
    page.click("dialog .danger")
    page.wait_for_selector("dialog >> text=2 messages were redacted")
    page.wait_for_selector(f"dialog li >> text={copy}")
    page.click("dialog .primary")
    page.wait_for_selector(".message >> text=[redacted]")
    stored = [m.content for m in stage.client.conversations.load(it).messages]
    assert stored[:2] == ["[redacted]", "[redacted]"]


def exported(page: Any, form: str) -> str:
    from_menu(page, "Export…")
    page.check(f"dialog >> text={form}")
    with page.expect_download() as download:
        page.click("dialog .primary")
    page.wait_for_selector("dialog[open]", state="detached")
    return Path(download.value.path()).read_text()


def test_a_conversation_is_exported_whole_in_each_form(stage: Stage, page: Any) -> None:
    client = stage.client
    it = stage.conversation("Long story", "First of all")
    for turn in range(240):  # more than one answer holds
        client.conversations.append_turn(it, [Message.user(f"Day {turn}")])
    call = ToolCall("c1", "look", '{"at": "sea"}')
    answer = [
        Message.user("Look ```x```"),
        Message.assistant("Looking", tool_calls=(call,), cost=0.25),
        Message.tool("waves", tool_call_id="c1"),
        Message.assistant("Ünïcode: 海"),
    ]
    client.conversations.append_turn(it, answer)
    show(page, it)
    lines = exported(page, "for recollect import").splitlines()
    for line in lines:  # as the server seals them
        body, _, crc = line.rpartition(',"crc":"')
        assert crc == f'{crc32(body.encode()):08x}"}}'
    first, *turns, last = map(json.loads, lines)
    assert (first["type"], first["id"], first["channel"]) == ("meta", it, "web")
    stored = client.conversations.load(it, max_turns=1000, max_tokens=10**6).messages
    assert len(stored) == 246
    assert [(it["role"], it["content"], it["turnNumber"]) for it in turns] == [
        (it.role.value, it.content, it.turn_number) for it in stored
    ]
    calls = [{"id": "c1", "name": "look", "arguments": '{"at": "sea"}'}]
    assert (turns[-3]["toolCalls"], turns[-3]["cost"]) == (calls, 0.25)
    assert turns[-2]["toolCallId"] == "c1"
    assert datetime.fromisoformat(turns[0]["timestamp"]) == stored[0].timestamp
    assert (last["event"], last["title"]) == ("meta_update", "Long story")
    text = exported(page, "Markdown")
    assert text.startswith("# Long story\n\n**User**, ")
    assert 'look({"at": "sea"})' in text
    (openai,) = exported(page, "as OpenAI").splitlines()
    assert json.loads(openai)["messages"][-3:] == [
        {
            "role": "assistant",
            "content": "Looking",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"at": "sea"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "waves"},
        {"role": "assistant", "content": "Ünïcode: 海"},
    ]
    (anthropic,) = exported(page, "as Anthropic").splitlines()
    assert json.loads(anthropic)["messages"][-3:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Looking"},
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "sea"}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "waves"}],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "Ünïcode: 海"}]},
    ]


def test_several_conversations_are_chosen_and_changed_at_once(stage: Stage, page: Any) -> None:
    client = stage.client
    several = [stage.conversation(f"Boat {n}", "Sails") for n in range(3)]
    for it in several:
        client.conversations.set_topics(it, ["boats", "summer"])
    other = stage.conversation("Not a boat", "Wheels")
    page.wait_for_selector(f"#row-{other}")
    page.click("[aria-label='Choose several']")
    for it in several:
        page.check(f"[data-row={it}] .row-choice")
    page.wait_for_selector(".choosing >> text=3 chosen")
    assert axe(page) == []
    page.click(".choosing [aria-label='Edit topics']")
    page.check("dialog >> text=boats")
    page.fill("dialog .field input", "Ships")
    page.click("dialog .primary")
    page.wait_for_selector(".notice >> text=The topics of 3 conversations were changed.")
    topics = [client.conversations.get(it).topics for it in several]
    assert topics == [("summer", "ships")] * 3
    page.click(".choosing [aria-label=Archive]")
    page.wait_for_selector(".notice >> text=3 conversations were archived.")
    page.click(".notice >> text=Undo")
    page.wait_for_selector(f"#row-{several[0]}")
    page.wait_for_selector(".notice >> text=3 conversations are back")
    # by keyboard, and one that went meanwhile is chosen no longer
    page.focus(f"#row-{several[0]}")
    page.keyboard.press("x")
    page.wait_for_selector(".choosing >> text=1 chosen")
    for it in several[1:]:
        page.check(f"[data-row={it}] .row-choice")
    client.conversations.delete(several[2])
    page.wait_for_selector(".choosing >> text=2 chosen")
    page.click(".choosing [aria-label='Delete…']")
    page.click("dialog >> text=Delete for good")
    page.wait_for_selector("dialog >> text=2 conversations were deleted")
    page.click("dialog .primary")
    page.wait_for_selector(".choosing >> text=0 chosen")
    page.click(".choosing [aria-label='End choosing']")
    page.wait_for_selector(f"#row-{several[0]}", state="detached")
    assert client.conversations.get(other).title == "Not a boat"


def test_all_means_every_conversation_of_the_list_however_far_it_was_scrolled(
    stage: Stage, window: Browsing
) -> None:
    for number in range(1002):
        stage.client.conversations.create("many", messages=[Message.user(f"item {number}")])
    stage.client.conversations.create("few", messages=[Message.user("stays")])
    page = window.tab("/?on=many", ROW)
    page.click("[aria-label='Choose several']")
    page.click(".row-choice >> nth=0")
    page.wait_for_selector(".choosing >> text=1 chosen")
    page.wait_for_selector(".choosing >> text=Choose all 1,002")
    page.evaluate("document.querySelector('[data-list]').scrollTop = 2000")
    page.wait_for_selector("[aria-posinset='40']")
    page.wait_for_selector(".choosing >> text=Choose all 1,002")
    page.click(".choosing >> text=Choose all")
    page.wait_for_selector(".choosing >> text=1,002 chosen")
    assert axe(page) == []
    page.click(".choosing [aria-label=Archive]")
    page.wait_for_selector(".notice >> text=1,002 conversations were archived.")
    page.click(".notice >> text=Undo")
    page.wait_for_selector(".notice >> text=1,002 conversations are back")
    page.click("[aria-label='Choose several']")
    page.click(".choosing >> text=Choose all 1,002")
    page.click(".choosing [aria-label='Delete…']")
    page.wait_for_selector("dialog >> text=Delete 1,002 conversations?")
    page.click("dialog >> text=Delete for good")
    page.wait_for_selector("dialog >> text=1,002 conversations were deleted")
    assert not list(stage.client.conversations.list(channels=["many"]))
    assert len(list(stage.client.conversations.list(channels=["few"]))) == 1
    page.close()
