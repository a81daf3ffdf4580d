"""The views of insights, third parties, settings and health in a real browser."""

from typing import Any

import pytest
from recollect import Client, Message, ReceivedExternal, Trust, Usage
from recollect.v1.external_communication_service_pb2 import DeleteCommunicationsRequest

from tests.web.conftest import COLOURS, Browsing, Stage, axe, visit, wait

HOSTILE = "<img src=x onerror=alert(1)>\u202eexe.txt"
VIEWS = {
    "/insights": ".chart",
    "/third-parties": ".people-rows a",
    "/settings": ".setting",
    "/health": ".overall",
    "/tokens": ".tokens .empty",
    "/audit": ".audit .empty",
    "/backups": ".backups .now",
}


@pytest.fixture(scope="module", autouse=True)
def contents(stage: Stage) -> Client:
    """Write what the views show: two channels, a cost, and two third parties with questions."""
    client = stage.client
    for channel, count in (("web", 3), ("cli", 1)):
        for _ in range(count):
            answer = Message.assistant("Yes.", usage=Usage(1000, 50), cost=0.25)
            it = client.conversations.create(channel, messages=[Message.user("Is it?"), answer])
            client.conversations.set_topics(it.id, ["servers"])
    client.channels.add_owner_identity("whatsapp", "+4917012345678")
    for number, name in enumerate(("Hanan", HOSTILE)):
        text = "Shall I hold the flat?"
        sender = f"+3519120001{number:02}"
        client.channels.receive("whatsapp", f"m-{number}", text, sender=sender, sender_name=name)
    return client


def test_insights_count_what_was_written_and_tell_it_to_the_keyboard(window: Browsing) -> None:
    page = window.tab("/insights", ".chart")
    filters = page.locator(".filters .choice").first
    assert filters.evaluate("it => getComputedStyle(it).borderTopWidth") == "0px"
    tiles = page.locator(".tile-value").all_inner_texts()
    assert tiles == ["4", "4", "8", "4,200", "$1.00"]
    assert page.locator(".told").inner_text() == "30 days: 8 messages"
    legend = page.locator(".legend li").all_inner_texts()
    assert [it.split() for it in legend] == [["Web", "6"], ["Command", "line", "2"]]
    page.locator("[role=slider]").focus()
    page.keyboard.press("End")
    value = page.get_attribute("[role=slider]", "aria-valuetext")
    assert value.endswith("8 messages; Web 6; Command line 2")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(".told >> text=0 messages")
    page.locator(".figures summary").press("Enter")
    assert page.locator(".figures tbody tr").count() == 30
    assert page.locator(".figures tbody tr").last.inner_text().split()[-3:] == ["6", "2", "8"]
    assert page.locator(".heat tbody td").count() == 7 * 24
    numbers = page.locator(".heat tbody td").all_inner_texts()
    assert sum(int(it or 0) for it in numbers) == 8
    page.close()


def test_the_filters_of_insights_live_in_the_address(window: Browsing) -> None:
    page = window.tab("/insights?range=1y&group=topic", ".chart")
    assert page.locator("select[name=by]").input_value() == "month"
    page.select_option("select[name=measure]", "cost")
    page.wait_for_selector("h2 >> text=Cost by topic")
    assert page.url.endswith("/insights?range=1y&group=topic&measure=cost")
    page.reload()
    page.wait_for_selector("h2 >> text=Cost by topic")
    assert page.locator(".legend li").inner_text().split() == ["servers", "$1.00"]
    page.close()


