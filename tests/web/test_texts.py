"""Parts of messages: lists and tables in both directions of writing, footnotes, logs, tools."""

from typing import Any

import pytest
from recollect import Message, ToolCall

from tests.web.conftest import COLOURS, TOO_WIDE, Browsing, Stage, axe, visit, wait

ARABIC = """أهلا بك

1. أول عنصر في القائمة
2. ثاني عنصر: English first
3. ثالث عنصر

> اقتباس من شخص ما

| الاسم | العدد |
|---|---|
| علي | 7 |
"""


def answer(stage: Stage, text: str) -> str:
    """Store a conversation whose last message is an answer with this text."""
    messages = [Message.user("Show it"), Message.assistant(text)]
    return stage.client.conversations.create("web", messages=messages).id


def box(page: Any, selector: str) -> dict[str, float]:
    """Return where an element stands."""
    place: dict[str, float] = page.locator(selector).first.bounding_box()
    return place


@pytest.mark.parametrize("width", [1280, 390])
def test_what_is_written_from_right_to_left_is_laid_out_so(
    stage: Stage, window: Browsing, width: int
) -> None:
    page = window.tab(f"/c/{answer(stage, ARABIC)}", ".markdown table")
    page.set_viewport_size({"width": width, "height": 800})
    numbers = page.evaluate("""() => {
      const list = document.querySelector('.markdown ol');
      const style = getComputedStyle(list);
      return [style.direction, parseFloat(style.paddingRight), parseFloat(style.paddingLeft)];
    }""")
    assert numbers == ["rtl", 24, 0]  # the numbers stand in the padding
    column, item = box(page, ".assistant .markdown"), box(page, ".markdown li")
    assert item["x"] + item["width"] + 24 <= column["x"] + column["width"] + 1
    quote = "getComputedStyle(document.querySelector('.markdown blockquote'))"
    assert page.evaluate(f"[{quote}.borderRightWidth, {quote}.borderLeftWidth]") == ["3px", "0px"]
    first, second = box(page, ".markdown th >> nth=0"), box(page, ".markdown th >> nth=1")
    assert first["x"] > second["x"]
    table, region = box(page, ".markdown table"), box(page, ".markdown .table")
    assert abs(table["x"] + table["width"] - region["x"] - region["width"]) < 1
    assert page.evaluate(TOO_WIDE) == []
    assert axe(page) == []
    page.close()


def test_a_task_runs_as_its_words_do(stage: Stage, window: Browsing) -> None:
    it = answer(stage, "- [x] נעשה\n- [ ] לעשות")
    page = window.tab(f"/c/{it}", ".markdown li")
    shown = page.evaluate("""() => [...document.querySelectorAll('.markdown ul, .markdown li > div')]
      .map((it) => getComputedStyle(it).direction)""")
    assert shown == ["rtl"] * 3  # the x that marks a task as done is none of its words
    marks = page.evaluate("getComputedStyle(document.querySelector('.markdown li')).listStyleType")
    assert marks == "none"  # its box stands for the bullet
    page.close()


def test_what_is_written_from_left_to_right_stays_so_beside_it(
    stage: Stage, window: Browsing
) -> None:
    text = "1. one: אחת\n2. two\n\n> quoted\n\n| a | b |\n|---|---|\n| שלום | 2 |"
    page = window.tab(f"/c/{answer(stage, text)}", ".markdown table")
    for part in ("ol", "blockquote", "table"):
        direction = f"getComputedStyle(document.querySelector('.markdown {part}')).direction"
        assert page.evaluate(direction) == "ltr", part
    cell = "getComputedStyle(document.querySelector('.markdown td')).direction"
    assert page.evaluate(cell) == "rtl"
    page.close()


def test_code_in_a_table_breaks_inside_no_word(stage: Stage, window: Browsing) -> None:
    words = "one two three four five six seven eight nine ten eleven twelve"
    name = "recollect_server.channels.commands.Commands"
    text = f"| name | what |\n|---|---|\n| `{name}` | {words} {words} |"
    page = window.tab(f"/c/{answer(stage, text)}", ".markdown td code")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.locator(".markdown td code").evaluate("(it) => it.getClientRects().length") == 1
    assert page.evaluate(TOO_WIDE) == []
    page.close()


