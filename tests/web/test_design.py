"""The design of the page: one scale, empty views that lead on, and motion that explains."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from recollect import Message

from tests.web.conftest import ROW, Browsing, Stage, axe, visit, wait

SOURCES = Path(__file__).parents[2] / "web/src"
TYPESCRIPT = SOURCES.parent / "node_modules/typescript/lib/typescript.js"
SPACE = re.compile(r"(?:padding|margin|gap|row-gap|column-gap)(?:-[a-z-]+)?")
OF_THE_SCALE = re.compile(
    r"(?:0|1px|auto|inherit|var\(--s[1-7]\)|-\d+px|\d+vh|calc\(.*\))(?: !important)?"
)
"""The forms of a space: a step of the scale, a hairline, or a correction of what an eye sees."""
ELSEWHERE = {"font-size": "var(--", "font-weight": "var(--", "border-radius": "var(--"}
FREE = {"0", "400", "50%", "999px", "inherit"}


def declarations() -> Iterator[tuple[str, str, str]]:
    """Yield the file, the property and the value of every declaration."""
    for file in sorted(SOURCES.rglob("*.css")):
        if file == SOURCES / "styles/tokens.css":
            continue
        text = re.sub(r"/\*.*?\*/", "", file.read_text(), flags=re.S)
        for name, value in re.findall(r"(?<![\w-])([a-z-]+): ([^;{}]+)(?=[;}])", text):
            yield str(file.relative_to(SOURCES)), name, value.strip()


def test_space_and_type_come_from_one_scale() -> None:
    wrong = []
    for file, name, value in declarations():
        if SPACE.fullmatch(name):
            parts = re.findall(r"(?:calc\(.*\)|[^ ]+)", value.replace(" !important", ""))
            if not all(OF_THE_SCALE.fullmatch(it) for it in parts):
                wrong.append(f"{file}: {name}: {value}")
        elif name in ELSEWHERE:
            parts = value.replace(" !important", "").split()
            if not all(it in FREE or it.startswith(ELSEWHERE[name]) for it in parts):
                wrong.append(f"{file}: {name}: {value}")
    assert wrong == []


def test_every_word_of_the_page_is_in_the_folder_of_its_language() -> None:
    if not TYPESCRIPT.exists():
        pytest.skip(f"{TYPESCRIPT} is missing: npm ci in web/")
    files = [str(it) for it in SOURCES.rglob("*.ts*") if it.parent.name != "en"]
    outcome = subprocess.run(
        ["node", "-e", _WORDS, TYPESCRIPT, *files],
        capture_output=True,
        text=True,
        check=True,
    )
    assert outcome.stdout.splitlines() == []
    # and each folder is named in the four modules that choose it, and nowhere else
    naming = [
        str(file.relative_to(SOURCES))
        for file in SOURCES.rglob("*.ts*")
        if re.search(r'from "[^"]*/en/', file.read_text())
    ]
    assert sorted(naming) == [
        "texts/administration.ts",
        "texts/imports.ts",
        "texts/index.ts",
        "texts/views.ts",
    ]
    numbers = [
        file.name
        for file in SOURCES.rglob("*.ts*")
        if file.parent.name != "en"
        and re.search(r'(?:LocaleString|NumberFormat)\("', file.read_text())
    ]
    assert numbers == []


_WORDS = """
const [path, ...files] = process.argv.slice(1);
const ts = require(path);
const fs = require("fs");
// two words beside each other, or one that begins with a capital letter
const isSaid = (text) => /\\p{L}{2,}[.,:;!?…]?\\s+\\p{L}{2,}/u.test(text) || /^\\p{Lu}\\p{Ll}/u.test(text);
const isWord = (text) => /\\p{L}{2}/u.test(text);
const shown = new Set(["aria-label", "title", "placeholder", "alt", "label", "text"]);
const ofMachines = new Set(["class", "rel"]);
// names of keys and errors, what is compared with an error's text, and the form of an id
const names = new Set(["Tab", "Enter", "Escape", "Esc", "Home", "End", "Ctrl", "Ctrl K", "ArrowDown", "ArrowUp", "AbortError",
  "No connection to the server", "conv-…"]);
// commands and programs
const isCode = (text) => /^(?:recollect-server |--backup-key-file |import json\\n)/.test(text);
const textOf = (node) => ts.isStringLiteralLike(node) || ts.isJsxText(node) ? node.text
  : ts.isTemplateExpression(node) ? [node.head, ...node.templateSpans.map((it) => it.literal)].map((it) => it.text).join(" 0 ")
  : "";