def test_a_question_of_a_third_party_is_answered_and_its_trust_set_by_keyboard(
    stage: Stage, window: Browsing
) -> None:
    page = window.tab("/third-parties", ".people-rows a")
    page.locator(".people-rows a", has_text="Hanan").press("Enter")
    page.wait_for_selector(".question-form")
    page.locator(".question-form input").focus()
    page.keyboard.type("Yes, until Thursday.")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=You answered: Yes, until Thursday.")
    page.wait_for_selector("#reply-text").fill("Please hold it.")
    page.locator(".reply button").press("Enter")
    page.wait_for_selector(".said[data-ours=true] >> text=Please hold it.")
    page.locator(".trust button").press("Enter")
    page.wait_for_selector(".trust-form input:checked:focus")
    page.keyboard.press("ArrowDown")  # from Untrusted to Known
    page.locator(".trust-form .field input").fill("Not kebab case!")
    page.locator(".trust-form button").first.press("Enter")
    page.wait_for_selector(".trust-form [role=alert]")
    page.locator(".trust-form .field input").fill("scheduling travel")
    page.locator(".trust-form button").first.press("Enter")
    page.wait_for_selector(".trust >> text=scheduling, travel")
    page.close()
    (party,) = stage.client.external.list_communications(trust=Trust.KNOWN)
    assert (party.party_name, party.scopes, party.open_escalations) == (
        "Hanan",
        ("scheduling", "travel"),
        0,
    )


def test_a_third_party_is_found_by_its_name_its_address_or_its_words(
    stage: Stage, window: Browsing
) -> None:
    external, name = stage.client.external, "+351912000188"
    text = "The piano is tuned on Monday, says Hanan."
    stage.client.channels.receive("whatsapp", "tuner", text, sender=name, sender_name="Zoë Ruiz")
    page = window.tab("/third-parties", ".people-rows a")
    everybody = page.locator(".people-rows .person bdi").all_inner_texts()

    def look_for(words: str, *names: str) -> None:
        page.fill(".people-filters input[type=search]", words)  # without Enter
        wait(page, _SHOWN, list(names))

    def lead(words: str, *names: str) -> None:
        """Look for words, of which others may have some that are written alike."""
        page.fill(".people-filters input[type=search]", words)
        wait(page, _LEAD, [list(names), len(everybody)])

    for words in ("zoe", "ruiz", "00351 912 000 188", "piano tuned"):
        lead(words, "Zoë Ruiz")
        look_for("", *everybody)
    lead("hanan", "Hanan", "Zoë Ruiz")  # who is called so, then who speaks of her
    page.check(".people-filters input[type=checkbox]")
    look_for("zoe", "Zoë Ruiz")
    (it,) = external.list_communications(party=name)
    external.set_trust(it.id, Trust.BLOCKED)  # which closes its question
    look_for("ruiz")
    assert axe(page) == []
    page.close()
    external.delete_communications(communication_ids=[it.id])


_SHOWN = """(names) => document.querySelector('.people-rows, .people-list p.state')
  && [...document.querySelectorAll('.people-rows .person bdi')].map((it) => it.textContent).join('\\n')
    === names.join('\\n')"""
"""An expression that is true if the list has these names, in this order."""

_LEAD = """([names, everybody]) => {
  const shown = [...document.querySelectorAll('.people-rows .person bdi')].map((it) => it.textContent);
  return shown.length < everybody && shown.slice(0, names.length).join('\\n') === names.join('\\n');
}"""
"""An expression that is true if the list begins with these names, and is shorter than everybody."""


