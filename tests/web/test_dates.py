"""The field of dates: as the person's own locale writes them."""

from typing import Any

import pytest

from tests.web.conftest import Browsing, Stage, axe, wait


@pytest.mark.parametrize(
    ("locale", "pattern", "typed", "written"),
    [
        ("de-DE", "dd.mm.yyyy", "5.4.2026", "05.04.2026"),
        ("en-US", "mm/dd/yyyy", "04052026", "04/05/2026"),
        ("sv-SE", "yyyy-mm-dd", "2026-4-5", "2026-04-05"),
        ("fa-IR", "yyyy/mm/dd", "2026/04/05", "2026/04/05"),
    ],
)
def test_a_date_is_typed_and_shown_as_the_persons_locale_writes_it(
    browser: Any, stage: Stage, locale: str, pattern: str, typed: str, written: str
) -> None:
    window = Browsing(browser, stage.bridge, locale=locale)
    page = window.tab("/search", "[role=search]")
    field = page.get_by_label("From", exact=True)
    assert field.get_attribute("placeholder") == pattern
    field.fill(typed)
    wait(page, "location.search.includes('from=2026-04-05')")
    field.blur()
    wait(page, "(it) => document.querySelector('[name=from]').value === it", written)
    page.reload()
    page.wait_for_selector("[role=search]")
    assert field.input_value() == written
    window.context.close()
    assert window.problems == []


def test_what_is_no_date_is_marked_and_changes_nothing(window: Browsing) -> None:
    page = window.tab("/search?from=2026-04-05", "[role=search]")
    field = page.get_by_label("From", exact=True)
    field.fill("02/31/2026")
    field.blur()
    page.wait_for_selector("[name=from][aria-invalid=true]")
    assert axe(page) == []
    assert "from=2026-04-05" in page.url
    field.fill("")
    wait(page, "!location.search.includes('from')")
    page.close()


def test_a_date_is_chosen_from_the_calendar(window: Browsing) -> None:
    page = window.tab("/search", "[role=search]")
    # its window is the browser's own, in which no test can click: it sets the field behind
    page.locator("[name=to] ~ [type=date]").evaluate(
        "(it) => { it.value = '2026-04-05'; it.dispatchEvent(new Event('change')); }"
    )
    wait(page, "location.search.includes('to=2026-04-05')")
    assert page.input_value("[name=to]") == "04/05/2026"
    page.close()
