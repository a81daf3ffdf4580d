"""The page without a pointer: every control of every view is a stop of Tab; each task is done."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from recollect import Message, Trust

from tests.web.conftest import ROW, Browsing, Stage, axe, visit, wait

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def ids(stage: Stage) -> dict[str, str]:
    """Write two conversations, one over many days, and a third party with a question."""
    client = stage.client
    long = client.conversations.create("web")
    for turn in range(60):
        at = NOW - timedelta(days=60 - turn)
        messages = [
            Message.user(f"The lighthouse, day {turn}", timestamp=at),
            Message.assistant("Noted. " * 40, thinking_text="Hm", timestamp=at),
        ]
        client.conversations.append_turn(long.id, messages)
    client.conversations.rename(long.id, "A long story")
    short = client.conversations.create("cli", messages=[Message.user("The harbour")])
    client.conversations.rename(short.id, "A short story")
    client.channels.add_owner_identity("whatsapp", "+4917012345678")
    text = "Shall I hold the flat?"
    client.channels.receive("whatsapp", "m-1", text, sender="+351912000100", sender_name="Hanan")
    (party,) = client.external.list_communications()
    return {"long": long.id, "short": short.id, "party": party.id}


VIEWS = {
    "/": ("[data-list] .row-link", 1280),
    "/?on=cli": ("[data-list] .row-link", 390),
    "/c/{long}?details=1": (".details .facts", 1280),
    "/c/{short}": (".message", 390),
    "/search?q=lighthouse": (".result", 1280),
    "/insights": (".chart", 1280),
    "/third-parties/{party}": (".question-form", 1280),
    "/settings?find=recall": (".setting", 1280),
    "/health": (".overall", 1280),
    "/c/nothing": ("main .state.empty", 1280),
}


def test_tab_reaches_every_control_and_shows_where_it_is(
    window: Browsing, ids: dict[str, str]
) -> None:
    page = window.tab()
    page.wait_for_selector(".live-live", state="attached")
    for path, (part, width) in VIEWS.items():
        page.set_viewport_size({"width": width, "height": 800})
        visit(page, path.format(**ids))
        page.wait_for_selector(part)
        page.evaluate(_PREPARE)
        presses = 0
        while (stop := press_tab(page)) is not None:
            presses += 1
            assert stop["visible"], (path, stop)
            assert stop["outlined"], (path, stop)
            assert stop["stays"] < 8, f"a trap: {path} {stop}"
            assert presses < 300
        assert page.evaluate(_MISSED) == [], path
        # and back: the last one is left too
        page.keyboard.press("Shift+Tab")
        assert presses > 5, path
    page.close()


def press_tab(page: Any) -> Any:
    """Press Tab and describe where the focus is; None when it went all the way round."""
    page.keyboard.press("Tab")
    return page.evaluate(_STOP)


_PREPARE = """() => {
  window.walked = new Set();
  window.stays = 0;
  window.last = null;
  // As after loading: Tab begins where the focus was lost, at the top.
  const top = document.createElement('button');
  document.body.prepend(top);
  top.focus();
  top.remove();
  const isVisible = (it) => it.checkVisibility({ visibilityProperty: true });
  window.controls = () => [...document.querySelectorAll(
    'a[href], button, input, select, textarea, summary, [tabindex]')].filter((it) =>
      it.tabIndex >= 0 && !it.disabled && isVisible(it) &&
      !(it.type === 'radio' && !it.checked));
}"""
_STOP = """async () => {
  // What the focus brought into view is there only with the next frame.
  await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)));
  const it = document.activeElement;
  if (it === document.body || (window.walked.has(it) && it !== window.last)) return null;
  window.stays = it === window.last ? window.stays + 1 : 0;
  window.last = it;
  window.walked.add(it);
  const style = getComputedStyle(it);
  const box = it.getBoundingClientRect();
  return {
    html: it.outerHTML.slice(0, 120),
    stays: window.stays,
    outlined: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0,
    visible: it.checkVisibility({ visibilityProperty: true, opacityProperty: true }) &&
      box.width > 0 && box.right > 0 && box.left < innerWidth && box.bottom > 0 && box.top < innerHeight,
  };
}"""
_MISSED = """() => {
  // A row that came in before the first one that Tab reached is on the way back.
  const rowOf = (it) => it.closest('.transcript .virtual-row');
  const first = [...window.walked].find((it) => rowOf(it));
  const isBefore = (it) => first && rowOf(it) && +rowOf(it).dataset.index < +rowOf(first).dataset.index;
  return window.controls().filter((it) => !window.walked.has(it) && !isBefore(it))
    .map((it) => it.outerHTML.slice(0, 160));
}"""


def tab_to(page: Any, selector: str, presses: int = 120, key: str = "Tab") -> None:
    """Press Tab until the focus is on what a selector names."""
    for _ in range(presses):
        page.keyboard.press(key)
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"Tab does not reach {selector}")


def test_each_task_is_done_without_a_pointer(
    stage: Stage, window: Browsing, ids: dict[str, str]
) -> None:
    # a third party of its own, for what it asks is answered here
    stage.client.channels.receive("whatsapp", "m-2", "May I?", sender="+351912000200")
    asking = next(iter(stage.client.external.list_communications()))  # the newest
    assert asking.id != ids["party"]
    page = window.tab()
    page.wait_for_selector("[data-list] .row-link")
    # filter, open, rename
    tab_to(page, ".filter-bar [type=search]")
    page.keyboard.type("long story")
    page.wait_for_selector(f"#row-{ids['short']}", state="detached")
    page.wait_for_selector(f"#row-{ids['long']}")  # the list is empty until it is read
    tab_to(page, f"#row-{ids['long']}")
    page.keyboard.press("Enter")
    page.wait_for_selector(".message")
    tab_to(page, "h1 button")
    page.keyboard.press("Enter")
    page.wait_for_selector(".rename input:focus")
    page.keyboard.type("A longer story")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1 >> text=A longer story")
    # jump to a date, typed as its field takes it
    tab_to(page, ".jump [name=date]")
    day = NOW - timedelta(days=40)
    page.keyboard.type(day.strftime("%m%d%Y"))
    page.wait_for_selector("[data-target=true] >> text=/The lighthouse, day (19|20|21)/")
    # search, and what a hit has
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.wait_for_selector("[role=search] [type=search]:focus")
    page.keyboard.type("harbour")
    page.keyboard.press("Enter")
    page.wait_for_selector(".result")
    tab_to(page, ".result-actions button")
    page.keyboard.press("Enter")
    page.wait_for_selector(".result-turns .message")
    # answer a question, then trust the one who asked
    tab_to(page, ".sections a[href^='/third-parties']")
    page.keyboard.press("Enter")
    page.wait_for_selector(".people-rows a")
    tab_to(page, f".people-rows a[href*='{asking.id}']")
    page.keyboard.press("Enter")
    page.wait_for_selector(".question-form")
    tab_to(page, ".question-form input")
    page.keyboard.type("Yes, until Friday.")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=You answered: Yes, until Friday.")
    tab_to(page, ".trust button")
    page.keyboard.press("Enter")
    page.wait_for_selector(".trust-form input:checked:focus")
    page.keyboard.press("ArrowDown")
    tab_to(page, ".trust-form button.primary")
    page.keyboard.press("Enter")
    page.wait_for_selector(".trust >> text=Known")
    (party,) = stage.client.external.list_communications(trust=Trust.KNOWN)
    assert (party.id, party.open_escalations) == (asking.id, 0)
    # change a setting
    tab_to(page, ".sections a[href^='/health']")
    page.keyboard.press("Enter")
    page.wait_for_selector(".overall")
    tab_to(page, ".tabs a[href^='/settings']")
    page.keyboard.press("Enter")
    page.wait_for_selector(".setting")
    tab_to(page, ".find")
    page.keyboard.type("profile_tokens")
    wait(page, "document.querySelectorAll('.setting').length === 1")
    tab_to(page, "#setting-profile_tokens")
    page.keyboard.press("Control+a")
    page.keyboard.type("9")
    page.keyboard.press("Enter")
    page.wait_for_selector(".setting [role=status] >> text=in force")
    # archive, and take it back
    page.keyboard.press("Escape")
    page.keyboard.press("s")
    wait(page, "document.activeElement.matches('.row-link')")
    row = page.evaluate("document.activeElement.id")  # of those on the screen
    conversation_id = row.removeprefix("row-")
    page.keyboard.press("a")
    page.wait_for_selector(".notice-box")
    assert stage.client.conversations.get(conversation_id).archived
    tab_to(page, ".notice .button")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#{row}")
    assert not stage.client.conversations.get(conversation_id).archived
    page.close()


def test_the_list_is_reached_though_its_last_row_left_the_screen(
    stage: Stage, window: Browsing
) -> None:
    for number in range(40):
        stage.conversation(f"Row {number}", "one")
    page = window.tab()
    page.wait_for_selector("[data-list] .row-link")
    page.keyboard.press("s")
    wait(page, "document.activeElement.matches('.row-link')")
    page.keyboard.press("End")
    wait(page, "document.querySelector('[data-list]').scrollTop > 1000")
    wait(page, "document.activeElement.matches('.row-link')")
    page.evaluate("document.activeElement.blur()")
    page.evaluate("document.querySelector('[data-list]').scrollTop = 0")
    wait(page, "document.querySelector('[data-list] .virtual-row').dataset.index === '0'")
    page.keyboard.press("s")
    assert page.evaluate("document.activeElement.matches('.row-link')")
    page.close()


def test_everything_works_by_keyboard(stage: Stage, window: Browsing) -> None:
    first = stage.conversation("Keyboard one", "one")
    second = stage.conversation("Keyboard two", "two")
    page = window.tab()
    page.wait_for_selector(f"#row-{second}")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.keyboard.press("s")
    wait(page, f"document.activeElement.id === 'row-{second}'")
    page.keyboard.press("ArrowDown")
    wait(page, f"document.activeElement.id === 'row-{first}'")
    # of the list, one element alone is a stop of Tab
    assert page.locator("[data-list] a[tabindex='0']").count() == 1
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("F2")
    page.wait_for_selector("input[aria-label='New title']")
    page.keyboard.type("Renamed by keys")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#row-{first} >> text=Renamed by keys")
    assert stage.client.conversations.get(first).title == "Renamed by keys"
    wait(page, f"document.activeElement.id === 'row-{first}'")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1 >> text=Renamed by keys")
    for end in ("Enter", "Escape"):
        page.focus("h1 [aria-label=Rename]")
        page.keyboard.press("Enter")
        wait(page, "document.activeElement.matches('.view-title input')")
        page.keyboard.press(end)
        wait(page, "document.activeElement.matches('h1 [aria-label=Rename]')")
    page.focus("[aria-controls=details]")
    page.keyboard.press("Enter")
    page.focus(".details-close")
    page.keyboard.press("Enter")
    wait(page, "document.activeElement.ariaExpanded === 'false'")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    page.keyboard.press("/")
    page.wait_for_selector("[role=search] input[type=search]:focus")
    page.keyboard.type("one")
    page.keyboard.press("Enter")
    page.wait_for_selector(".result")
    page.keyboard.press("Escape")  # leaves the field, so that shortcuts work again
    page.keyboard.press("g")
    assert page.evaluate("document.activeElement.id") == "content"
    page.close()


_OPENED = """([key, field]) => new Promise((resolve) => {
  const observer = new MutationObserver(() => {
    const it = document.querySelector(field);
    if (!it) return;
    observer.disconnect();
    resolve(document.activeElement === it);
  });
  observer.observe(document.body, { childList: true, subtree: true });
  const from = document.activeElement;
  if (key === "click") from.click();
  else from.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
})"""
"""Script that tells if a field has the focus as it appears, before any other key is pressed."""


def test_a_field_that_a_key_opens_takes_the_next_letter(stage: Stage, window: Browsing) -> None:
    it = stage.conversation("Typed at once", "one")
    page = window.tab(f"/c/{it}?details=1", ".message")
    page.wait_for_selector(f"#row-{it}")
    for start, key, field in (
        (f"#row-{it}", "F2", ".row input"),
        (f"#row-{it}", "t", ".row input"),
        (f"#row-{it}", "f", ".find input"),
        ("h1 [aria-label=Rename]", "click", ".view-title input"),
        (".details [aria-label='Edit topics']", "click", ".topics-form input"),
    ):
        page.focus(start)
        assert page.evaluate(_OPENED, [key, field]), (start, key)
        page.keyboard.press("Escape")
        page.wait_for_selector(field, state="detached")
    page.close()


def test_a_row_under_the_keyboard_may_move_or_be_written_in(stage: Stage, window: Browsing) -> None:
    edited, *others = (stage.conversation(f"Moves {it}", "one") for it in range(5))
    page = window.tab("/?named=moves")
    page.wait_for_selector(f"#row-{edited}")
    page.wait_for_selector(".live-live", state="attached")
    page.focus(f"#row-{edited}")
    stage.client.conversations.append_turn(edited, [Message.user("again")])
    wait(page, f"document.querySelector('{ROW}').id === 'row-{edited}'")
    assert page.evaluate("document.activeElement.id") == f"row-{edited}"
    stage.client.conversations.append_turn(others[0], [Message.user("again")])
    wait(page, f"document.querySelector('{ROW}').id === 'row-{others[0]}'")
    page.keyboard.press("F2")
    page.wait_for_selector(".row input:focus")
    page.keyboard.type("Half ")
    stage.client.conversations.append_turn(edited, [Message.user("and again")])
    stage.client.conversations.rename(others[0], "Moves, and all saw it")
    page.wait_for_selector("text=Moves, and all saw it")
    page.keyboard.type("a name")
    assert page.input_value(".row input") == "Half a name"
    page.keyboard.press("Escape")
    wait(page, f"document.querySelector('{ROW}').id === 'row-{edited}'")
    wait(page, f"document.activeElement.id === 'row-{edited}'")
    page.close()


def test_the_palette_goes_to_names_views_commands_and_what_was_said(
    window: Browsing, ids: dict[str, str]
) -> None:
    page = window.tab()
    page.wait_for_selector(ROW)

    def ask(words: str, option: str) -> None:
        page.keyboard.press("Control+k")
        page.wait_for_selector("dialog.palette input:focus")
        page.keyboard.type(words)
        page.wait_for_selector(f"[role=option] >> text={option}")

    page.focus(".filter-bar [type=search]")  # while somebody types too
    ask("lighthouse", "Search everything for “lighthouse”")
    page.wait_for_selector("[role=group][aria-label='What was said'] >> text=The lighthouse, day")
    assert axe(page) == []
    page.keyboard.press("ArrowUp")  # from the first to the last
    page.wait_for_selector("#palette-all[aria-selected=true]")
    page.keyboard.press("Enter")
    page.wait_for_selector(".result")
    assert "/search?q=lighthouse" in page.url
    for words, option, part, path in (
        ("short st", "A short story", ".message", f"/c/{ids['short']}"),
        ("insig", "Insights", ".chart", "/insights"),
        ("new conv", "New conversation", "#composer, textarea", "/c/new"),
    ):
        ask(words, option)
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog", state="detached")
        page.wait_for_selector(part)
        assert path in page.url
    page.keyboard.press("Control+k")
    page.wait_for_selector("dialog.palette input:focus")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    page.close()


def test_the_palette_acts_on_the_conversation_that_is_shown(stage: Stage, window: Browsing) -> None:
    it = stage.conversation("To be acted on", "The harbour")
    window.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = window.tab(f"/c/{it}", ".message")
    page.wait_for_selector(".live-live", state="attached")

    def act(words: str, option: str) -> None:
        page.keyboard.press("Control+k")
        page.wait_for_selector("dialog.palette input:focus")
        page.keyboard.type(words)
        page.wait_for_selector(f"[role=option][aria-selected=true] >> text={option}")
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog.palette", state="detached")

    act("details", "Details")
    page.wait_for_selector(".details")
    act("rename", "Rename")
    page.wait_for_selector(".view-title input:focus")
    page.keyboard.type("Acted on")
    page.keyboard.press("Enter")
    page.wait_for_selector(".view-title h1 >> text=Acted on")
    act("copy mark", "Copy as Markdown")
    wait(page, "navigator.clipboard.readText().then((it) => it.includes('# Acted on'))")
    assert "About The harbour: noted." in page.evaluate("navigator.clipboard.readText()")
    act("copy a link", "Copy a link")
    wait(page, f"navigator.clipboard.readText().then((it) => it.endsWith('/c/{it}'))")
    act("archive", "Archive")
    page.wait_for_selector(".view-meta .badge >> text=Archived")
    act("take out", "Take out of the archive")
    page.wait_for_selector(".view-meta .badge", state="detached")
    act("export", "Export…")
    page.wait_for_selector("dialog[open] >> text=Export 1 conversation")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    act("dark the", "Theme: dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    act("delete", "Delete…")
    page.wait_for_selector("dialog[open] >> text=Delete 1 conversation?")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    visit(page, "/insights")
    page.keyboard.press("Control+k")
    page.wait_for_selector("dialog.palette input:focus")
    page.keyboard.type("delete")
    page.wait_for_selector("#palette-all")
    assert "Delete…" not in page.inner_text("#palette-list")
    page.close()


def test_the_palette_shows_nothing_that_most_likely_does_not_answer(
    stage: Stage, window: Browsing
) -> None:
    stage.conversation("Boats", "The harbour opens at nine", "Who paints the hull?", "Sails")
    query = "who is there"
    scores = [it.score for it in stage.client.recall.search(query).results]
    assert scores
    assert max(scores) < 0.3  # the bound below which the search doubts its answers
    page = window.tab()
    page.keyboard.press("Control+k")
    page.wait_for_selector("dialog.palette input:focus")
    with page.expect_response("**/*.RecallService/Search*") as answered:
        page.keyboard.type(query)
    answered.value.finished()
    page.wait_for_selector("#palette-all >> text=who is there")
    page.wait_for_timeout(200)
    assert page.query_selector("[id^=palette-said-]") is None
    page.close()