def test_a_third_party_is_deleted_here_or_everywhere_and_leaves_a_receipt(
    stage: Stage, window: Browsing
) -> None:
    external, sender = stage.client.external, "351912000177"
    texts = [("whatsapp", "d-1"), ("whatsapp", "d-2"), ("sms", "d-3"), ("signal", "d-4")]
    for channel, number in texts:
        stage.client.channels.receive(
            channel, number, "Is the flat free?", sender=f"+{sender}", sender_name="Nuno"
        )
    here = next(it for it in external.list_communications(party=sender) if it.channel == "whatsapp")
    page = window.tab(f"/third-parties/{here.id}", ".exchange-body")
    row = f".people-rows a[href*='{here.id}']"

    def facts() -> dict[str, str]:
        names, values = page.locator("dialog dt"), page.locator("dialog dd")
        return dict(zip(names.all_inner_texts(), values.all_inner_texts(), strict=True))

    page.click(".exchange [aria-label='Delete…']")
    page.wait_for_selector("dialog >> text=Delete what this third party wrote?")
    page.wait_for_selector("dialog >> text=2 messages with the replies")
    page.wait_for_selector(f"dialog >> text=All 3 exchanges, on every channel, of {sender}")
    assert axe(page) == []
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    page.click(".exchange [aria-label='Delete…']")
    page.click("dialog >> text=Delete for good")
    page.wait_for_selector("dialog >> text=1 exchange was deleted")
    assert {name: facts()[name] for name in ("Exchanges", "Messages", "Questions to you")} == {
        "Exchanges": "1",
        "Messages": "2",
        "Questions to you": "1",
    }
    page.click("dialog .primary")
    page.wait_for_selector(row, state="detached")
    page.wait_for_selector("text=Choose a third party")
    left = list(external.list_communications(party=sender))
    assert {it.channel for it in left} == {"sms", "signal"}
    page.click(f".people-rows a[href*='{left[0].id}']")
    page.click(".exchange [aria-label='Delete…']")
    page.check("dialog input[type=checkbox]")
    page.click("dialog >> text=Delete for good")
    page.wait_for_selector("dialog >> text=2 exchanges were deleted")
    assert facts()["Exchanges"] == "2"
    assert list(external.list_communications(party=sender)) == []
    page.close()


def test_more_exchanges_of_an_address_than_a_call_deletes_go_all_the_same(
    stage: Stage, window: Browsing
) -> None:
    external, sender = stage.client.external, "351912000178"
    for channel in ("whatsapp", "sms", "signal", "telegram", "viber"):
        stage.client.channels.receive(
            channel, f"{channel}-e", "Is the flat free?", sender=f"+{sender}", sender_name="Rui"
        )
    of_sender = list(external.list_communications(party=sender))
    page = window.tab(f"/third-parties/{of_sender[0].id}", ".exchange-body")

    def limit(route: Any) -> None:
        """Let a call delete two at most, in place of a thousand."""
        request = DeleteCommunicationsRequest.FromString(route.request.post_data_buffer)
        request.limit = 2
        route.continue_(post_data=request.SerializeToString())

    page.route("**/*/DeleteCommunications", limit)
    page.click(".exchange [aria-label='Delete…']")
    page.check(f"dialog >> text=All 2+ exchanges, on every channel, of {sender}")
    page.click("dialog >> text=Delete for good")
    page.wait_for_selector(f"dialog >> text={len(of_sender)} exchanges were deleted")
    messages = page.locator("dialog dl > div", has_text="Messages").locator("dd")
    assert messages.inner_text() == str(sum(it.message_count for it in of_sender))
    assert list(external.list_communications(party=sender)) == []
    page.close()


def test_a_message_of_a_third_party_is_redacted_with_the_question_that_quotes_it(
    stage: Stage, window: Browsing
) -> None:
    external = stage.client.external
    received = stage.client.channels.receive(
        "whatsapp", "r-1", "The code is 4711", sender="+351912000178", sender_name="Rui"
    )
    assert isinstance(received.outcome, ReceivedExternal)
    name = received.outcome.communication.id
    page = window.tab(f"/third-parties/{name}", ".exchange-body")
    page.wait_for_selector(".question-form >> text=Rui wrote on WhatsApp:")
    page.wait_for_selector(".question-form blockquote >> text=The code is 4711")
    page.get_by_label("Take its text away").click()
    page.wait_for_selector("dialog .action-quote >> text=The code is 4711")
    page.wait_for_selector("dialog >> text=go for good")
    assert axe(page) == []
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    page.get_by_label("Take its text away").click()
    page.click("dialog .danger")
    page.wait_for_selector("dialog >> text=1 message was redacted")
    page.wait_for_selector("dialog >> text=The question that quoted it has none of its words")
    page.click("dialog .primary")
    page.wait_for_selector(".said >> text=[redacted]")
    page.wait_for_selector(".question-form >> text=[redacted]")
    assert page.get_by_label("Take its text away").count() == 0
    assert page.locator("text=4711").count() == 0
    assert [it.text for it in external.get_communication(name).messages] == ["[redacted]"]
    page.close()


