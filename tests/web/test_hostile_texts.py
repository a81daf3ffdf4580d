"""Texts and addresses that nobody expects: the page shows them, and they do nothing else."""

import re

import pytest
from recollect import Attachment, EmailOrigin, Message, Party, ToolCall

from tests.web.conftest import TOO_WIDE, Browsing, Stage, axe, visit, wait

HOSTILE = [
    "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">",
    "</title></textarea><svg onload=alert(1)>{{7*7}}${7*7}",
    "javascript:alert(1)",
    "\u202egnp.exe \u2066left\u2069 \u200fright\u200e",
    "שלום עולם العربية",
    "👩‍👩‍👧‍👦🏳️‍🌈 e\u0301\u0301\u0301\u0301 Z̷̡̛a̷͙͒l̵͉͠g̶̳̈o̸̜͝",
    "\x01\x1b[31mred\x7f\u0085\ufeff",
    "x" * 200,
]


def test_hostile_texts_are_text(stage: Stage, window: Browsing) -> None:
    ids = []
    for number, text in enumerate(HOSTILE):
        line = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", "", text)
        party = Party(contact=f"{number}-{line}"[:300], contact_name=text[:250])
        it = stage.client.conversations.create(
            f"hostile{number}", participants=[line[:250] or "x"], party=party
        )
        stage.client.conversations.append_turn(
            it.id,
            [
                Message.user(text, sender=line[:250],
                             attachments=[Attachment(text[:200] or "a/b", text)]),
                Message.assistant(
                    "```\n" + text, thinking_text=text, tool_calls=[ToolCall("1", text[:250], text)]
                ),
                Message.tool(text, tool_call_id="1"),
            ],
        )  # fmt: skip
        stage.client.conversations.rename(it.id, line[:80] or "x")
        stage.client.conversations.record_abbreviation(it.id, text)
        stage.client.recall.set_anchor(f"hostile{number}", text, source=(it.id, 2))
        ids.append(it.id)
    page = window.tab(f"/c/{ids[0]}?details=1")
    for identity, text in zip(ids, HOSTILE, strict=True):
        visit(page, f"/c/{identity}?details=1")
        wait(page, _SHOWS, text)
        for fold in page.query_selector_all(".fold summary"):
            fold.click()
        page.wait_for_selector(".anchors")
        assert page.evaluate("document.title").endswith("· Recollect")
        # nothing is wider than the screen, and no direction leaks out of a text
        assert page.evaluate(TOO_WIDE) == []
        assert page.query_selector("main img, main script, main iframe") is None
        titles = page.evaluate(
            "[...document.querySelectorAll('h1, .row-title')].map((it) => it.textContent).join('')"
        )
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f]", titles)
    page.close()


MARKDOWN = [
    "[a](javascript:alert(1)) [b](JaVaScRiPt&colon;alert(1)) [c](\x01javascript:alert(1))",
    "[d](data:text/html,<script>alert(1)</script>) [e](vbscript:x) [f](file:///etc/passwd)",
    "![g](https://evil.example/pixel.png) ![h](data:image/svg+xml,<svg/onload=alert(1)>)",
    "<img src=https://evil.example/x onerror=alert(1)><iframe src=https://evil.example></iframe>",
    "<div style='position:fixed;inset:0'>\n\n[i](/session/sign-out)\n\n</div>\n<style>*{}</style>",
    "[https://bank.example](https://evil.example/login) https://bank.example@evil.example/",
    '[j](https://\u0430pple.example/) <https://evil.example/"onmouseover=alert(1)>',
    '[k](https://evil.example "title\\" onclick=alert(1)") [l]\n\n[l]: javascript:alert(1)',
    '```html" onload=alert(1)\n</code></pre><script>alert(1)</script>\n```',
    "| <img src=x onerror=alert(1)> |\n|:-:|\n| [m](javascript:alert(1)) `<b>` |",
    "> " * 4_000 + "deep",
    "[" * 5_000 + "](" * 5_000,
    "*a _b " * 1_900,
    "`" * 6_000 + "a" + "`" * 5_000,
    "- " * 3_000 + "x",
    "<" * 9_000,
    "| " * 6_000 + "\n" + "|-" * 2_000,
]
"""Markdown that would leave the page, load something, or take for ever."""


def test_a_file_is_seen_where_the_message_has_it_and_else_led_to(
    stage: Stage, window: Browsing
) -> None:
    dot = (
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhg"
        "GAWjR9awAAAABJRU5ErkJggg=="
    )
    places = [
        dot,
        "https://files.example/a plan.pdf",
        "https://bank.example@evil.example/",
        "data:image/svg+xml,<svg onload=alert(1)/>",
        "data:text/html,<script>alert(1)</script>",
        "javascript:alert(1)",
        "file:///etc/passwd",
    ]
    files = [Attachment("image/png", it, 70) for it in places]
    it = stage.client.conversations.create("web", messages=[Message.user("See", attachments=files)])
    page = window.tab(f"/c/{it.id}", ".attachment")
    assert page.locator(".attachment").count() == len(places)
    (picture,) = page.locator(".attachment img").all()
    assert picture.get_attribute("src") == dot
    wait(page, "document.querySelector('.attachment img').naturalWidth === 1")
    links = [
        (it.get_attribute("href"), it.inner_text()) for it in page.locator(".attachment a").all()
    ]
    assert links == [
        ("https://files.example/a%20plan.pdf", "https://files.example/a plan.pdf"),
        ("https://bank.example@evil.example/", "https://bank.example@evil.example/"),
    ]
    hosts = page.locator(".attachment .host").all_inner_texts()
    assert [it.strip() for it in hosts] == ["(files.example)", "(evil.example)"]
    assert axe(page) == []
    page.close()