for (const file of files) {
  const kind = file.endsWith("x") ? ts.ScriptKind.TSX : ts.ScriptKind.TS;
  const source = ts.createSourceFile(file, fs.readFileSync(file, "utf8"), ts.ScriptTarget.Latest, true, kind);
  const look = (node) => {
    if (ts.isImportDeclaration(node) || ts.isTypeNode(node)) return;
    if (ts.isJsxAttribute(node) && ofMachines.has(node.name.getText())) return;
    if (ts.isCallExpression(node) && /(?:closest|querySelector(?:All)?|matches)$/.test(node.expression.getText())) return;
    const text = textOf(node).trim();
    const isShown = ts.isJsxText(node) || (ts.isJsxAttribute(node.parent ?? node) && shown.has(node.parent.name.getText()));
    if ((isShown ? isWord : isSaid)(text) && !names.has(text) && !isCode(text)) console.log(file, text);
    ts.forEachChild(node, look);
  };
  look(source);
}
"""


def test_a_conversation_begins_where_nothing_is_chosen(stage: Stage, window: Browsing) -> None:
    page = window.tab("/?on=", "main .composer textarea")
    assert axe(page) == []
    page.fill("main textarea", "When does the harbour open?")
    page.keyboard.press("Enter")
    page.wait_for_selector(".message >> text=When does the harbour open?")
    path = page.evaluate("location.pathname")
    [it] = stage.client.conversations.load(path.removeprefix("/c/")).messages
    assert it.content == "When does the harbour open?"
    page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_an_empty_view_leads_on(stage: Stage, window: Browsing, width: int) -> None:
    page = window.tab("/?space=empty", ".conversations .empty")
    page.set_viewport_size({"width": width, "height": 800})
    for path, shown in {
        "/third-parties?space=empty": ".first-lines >> text=client.channels.receive(",
        "/insights?space=empty&range=7d": "main button >> text=Show 12 months",
        "/tokens?space=empty": ".empty button >> text=New token",
        "/audit?space=empty": ".empty a >> text=To the tokens",
    }.items():
        visit(page, path)
        page.wait_for_selector(shown)
        assert axe(page) == [], path
    page.close()
    stage.client.conversations.set_topics(stage.conversation("Kept", "a boat"), ["boats"])
    page = window.tab("/search", ".state .topics a")
    page.click(".state .topics a >> text=boats")
    page.wait_for_selector(".result >> text=Kept")
    page.close()


def test_motion_shows_where_a_part_comes_from_and_hides_no_word(
    stage: Stage, window: Browsing
) -> None:
    it = stage.conversation("Moving", "a boat")
    page = window.tab(f"/c/{it}", ".message")
    page.evaluate(_LISTEN)
    page.click(".account")
    page.wait_for_selector("[role=menu]")
    page.keyboard.press("Escape")
    page.click("[aria-label=Details]")
    page.wait_for_selector(".details")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    wait(page, "moved.size === 3")
    assert set(page.evaluate("[...moved]")) == {"drop", "enter", "rise"}
    # a place moves; what fades in could not be read meanwhile
    faded = [
        f"{file}: {value}"
        for file, name, value in declarations()
        if name == "animation" and "fade" in value
    ]
    assert faded == []
    page.emulate_media(reduced_motion="reduce")
    page.keyboard.press("Escape")
    page.evaluate("moved.clear()")
    page.click(".account")
    page.wait_for_selector("[role=menu]")
    page.keyboard.press("Escape")
    page.wait_for_selector("[role=menu]", state="detached")
    assert page.evaluate("moved.size") == 0
    page.close()


_LISTEN = """() => {
    window.moved = new Set();
    addEventListener('animationstart', (event) => moved.add(event.animationName), true);
}"""


def test_a_row_that_moves_shows_from_where(stage: Stage, window: Browsing) -> None:
    first = stage.conversation("Going up", "a boat")
    for number in range(3):
        stage.conversation(f"Above {number}", "a boat")
    page = window.tab("/?on=", f"#row-{first}")
    page.wait_for_selector(".live-live", state="attached")
    page.evaluate(
        "addEventListener('transitionend', (it) => { window.slid = it.propertyName; }, true)"
    )
    stage.client.conversations.append_turn(first, [Message.user("And now?")])
    wait(page, f"document.querySelector('{ROW}').id === 'row-{first}'")
    wait(page, "'slid' in window")
    assert page.evaluate("slid") == "transform"
    page.close()
