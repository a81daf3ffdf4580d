"""Conversations as a whole on the page: topics, the archive, and the space that they are in."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from recollect import Client, Message, Trust
from recollect_server.kernel.domain.conversation import SplitSuggested
from recollect_server.kernel.domain.time import system_clock
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.credentials.conftest import grant, tokens_of
from tests.waiting import until
from tests.web.conftest import Bridge, Browsing, Stage, axe, wait

ROW = "[data-list] .row-link"


def conversation(client: Client, title: str) -> str:
    it = client.conversations.create("web", messages=[Message.user(f"About {title}")])
    client.conversations.rename(it.id, title)
    return it.id


def test_topics_are_set_beside_a_transcript(stage: Stage, window: Browsing) -> None:
    it = conversation(stage.client, "Topics here")
    with stage.server.spaces.use("default") as opened, opened._space.writing(it) as state:
        opened._space.append(state, [SplitSuggested("Two plans.", ("Costs", "Ghent"), state.size)])
    page = window.tab(f"/c/{it}?details=1", ".details")
    page.wait_for_selector(".view-meta .badge >> text=Several subjects")
    page.wait_for_selector(
        ".details >> text=Could be several conversations (Costs; Ghent): Two plans."
    )
    page.click(".details [aria-label='Edit topics']")
    page.keyboard.type("Server Costs, travel, travel, %%")
    page.keyboard.press("Enter")
    page.wait_for_selector(".topics-form [role=alert]")
    assert stage.client.conversations.get(it).topics == ()
    page.fill(".topics-form input", "Server Costs, travel, travel")
    page.keyboard.press("Enter")
    page.wait_for_selector(".topics >> text=server-costs")
    wait(page, "document.activeElement.ariaLabel === 'Edit topics'")
    stored = stage.client.conversations.get(it)
    assert (stored.topics, stored.topics_by_hand) == (("server-costs", "travel"), True)
    page.keyboard.press("Enter")
    page.wait_for_selector(".topics-form input:focus")
    page.keyboard.press("Escape")  # the form alone: the panel stays
    page.wait_for_selector(".topics-form", state="detached")
    assert axe(page) == []
    page.close()


def test_a_conversation_is_archived_from_the_list_and_taken_out_again(
    stage: Stage, window: Browsing
) -> None:
    first, second = (conversation(stage.client, f"Harbour {it}") for it in (1, 2))
    page = window.tab("/?named=Harbour")
    page.wait_for_selector(f"#row-{second}")
    page.keyboard.press("s")
    wait(page, f"document.activeElement.id === 'row-{second}'")
    page.keyboard.press("a")
    page.wait_for_selector(f"#row-{second}", state="detached")
    assert stage.client.conversations.get(second).archived
    wait(page, f"document.activeElement.id === 'row-{first}'")  # the one that took its place
    page.wait_for_selector(".notice >> text=Archived “Harbour 2”.")
    assert axe(page) == []
    page.click(".notice >> text=Undo")
    page.wait_for_selector(f"#row-{second}")
    assert not stage.client.conversations.get(second).archived
    # by the menu of the row, without a pointer
    page.focus(f"#row-{first}")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=menu] [role=menuitem]:focus")
    assert axe(page) == []
    page.locator("[role=menuitem]", has_text="Archive").press("Enter")
    page.wait_for_selector(f"#row-{first}", state="detached")
    page.click("[aria-label='More filters']")
    page.check(".filter-bar [type=checkbox]")
    page.wait_for_selector(f"#row-{first}")
    assert "archived=1" in page.url
    # the other goes when the list is answered
    wait(page, f"document.querySelectorAll('{ROW}').length === 1")
    page.click(f"#row-{first}")
    page.wait_for_selector(".view-meta >> text=Archived")
    page.click("[aria-label=Details]")
    page.click(".details >> text=Take out of the archive")
    page.wait_for_selector(".details >> text=It stands in the list")
    page.wait_for_selector(f"#row-{first}", state="detached")
    assert not stage.client.conversations.get(first).archived
    page.close()


def test_topics_are_set_in_the_list(stage: Stage, window: Browsing) -> None:
    it = conversation(stage.client, "Listed topics")
    page = window.tab("/?named=Listed")
    page.hover(f"#row-{it}")
    page.click(".row-menu")
    page.click("[role=menu] >> text=Edit topics")
    page.wait_for_selector("[data-list] input:focus")
    page.keyboard.type("boats")
    page.keyboard.press("Enter")
    wait(page, f"document.activeElement.id === 'row-{it}'")
    assert stage.client.conversations.get(it).topics == ("boats",)
    page.close()


def test_a_list_is_filtered_by_a_topic_and_follows_it(stage: Stage, window: Browsing) -> None:
    conversations = stage.client.conversations
    one, other = (conversation(stage.client, title) for title in ("Leaking", "Not leaking"))
    conversations.set_topics(one, ["boiler", "costs"])
    page = window.tab("/", f"#row-{other}")
    page.wait_for_selector(".live-live", state="attached")
    page.click("[aria-label='More filters']")
    page.select_option(".filter-bar [aria-label=Topic]", "boiler")
    page.wait_for_selector(f"#row-{other}", state="detached")
    page.wait_for_selector(f"#row-{one}")  # the list is empty until it is read
    assert page.locator(ROW).count() == 1
    assert page.url.endswith("?about=boiler")
    conversations.set_topics(other, ["boiler"])
    page.wait_for_selector(f"#row-{other}")
    conversations.set_topics(one, ["costs"])
    page.wait_for_selector(f"#row-{one}", state="detached")
    assert axe(page) == []
    page.select_option(".filter-bar [aria-label=Topic]", "")
    page.wait_for_selector(f"#row-{one}")
    page.close()


def test_a_pinned_conversation_stands_at_the_top_of_the_list(
    stage: Stage, window: Browsing
) -> None:
    first = stage.client.conversations.create("pins", messages=[Message.user("Keep me")]).id
    for number in range(120):
        stage.client.conversations.create("pins", messages=[Message.user(f"item {number}")])
    stage.client.conversations.update_metadata(first, {"mine": 1})
    page = window.tab(f"/c/{first}?on=pins", ".message >> text=Keep me")
    page.wait_for_selector(".live-live", state="attached")
    page.click("main [aria-label='More actions']")
    page.click("[role=menu] >> text=Pin to the top")
    page.wait_for_selector(f"[aria-posinset='1'] #row-{first}")
    assert page.locator(".list-group >> nth=0").inner_text() == "Pinned"
    newer = stage.client.conversations.create("pins", messages=[Message.user("Newer")]).id
    page.wait_for_selector(f"[aria-posinset='2'] #row-{newer}")
    page.close()
    page = window.tab("/?on=pins")  # it is far behind the first page of the list
    page.wait_for_selector(f"[aria-posinset='1'] #row-{first}")
    assert axe(page) == []
    page.focus(f"#row-{first}")
    page.keyboard.press("p")
    page.wait_for_selector(f"[aria-posinset='1'] #row-{newer}")
    page.wait_for_selector("text=Pinned", state="detached")
    assert stage.client.conversations.get(first).metadata == {"mine": 1}
    page.close()


def test_what_is_redacted_leaves_the_page_at_once(stage: Stage, window: Browsing) -> None:
    it = stage.client.conversations.create("web", messages=[Message.user("The code is 4711")]).id
    stage.client.conversations.append_turn(it, [Message.assistant("Noted.")])
    page = window.tab(f"/c/{it}", ".message >> text=The code is 4711")
    page.wait_for_selector(".live-live", state="attached")
    first = stage.client.conversations.load(it).messages[0]
    stage.client.conversations.redact_message(it, first.sequence)
    page.wait_for_selector(".message >> text=[redacted]")
    # titles follow a frame later
    wait(page, "!document.documentElement.outerHTML.includes('4711')")
    assert page.locator(".message >> text=Noted.").count() == 1
    page.close()


def test_an_answer_from_before_a_redaction_brings_nothing_back(
    stage: Stage, window: Browsing
) -> None:
    it = stage.client.conversations.create("web", messages=[Message.user("The code is 4712")]).id
    held: list[Any] = []
    page = window.context.new_page()

    streams: list[Any] = []

    def hold_the_second(call: Any) -> None:
        held.append(call)
        if len(held) != 2:
            call.continue_()

    # The page reads a second time if its stream begins behind the first read, so the stream waits
    # for that; without the worker, for the requests of a worker pass the page's routes by.
    page.route("**/*.ConversationService/Load", hold_the_second)
    page.route("**/*.ConversationService/StreamUpdates", lambda it: streams.append(it))
    page.goto(f"{window.bridge.origin}/c/{it}?without-worker")
    until(lambda: (held and streams) or page.wait_for_timeout(20))
    page.wait_for_selector(".message >> text=The code is 4712")
    stage.client.conversations.append_turn(it, [Message.user("in the second answer alone")])
    page.unroute("**/*.ConversationService/StreamUpdates")
    streams[0].continue_()
    until(lambda: len(held) > 1 or page.wait_for_timeout(20))
    answer = held[1].fetch()
    page.wait_for_selector(".live-live", state="attached")
    stage.client.conversations.redact_message(it, 2)
    page.wait_for_selector(".message >> text=[redacted]")
    stage.client.conversations.append_turn(it, [Message.user("said meanwhile")])
    page.wait_for_selector(".message >> text=said meanwhile")
    held[1].fulfill(response=answer)
    page.wait_for_selector(".message >> text=in the second answer alone")
    # titles follow a frame later
    wait(page, "!document.documentElement.outerHTML.includes('4712')")
    assert page.locator(".message >> text=said meanwhile").count() == 1
    page.close()


def test_what_is_said_while_the_page_begins_is_shown(stage: Stage, window: Browsing) -> None:
    it = conversation(stage.client, "Begun early")
    held: list[Any] = []
    page = window.context.new_page()

    def hold_the_first(call: Any) -> None:
        held.append(call)
        if len(held) > 1:
            call.continue_()

    page.route("**/*.ConversationService/Load", hold_the_first)
    page.goto(f"{window.bridge.origin}/c/{it}")
    until(lambda: held or page.wait_for_timeout(20))
    answer = held[0].fetch()
    page.wait_for_selector(".live-live", state="attached")
    stage.client.conversations.append_turn(it, [Message.user("while it began")])
    page.wait_for_selector(f"#row-{it} >> text=while it began")
    held[0].fulfill(response=answer)
    page.wait_for_selector(".message >> text=About Begun early")
    page.wait_for_selector(".message >> text=while it began")
    assert page.locator(".message").count() == 2
    page.close()


def test_an_answer_from_before_a_new_title_or_a_deletion_brings_nothing_back(
    stage: Stage, window: Browsing
) -> None:
    renamed, deleted = (conversation(stage.client, f"Held {it}") for it in ("one", "two"))
    held: list[Any] = []
    page = window.tab()
    page.wait_for_selector(".live-live", state="attached")
    page.route("**/*.ConversationService/Load", lambda it: held.append(it))

    def answer(it: str) -> Any:
        held.clear()
        page.click(f"#row-{it}")
        until(lambda: held or page.wait_for_timeout(20))
        return held[0].fetch()

    before = answer(renamed)
    stage.client.conversations.rename(renamed, "Named meanwhile")
    page.wait_for_selector(f"#row-{renamed} >> text=Named meanwhile")
    held[0].fulfill(response=before)
    page.wait_for_selector(".message >> text=About Held one")
    assert page.inner_text("h1") == "Named meanwhile"
    assert page.inner_text(f"#row-{renamed} bdi") == "Named meanwhile"

    before = answer(deleted)
    stage.client.conversations.delete(deleted)
    page.wait_for_selector("main >> text=was deleted")
    with page.expect_event("requestfinished", lambda it: it.url.endswith("/Load")):
        held[0].fulfill(response=before)
    for _ in range(3):
        page.evaluate("new Promise(requestAnimationFrame)")
    assert page.locator("main >> text=was deleted").count() == 1
    assert "About Held two" not in page.content()
    assert page.locator(f"#row-{deleted}").count() == 0
    page.close()


def test_an_answer_from_before_an_update_does_not_undo_it(stage: Stage, window: Browsing) -> None:
    renamed, archived, other, deleted = (
        conversation(stage.client, f"Late {it}") for it in range(4)
    )
    page = window.tab("/?named=late")
    page.wait_for_selector(".live-live", state="attached")
    here = stage.client.conversations

    def overtake(
        it: str, method: str, change: Callable[[], None], update: Callable[[], None]
    ) -> None:
        held: list[Any] = []
        page.route(f"**/*.ConversationService/{method}", lambda call: held.append(call))
        page.focus(f"#row-{it}")
        change()
        until(lambda: held or page.wait_for_timeout(20))
        answer = held[0].fetch()
        update()
        with page.expect_event("requestfinished", lambda it: it.url.endswith(method)):
            held[0].fulfill(response=answer)
        for _ in range(3):
            page.evaluate("new Promise(requestAnimationFrame)")

    def type_over(key: str, text: str) -> None:
        page.keyboard.press(key)
        page.wait_for_selector(".row input:focus")
        page.keyboard.type(text)
        page.keyboard.press("Enter")

    def rename_again() -> None:
        here.rename(renamed, "Late, and named again")
        # Its own row is a field until the answer comes.
        here.rename(other, "Late, and last")
        page.wait_for_selector(f"#row-{other} >> text=Late, and last")

    overtake(renamed, "Rename", lambda: type_over("F2", "Late by hand"), rename_again)
    assert page.inner_text(f"#row-{renamed} bdi") == "Late, and named again"

    def take_out() -> None:
        here.archive(archived, unarchive=True)
        here.rename(archived, "Late, and back")
        page.wait_for_selector(f"#row-{archived} >> text=Late, and back")

    overtake(archived, "Archive", lambda: page.keyboard.press("a"), take_out)
    assert page.locator(f"#row-{archived}").count() == 1

    def delete() -> None:
        here.delete(deleted)
        page.wait_for_selector(f"[data-row='{deleted}']", state="detached")

    overtake(deleted, "SetTopics", lambda: type_over("t", "boats"), delete)
    assert page.locator(f"#row-{deleted}").count() == 0
    page.close()


def test_a_page_of_the_list_from_before_a_change_does_not_undo_it(
    stage: Stage, window: Browsing
) -> None:
    names = ("stays", "is renamed", "is archived", "is deleted")
    stays, renamed, archived, deleted = (
        conversation(stage.client, f"Airborne: {it}") for it in names
    )
    held: list[Any] = []
    page = window.tab(f"/c/{stays}", ".message")
    page.wait_for_selector(".live-live", state="attached")
    page.route("**/*.ConversationService/List", lambda it: held.append(it))
    page.evaluate(
        "history.pushState(null, '', '?named=airborne'); dispatchEvent(new Event('popstate'))"
    )
    # the page, and those that are pinned
    until(lambda: len(held) == 2 or page.wait_for_timeout(20))
    before = [it.fetch() for it in held]
    stage.client.conversations.rename(renamed, "Airborne under another name")
    stage.client.conversations.archive(archived)
    stage.client.conversations.delete(deleted)
    stage.client.conversations.append_turn(stays, [Message.user("the last update")])
    page.wait_for_selector(".message >> text=the last update")
    for call, answer in zip(held, before, strict=True):
        call.fulfill(response=answer)
    page.wait_for_selector(f"#row-{stays}")
    rows = page.eval_on_selector_all(
        ROW, "rows => rows.map(it => [it.id, it.querySelector('bdi').innerText])"
    )
    assert dict(rows) == {
        f"row-{renamed}": "Airborne under another name",
        f"row-{stays}": "Airborne: stays",
    }
    page.close()


def test_what_is_said_before_the_stream_stands_is_shown(stage: Stage, window: Browsing) -> None:
    it = conversation(stage.client, "Before the stream")
    held: list[Any] = []
    page = window.context.new_page()
    page.route("**/*.ConversationService/StreamUpdates", lambda call: held.append(call))
    page.goto(f"{window.bridge.origin}/c/{it}?without-worker")
    page.wait_for_selector(".message >> text=About Before the stream")
    until(lambda: held or page.wait_for_timeout(20))
    stage.client.conversations.append_turn(it, [Message.user("before it stood")])
    held[0].continue_()
    page.wait_for_selector(".message >> text=before it stood")
    assert page.locator(".message").count() == 2
    page.close()


@pytest.fixture
def retention(stage: Stage) -> Iterator[None]:
    """Reset what a test sets of retention: the stage is of all tests."""
    yield
    for name in ("retention", "retention_grace"):
        stage.client.admin.set_setting(name, reset=True)


@pytest.mark.usefixtures("retention")
def test_rules_of_retention_are_asked_for_and_say_from_when_they_delete(
    stage: Stage, window: Browsing
) -> None:
    stage.client.admin.set_setting("retention_grace", "10m")
    time = datetime.now(UTC) - timedelta(days=400)
    old = stage.client.conversations.create("older", create_time=time)
    stage.client.conversations.append_turn(old.id, [Message.user("The old roof", timestamp=time)])
    for _ in range(3):
        stage.conversation("Of today", "Hello")
    page = window.tab("/settings?find=retention", "#setting-retention")

    def save(rules: str) -> str:
        page.fill("#setting-retention", rules)
        page.click(".setting:has(#setting-retention) >> text=Save")
        page.wait_for_selector(".meant")
        assert stage.client.admin.list_retention_rules().rules == ()
        return str(page.inner_text(".meant"))

    shown = save("delete idle=90d")
    assert "delete or unindex 1 conversation now." in shown
    assert "The old roof" in shown
    page.click(".meant >> text=Cancel")
    page.wait_for_selector(".meant", state="detached")
    # more than half of all: the number is typed
    total = stage.client.admin.preview_retention(retention="delete conversations=1").total
    assert "more than half of all" in save("delete conversations=1")
    assert page.is_disabled(".meant >> text=Set these rules")
    page.fill(".meant input", str(total + 1))
    assert page.is_disabled(".meant >> text=Set these rules")
    page.fill(".meant input", str(total))
    page.click(".meant >> text=Set these rules")
    page.wait_for_selector(".done >> text=Rules that are new do nothing before")
    assert stage.client.admin.list_retention_rules().rules[0].start_time is not None
    assert stage.client.conversations.get(old.id).id == old.id
    page.close()


@pytest.mark.usefixtures("retention")
def test_a_conversation_that_is_not_searched_says_so(stage: Stage, window: Browsing) -> None:
    time = datetime.now(UTC) - timedelta(days=40)
    old = stage.client.conversations.create("oldest", create_time=time)
    stage.client.conversations.append_turn(old.id, [Message.user("Long ago", timestamp=time)])
    page = window.tab("/?on=oldest")
    page.wait_for_selector(f"#row-{old.id}")
    assert "not searched" not in page.inner_text(f"#row-{old.id}")
    stage.client.admin.set_setting("retention_grace", "0s")
    stage.client.admin.set_setting("retention", "unindex channel=oldest idle=30d")

    def is_unindexed() -> bool:
        stage.server.spaces.open_now()[0].jobs["retention"].next_at = 0.0
        return stage.client.conversations.get(old.id).unindexed

    until(is_unindexed)
    page.reload()
    page.wait_for_selector(f"#row-{old.id} >> text=not searched")
    page.click(f"#row-{old.id}")
    page.wait_for_selector(".view-meta .badge >> text=Not searched")
    page.close()


def test_a_blocked_party_is_marked_as_read_only(stage: Stage, window: Browsing) -> None:
    stage.client.channels.add_owner_identity("signal", "+4917012345678")
    stage.client.channels.receive("signal", "m-1", "Hello", sender="+351912000100")
    (party,) = stage.client.external.list_communications()
    page = window.tab("/third-parties", ".people-rows a")
    stage.client.external.set_trust(party.id, Trust.KNOWN)
    page.reload()
    page.wait_for_selector(".people-rows a >> text=Known")
    assert "read only" not in page.inner_text(".people-rows a")
    stage.client.external.set_trust(party.id, Trust.BLOCKED)
    page.reload()
    page.wait_for_selector(".people-rows a >> text=Blocked")
    assert "read only" in page.inner_text(".people-rows a")
    page.close()


def test_a_call_that_is_refused_is_tried_again_and_takes_effect_once(
    stage: Stage, window: Browsing
) -> None:
    it = conversation(stage.client, "Tried again")
    page = window.tab(f"/c/{it}", "textarea")
    bodies: list[bytes] = []

    def lose_the_first_answer(call: Any) -> None:
        bodies.append(call.request.post_data_buffer)
        if len(bodies) > 1:
            call.continue_()
            return
        call.fetch()  # it is stored, and nobody hears of it
        refused = '{"code": "unavailable", "message": "the server is stopping"}'
        call.fulfill(status=503, content_type="application/json", body=refused)

    page.route("**/*.ConversationService/AppendTurn", lose_the_first_answer)
    page.fill("textarea", "Only once")
    page.keyboard.press("Enter")
    page.wait_for_selector(".message >> text=Only once")
    wait(page, "document.querySelector('textarea').value === ''")
    assert len(bodies) == 2
    assert bodies[0] == bodies[1]
    texts = [one.content for one in stage.client.conversations.load(it).messages]
    assert texts.count("Only once") == 1
    page.close()


def test_words_typed_while_a_message_is_on_its_way_stay(stage: Stage, window: Browsing) -> None:
    it = stage.client.conversations.create("web").id
    page = window.tab(f"/c/{it}", "textarea")
    held: list[Any] = []
    page.route("**/*.ConversationService/AppendTurn", lambda call: held.append(call))
    page.fill("textarea", "The first")
    page.press("textarea", "Enter")
    until(lambda: held or page.wait_for_timeout(20))
    page.locator("textarea").press_sequentially(" and the second")
    held.pop().continue_()
    page.wait_for_selector("text=The first")
    wait(page, "document.querySelector('textarea').value === 'and the second'")
    page.unroute_all()
    page.press("textarea", "Enter")
    wait(page, "document.querySelector('textarea').value === ''")
    stored = stage.client.conversations.load(it).messages
    assert [message.content for message in stored] == ["The first", "and the second"]
    page.close()


def test_words_that_are_not_sent_yet_wait_in_their_conversation(
    stage: Stage, window: Browsing
) -> None:
    one, two = (stage.client.conversations.create("web").id for _ in range(2))
    page = window.tab(f"/c/{one}", "textarea")
    page.fill("textarea", "Half a thought")
    for it, text in ((two, ""), (one, "Half a thought")):
        page.click(f"#row-{it}")
        page.wait_for_url(f"**/c/{it}*")
        wait(page, f"document.querySelector('textarea')?.value === '{text}'")
    page.press("textarea", "Enter")
    wait(page, "document.querySelector('textarea').value === ''")
    (message,) = until(lambda: stage.client.conversations.load(one).messages)
    assert message.content == "Half a thought"
    page.close()


@pytest.fixture(scope="module")
def spaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bridge, Client, Client]]:
    """Start a server that asks for tokens, with two spaces, and its bridge. The page's token is for
    both.
    """
    folder = tmp_path_factory.mktemp("spaces") / "data"
    values = {"listen": "127.0.0.1:0", "data_dir": folder, "auth": "required"}
    server = app.start(Settings.load(None, values))
    _, secret = tokens_of(folder, system_clock).create(grant("admin", "work", "home"))
    bridge = Bridge(server.address, RECOLLECT_TOKEN=secret)
    work, home = (Client(server.address, token=secret, space=it) for it in ("work", "home"))
    with work, home:
        yield bridge, work, home
    bridge.stop()
    server.stop()


def test_each_space_is_a_page_of_its_own(
    browser: Any, spaces: tuple[Bridge, Client, Client]
) -> None:
    bridge, work, home = spaces
    at_work, at_home = conversation(work, "Salaries"), conversation(home, "Dinner")
    window = Browsing(browser, bridge)
    page = window.tab()
    page.wait_for_selector(f"#row-{at_work}")  # the token's first
    assert page.locator(ROW).count() == 1
    page.click(".space-button")
    page.wait_for_selector("dialog [aria-current] >> text=work")
    assert axe(page) == []
    page.click("dialog >> text=home")
    page.wait_for_selector(f"#row-{at_home}")
    assert "Salaries" not in page.content()
    page.click(f"#row-{at_home}")
    page.wait_for_selector(".message >> text=About Dinner")
    assert page.url.endswith(f"/c/{at_home}?space=home")
    # the stream is the space's own
    page.wait_for_selector(".live-live", state="attached")
    later = conversation(home, "Breakfast")
    hidden = conversation(work, "Bonus")
    page.wait_for_selector(f"#row-{later}")
    assert page.locator(f"#row-{hidden}").count() == 0
    # every link and filter stays in it, and a foreign id is not there
    for path in ("search", "insights", "third-parties"):
        page.click(f".sections a[href^='/{path}']")
        page.wait_for_selector("h1")
        assert "space=home" in page.url
    page.goto(f"{bridge.origin}/search?q=Salaries&space=home")
    page.wait_for_selector(".results >> text=Nothing was found.")
    page.goto(f"{bridge.origin}/c/{at_work}?space=home")
    page.wait_for_selector("text=This conversation does not exist")
    # what is written is written there
    page.keyboard.press("n")
    page.wait_for_selector("textarea:focus")
    page.keyboard.type("Written at home")
    page.keyboard.press("Enter")
    page.wait_for_selector(".message >> text=Written at home")
    created = page.url.rsplit("/", 1)[1].split("?")[0]
    assert home.conversations.get(created).id == created
    # going back over the border loads anew
    page.goto(f"{bridge.origin}/?space=work")
    page.wait_for_selector(f"#row-{hidden}")
    page.go_back()
    page.wait_for_selector(f"#row-{at_home}")
    assert "Salaries" not in page.content()
    assert "Bonus" not in page.content()
    page.close()
    assert window.problems == []
    window.context.close()


@pytest.mark.parametrize("name", ["elsewhere", "..%2Fwork", "Work%00"])
def test_a_space_that_a_token_is_not_for_is_refused(
    browser: Any, spaces: tuple[Bridge, Client, Client], name: str
) -> None:
    bridge, _, _ = spaces
    window = Browsing(browser, bridge)
    page = window.tab(f"/?space={name}", ".gate")
    page.wait_for_selector("text=This space cannot be shown")
    assert page.locator(ROW).count() == 0
    assert axe(page) == []
    page.click("text=Open your own space")
    page.wait_for_selector(".shell")
    page.close()
    window.context.close()