def test_hostile_markdown_leads_nowhere_loads_nothing_and_ends(
    stage: Stage, window: Browsing
) -> None:
    it = stage.conversation("Hostile Markdown", "begin")
    for text in MARKDOWN:
        stage.client.conversations.append_turn(it, [Message.user("next"), Message.assistant(text)])
    page = window.tab()
    page.on("dialog", lambda _: window.problems.append("a dialog opened"))
    hosts = set()
    for turn in range(2, len(MARKDOWN) + 2):
        visit(page, f"/c/{it}?turn={turn}")
        wait(page, "(turn) => [...document.querySelectorAll('.message[data-target=true] .markdown')]"
                   ".some((it) => it.closest('.virtual-row'))", turn)  # fmt: skip
        assert (
            page.query_selector("main :is(img, script, iframe, style, object, form.said)") is None
        )
        assert page.evaluate(TOO_WIDE) == []
        for link in page.query_selector_all(".markdown a"):
            assert link.get_attribute("rel") == "noopener noreferrer nofollow"
            assert link.get_attribute("target") == "_blank"
            hosts.add(
                (link.inner_text(), link.evaluate("(it) => it.nextSibling?.textContent ?? ''"))
            )
    assert hosts >= {
        ("Picture: g", " (evil.example)"),
        ("https://bank.example", " (evil.example)"),
        ("https://bank.example@evil.example/", " (evil.example)"),
        ("j", " (xn--pple-43d.example)"),
    }
    assert not {"a", "b", "c", "d", "e", "f", "i", "l", "m"} & {label for label, _ in hosts}
    page.close()


def test_markdown_is_rendered_and_what_was_written_is_a_click_away(
    stage: Stage, window: Browsing
) -> None:
    code = 'def greet(name):\n    return f"Hello {name}"'
    text = f"| a | b |\n|---|---|\n| **1** | `2` |\n\n- one\n\n> quoted\n\n```python\n{code}\n```"
    it = stage.conversation("Markdown", "begin")
    stage.client.conversations.append_turn(it, [Message.user("show"), Message.assistant(text)])
    window.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = window.tab(f"/c/{it}", ".markdown td strong")
    for selector in ("td code", "li", "blockquote", "pre code .hljs-keyword"):
        page.wait_for_selector(f".markdown {selector}")
    copied = "navigator.clipboard.readText()"
    page.click(".markdown [aria-label=Copy]")
    page.wait_for_selector(".markdown [aria-label=Copied]")
    assert page.evaluate(copied) == code
    last = page.locator(".message.assistant").last
    last.hover()
    last.get_by_label("Copy the message").click()
    last.locator(".message-actions [aria-label=Copied]").wait_for()
    assert page.evaluate(copied) == text
    last.get_by_label("Copy a link to this turn").click()
    wait(page, "navigator.clipboard.readText().then((it) => it.endsWith('?turn=2'))")
    last.get_by_label("As it was written").click()
    assert last.locator(".said .text").text_content() == text
    page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_a_long_name_of_a_third_party_hides_neither_its_time_nor_its_marks(
    stage: Stage, window: Browsing, width: int
) -> None:
    address = f"{'very-long-' * 6}address@subdomain.example.org"
    origin = EmailOrigin(message_id="long", subject="A subject that goes on " * 9)
    stage.client.channels.receive("email", "long", "Hello", sender=address, origin=origin)
    page = window.tab("/third-parties", ".people-rows a")
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate(_CUT_IN_ROWS) == []
    assert page.evaluate("document.querySelector('.people-rows time').offsetWidth > 0")
    page.close()


_CUT_IN_ROWS = """() => {
  const edge = document.querySelector('.people-rows').getBoundingClientRect().right
  return [...document.querySelectorAll('.people-rows :is(a, time, .mark)')]
    .filter((it) => it.getBoundingClientRect().right > edge).map((it) => it.outerHTML.slice(0, 80))
}"""
"""The beginnings of the elements in the list of third parties that its edge cuts."""

_SHOWS = (
    "(text) => document.querySelector('.message.user .said')?.textContent.replaceAll('*', '')"
    " === text.replaceAll('*', '')"
)


HOSTILE_ADDRESSES = [
    "/c/nothing",
    "/c/conv-01HQ0000000000000000000000",
    "/c/%ff%fe",
    "/third-parties/%ff",
    "/c/<script>",
    "/nothing",
    "/search?q=%00&from=x&to=9999-99-99",
    "/search?q=x&channel=%20&person=" + "p" * 300,
]


def test_hostile_addresses_say_what_is_wrong(window: Browsing) -> None:
    page = window.tab()
    for path in HOSTILE_ADDRESSES:
        page.goto(window.bridge.origin + path)
        page.wait_for_selector(".state:not(.loading)")
        assert page.inner_text("main .state").strip(), path
    page.close()


def test_a_title_has_as_many_characters_as_the_server_takes_not_units_of_utf_16(
    stage: Stage, window: Browsing
) -> None:
    it = stage.conversation("Short")
    page = window.tab(f"/c/{it}", "h1 button")
    page.click("h1 button")
    page.wait_for_selector(".rename input:focus")
    page.keyboard.insert_text("x" * 81)
    page.keyboard.press("Enter")
    problem = page.wait_for_selector(".rename-problem").inner_text()
    assert problem == "has 81 characters; 1 to 80 are allowed"
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("🙂" * 80)
    page.keyboard.press("Enter")
    page.wait_for_selector(".rename", state="detached")
    assert stage.client.conversations.get(it).title == "🙂" * 80
    page.close()