def test_footnotes_stand_below_and_lead_there_and_back(stage: Stage, window: Browsing) -> None:
    text = (
        "The valve stuck[^valve] and the pump ran dry.[^2] As before.[^valve] Not [^this].\n\n"
        "[^valve]: See **the manual**,\n    page 7.\n[^2]: https://pump.example\n"
    )
    page = window.tab(f"/c/{answer(stage, text)}", ".markdown sup")
    assert page.locator(".markdown sup").all_inner_texts() == ["1", "2", "1"]
    assert page.locator(".footnotes > li").count() == 2
    assert "See the manual" in page.inner_text(".footnotes > li >> nth=0")
    assert "Not [^this]." in page.inner_text(".assistant .markdown > p")
    address = page.url
    page.click(".markdown sup a >> nth=1")
    assert page.evaluate("document.activeElement.innerText").startswith("https://pump.example")
    page.click(".footnotes li >> nth=1 >> [aria-label='Back to the text']")
    assert page.evaluate("document.activeElement.innerText") == "2"
    assert page.url == address
    assert axe(page) == []
    page.close()


def test_a_long_log_is_folded_after_twenty_lines(stage: Stage, window: Browsing) -> None:
    log = "\n".join(f"line {number}" for number in range(1, 301))
    call = ToolCall("1", "read_log", "{}")
    messages = [
        Message.user("The log?"),
        Message.assistant(f"Here:\n\n```\n{log}\n```\n\n```python\n{log}\n```", tool_calls=[call]),
        Message.tool(log, tool_call_id="1"),
        Message.assistant("That is all"),
    ]
    it = stage.client.conversations.create("web", messages=messages).id
    page = window.tab(f"/c/{it}", ".message >> text=That is all")
    page.click(".fold summary")
    for place in (".markdown figure >> nth=0", ".fold-body > div"):
        shown = page.locator(place).locator("pre")
        assert shown.inner_text().rstrip("…").rstrip().endswith("line 20")
        page.locator(place).locator("text=Show all 300 lines").click()
        shown.locator("text=line 300").wait_for()
        assert shown.inner_text().endswith("line 300")
    # code that somebody wrote is read whole
    assert page.locator(".markdown figure >> nth=1").inner_text().rstrip().endswith("line 300")
    page.close()


def test_a_result_is_laid_out_as_arguments_are_and_one_that_failed_looks_so(
    stage: Stage, window: Browsing
) -> None:
    calls = [ToolCall(str(it), f"tool_{it}", '{"of": 12345678901234567890}') for it in range(4)]
    messages = [
        Message.user("Run them"),
        Message.assistant(tool_calls=calls),
        Message.tool(
            '{"rows":[{"id":12345678901234567890,"name":"Caf\\u00e9"}]}', tool_call_id="0"
        ),
        Message.tool("no such file", tool_call_id="1", metadata={"isError": True}),
        Message.tool('{"error": "no such table"}', tool_call_id="2"),
        Message.tool("An error: none", tool_call_id="3"),
        Message.assistant("Ran"),
    ]
    it = stage.client.conversations.create("web", messages=messages).id
    page = window.tab(f"/c/{it}", ".message >> text=Ran")
    folds = page.locator(".fold")
    assert [it.get_attribute("data-failed") for it in folds.all()] == [
        "false",
        "true",
        "true",
        "false",
    ]
    assert folds.nth(1).locator("summary").inner_text().split("\n")[-1] == "failed"
    folds.nth(0).locator("summary").click()
    result = folds.nth(0).locator("pre").nth(1).inner_text()
    assert result == (
        '{\n  "rows": [\n    {\n      "id": 12345678901234567890,\n      "name": "Café"\n    }\n  ]\n}'
    )
    assert axe(page) == []
    page.emulate_media(color_scheme="dark")
    assert axe(page, COLOURS) == []
    page.close()


FORMULAS = r"""The roots are

$$
x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}
$$

with \(a \neq 0\), in $O(n \log n)$, of $2n+1$ and $x$.

\[ \int_0^\infty e^{-x^2}\,dx \]

Long: $$LONG$$
""".replace("LONG", "+".join(f"a_{{{n}}}" for n in range(60)))
PRICES = r"""It costs $5 and $6, or US$7-$8, between $10-$20, $5/$6, A$ and B$, \$5 and \$6: $$ or $$$.
The shell has $HOME/$USER, $PATH$ too, and set $x and $y. `$a$`"""