def test_the_names_of_third_parties_are_texts_whatever_is_in_them(window: Browsing) -> None:
    page = window.tab("/third-parties?open=1", ".people-rows a")
    page.locator(".people-rows a", has_text="<img src=x onerror=alert(1)>").click()
    page.wait_for_selector("h1 >> text=onerror")
    assert page.locator("main img").count() == 0
    page.close()


def test_a_setting_is_changed_refused_by_its_rule_and_reset(stage: Stage, window: Browsing) -> None:
    def value() -> tuple[str, str]:
        settings = stage.client.admin.list_settings().settings
        it = next(it for it in settings if it.key == "profile_tokens")
        return it.value, it.source

    page = window.tab("/settings?find=profile_tokens", ".setting")
    before = value()
    field = page.locator("#setting-profile_tokens")
    field.fill("100001")
    field.press("Enter")
    page.wait_for_selector(".setting [role=alert] >> text=100000")
    assert field.get_attribute("aria-invalid") == "true"
    assert value() == before
    field.fill("7")
    field.press("Enter")
    page.wait_for_selector(".setting [role=status] >> text=in force")
    assert value() == ("7", "file")
    page.get_by_role("button", name="Use the default").press("Enter")
    page.wait_for_selector("#setting-profile_tokens:not([value='7']) >> nth=0")
    page.wait_for_selector(".setting .badge", state="detached")
    assert value() == before
    page.goto(page.url.replace("profile_tokens", "data_dir"))
    page.wait_for_selector("#setting-data_dir:disabled")
    page.close()


def test_health_shows_the_parts_the_jobs_and_the_spaces(window: Browsing) -> None:
    page = window.tab("/health", ".overall")
    assert "Everything works" in page.locator(".overall").inner_text()
    jobs = page.locator("table.jobs tbody th").all_inner_texts()
    assert {"Embedding", "Notes"} <= {it.splitlines()[0] for it in jobs}
    assert page.locator("text=No job has failed.").count() == 1
    spaces = page.locator("section", has=page.locator("h2", has_text="Spaces")).last
    assert spaces.locator("tbody tr").inner_text().split()[:4] == [
        "default",
        "open",
        "default",
        "4",
    ]
    page.close()


def test_health_names_what_a_crash_left_until_the_file_is_removed(
    stage: Stage, window: Browsing
) -> None:
    name = "default/conversations/conv-1.jsonl.torn"
    file = stage.server.data_dir / name
    file.write_bytes(b"half a line")
    page = window.tab("/health", ".overall")
    page.wait_for_selector(f"text={name}")
    assert "1 file has what a crash left" in page.locator("main").inner_text()
    file.unlink()
    page.reload()
    page.wait_for_selector(".overall >> text=Everything works")
    page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_no_view_shuts_anybody_out(window: Browsing, width: int) -> None:
    page = window.tab()
    page.set_viewport_size({"width": width, "height": 800})
    for path, part in VIEWS.items():
        page.emulate_media(color_scheme="light")
        visit(page, path)
        page.wait_for_selector(part)
        assert axe(page) == [], path
        page.emulate_media(color_scheme="dark")
        assert axe(page, COLOURS) == [], path
        assert not page.evaluate("() => document.documentElement.scrollWidth > innerWidth"), path
    page.locator("a[href^='/third-parties']").first.evaluate("it => it.click()")
    page.goto(window.bridge.origin + "/third-parties?open=1")
    page.wait_for_selector(".people-rows a").click()
    page.wait_for_selector(".said")
    assert axe(page) == []
    page.emulate_media(color_scheme="light")
    assert axe(page, COLOURS) == []
    page.close()