@pytest.mark.parametrize("width", [1280, 390])
def test_formulas_are_set_and_prices_are_not(stage: Stage, window: Browsing, width: int) -> None:
    loaded: list[str] = []
    page = window.tab(f"/c/{answer(stage, PRICES)}", ".markdown code")
    page.on("request", lambda it: loaded.append(it.url.rpartition("/")[2]))
    page.set_viewport_size({"width": width, "height": 800})
    shown = PRICES.replace("\\", "").replace("`", "").replace("\n", " ")
    assert page.inner_text(".assistant .markdown").replace("\n", " ") == shown
    assert page.locator(".formula").count() == 0
    assert not [it for it in loaded if it.startswith(("mathematics", "KaTeX"))]
    visit(page, f"/c/{answer(stage, FORMULAS)}")
    page.wait_for_selector(".assistant .formula")
    tex = "all => all.map((it) => it.textContent)"
    inline = page.locator(".formula:not(.displayed) annotation").evaluate_all(tex)
    assert inline == [r"a \neq 0", r"O(n \log n)", "2n+1", "x"]
    assert page.locator(".formula.displayed[tabindex='0']").count() == 3
    fonts = "[...document.fonts].filter((it) => it.status === 'loaded').length"
    wait(page, f"{fonts} > 2")
    assert "mathematics.js" in loaded
    assert page.evaluate(TOO_WIDE) == []
    assert axe(page) == []
    page.emulate_media(color_scheme="dark")
    assert axe(page, COLOURS) == []
    page.close()


def test_words_in_a_formula_are_found_where_it_was_written(stage: Stage, window: Browsing) -> None:
    page = window.tab(f"/c/{answer(stage, FORMULAS)}", ".assistant .formula")
    page.keyboard.press("f")
    page.keyboard.type("infty")
    page.wait_for_selector("text=1 of 1")
    page.wait_for_selector(r".assistant p >> text=\int_0^\infty")
    marked = "[...CSS.highlights.get('found')].map(String)"
    wait(page, f"{marked}.length > 0")
    assert page.evaluate(marked) == ["infty"]
    assert page.locator(".formula.displayed").count() == 2
    page.close()


HOSTILE = {
    "nested": r"$$" + r"\frac{1" * 150 + "}{2}" * 150 + "$$",
    "styles": r"$$" + r"\displaystyle\tiny" * 100 + "x$$",
    "roots": r"$$" + r"\sqrt{" * 280 + "}" * 280 + "$$",
    "defined": r"$$\def\a{\a\a}\a$$",
    "wide": r"$$\begin{matrix}" + "&" * 1900 + r"\end{matrix}$$",
    "unclosed": r"\[ " * 4000,
    "openings": "$a " * 4000,
}
"""Texts that no formula is made of: each could take a browser's memory, or its time."""


def test_a_hostile_formula_is_shown_as_it_was_written(stage: Stage, window: Browsing) -> None:
    page = window.tab()
    for name, text in HOSTILE.items():
        visit(page, f"/c/{answer(stage, text)}")
        page.locator(".assistant .said", has_text=text.replace("\\[", "[")[:20].strip()).wait_for()
        assert page.locator(".formula").count() == 0, name
    visit(page, f"/c/{answer(stage, '$x$ ' * 2000)}")
    page.wait_for_selector(".formula")
    assert page.locator(".formula").count() == 300
    page.close()


def test_a_formula_leads_nowhere_and_stays_in_its_place(stage: Stage, window: Browsing) -> None:
    tex = r"\href{javascript:alert(1)}{x}\htmlStyle{position:fixed}{y}\includegraphics{https://e.example/x.png}"
    text = rf"$${tex}\text{{<img src=x onerror=alert(1)>}}$$" + "\n\n"
    text += "Above.\n\n" * 8 + r"$$\smash{\rule[5em]{99999em}{5em}}\kern-20em x$$"
    page = window.tab(f"/c/{answer(stage, text)}", ".formula")
    assert page.locator(".formula").count() == 2
    assert page.locator(".formula :is(a, img, script, [style*=fixed])").count() == 0
    above = """() => {
      const { x, y, width } = [...document.querySelectorAll('.formula')].at(-1).getBoundingClientRect();
      return [-10, -40, -80, -120, -160, -200].map(
        (by) => document.elementFromPoint(x + width / 2 + 50, y + by).closest('.formula')?.innerText);
    }"""
    assert page.evaluate(above) == [None] * 6
    assert page.evaluate(TOO_WIDE) == []
    page.close()
