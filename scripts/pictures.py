"""Take the pictures of the page in docs/pictures: each view, light and dark.

It starts a server over a temporary folder, fills it with made-up conversations, and looks at the
page in the chromium that the tests use. Run it after a change of the page, and look at every one.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from recollect import Client, Message, Party, ToolCall, Trust, Usage  # noqa: E402
from recollect_server.run import app  # noqa: E402
from recollect_server.run.settings import Settings  # noqa: E402

PICTURES = ROOT / "docs/pictures"
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 800}
OWNER = "+4917012345678"

DIALOGUES: list[tuple[str, str, list[str], list[str]]] = [
    (
        "web",
        "Restore of the backup server",
        ["backups", "postgresql"],
        [
            "The nightly backup failed again. Can you see why?",
            "The disk of backup-2 is at 97 %. The dump of orders grew by 14 GB since Monday,"
            " so the last step had no room for its temporary file.",
            "What would free the most room without touching this month?",
            "Three things, largest first:\n\n1. WAL segments older than 30 days: 41 GB\n"
            "2. dumps of 2025 that are also in cold storage: 28 GB\n3. rotated logs: 6 GB\n\n"
            "I would begin with the WAL segments:\n\n```\npg_archivecleanup -n /srv/wal"
            " 0000000100000A2300000041\n```\n\nIt prints what it would remove and removes nothing.",
            "Do it, and tell me how much it was.",
            "Done: 40.6 GB are free, and tonight's backup is queued for 02:30.",
        ],
    ),
    (
        "web",
        "Flat in Lisbon: viewing on Thursday",
        ["travel", "housing"],
        [
            "When can I see the flat in Alfama?",
            "Thursday at 17:00. The agent, Inês, holds it until Friday noon.",
            "Ask her whether the lift works.",
            "Asked. I tell you when she answers.",
        ],
    ),
    (
        "cli",
        "Release 0.9: changelog and tags",
        ["release", "python"],
        [
            "Write the changelog from the commits since v0.8.",
            "Here is a draft: six features, eleven fixes, one breaking change in the settings file.",
            "Leave the internal refactorings out.",
            "They are out. Nine entries stay.",
        ],
    ),
    (
        "email",
        "Re: Invoice 2026-118",
        ["invoices"],
        [
            "The sum of the second page is wrong, is it not?",
            "Yes: the discount was taken twice. The corrected total is €1,284.00.",
        ],
    ),
    (
        "discord",
        "Reading group: chapter four",
        ["books"],
        [
            "Who presents chapter four?",
            "Mira does, on the 3rd. Tom brings the slides of last time.",
        ],
    ),
    (
        "web",
        "תכנון הטיול לגליל",
        ["travel"],
        ["כמה זמן לוקח מחיפה לצפת?", "כשעה ורבע ברכב, דרך כרמיאל."],
    ),
    (
        "web",
        "A very long title that somebody wrote to see what the list does with it, ok",
        ["design"],
        ["Does it fit?", "It is cut at the end of the line, and whole in its tooltip."],
    ),
    (
        "voice",
        "Shopping for Sunday",
        ["cooking"],
        ["What do I need for the tagine?", "Lamb, two lemons, olives, saffron. You have the rest."],
    ),
]


def fill(client: Client) -> dict[str, str]:
    """Write the conversations and third parties, and return the ids by name."""
    now = datetime.now(UTC)
    ids = {}
    for number, (channel, title, topics, texts) in reversed(list(enumerate(DIALOGUES))):
        party = None
        if channel == "email":
            party = Party(contact="billing@atelier.example", contact_name="Atelier Nord")
        if channel == "discord":
            party = Party(group_id="reading-group")
        it = client.conversations.create(channel, party=party, pinned=channel == "email")
        at = now - timedelta(hours=7 * number, minutes=9 + number)
        for turn, text in enumerate(texts):
            time = at + timedelta(minutes=turn)
            if turn % 2 == 0:
                messages = [Message.user(text, timestamp=time)]
            elif number == 0 and turn == 1:
                call = ToolCall("c1", "run_command", '{"host": "backup-2", "command": "df -h"}')
                thought = "The dump grew; the disk may be full. Look before guessing."
                messages = [
                    Message.assistant("", thinking_text=thought, tool_calls=[call], timestamp=time),
                    Message.tool("/dev/sdb1  1.8T  1.7T  54G  97% /srv", tool_call_id="c1"),
                    Message.assistant(text, timestamp=time, usage=Usage(5200, 310), cost=0.021),
                ]
            else:
                usage = Usage(2400 + 130 * number, 180)
                messages = [Message.assistant(text, timestamp=time, usage=usage, cost=0.009)]
            client.conversations.append_turn(it.id, messages)
        client.conversations.rename(it.id, title)
        client.conversations.set_topics(it.id, topics)
        ids[title] = it.id
    main = ids[DIALOGUES[0][1]]
    client.conversations.record_abbreviation(
        main,
        "The nightly backup failed because backup-2 was full. Old WAL segments were removed"
        " (40.6 GB). The backup runs again at 02:30.",
    )
    client.recall.set_anchor("backup.window", "02:30", source=(main, 6))
    client.recall.set_anchor("home.city", "Lisbon", source=(ids[DIALOGUES[1][1]], 2))
    history(client, now)
    client.channels.add_owner_identity("whatsapp", OWNER)
    parties(client)
    return ids


def history(client: Client, now: datetime) -> None:
    """Write older conversations, so that charts have something to show."""
    channels = ("web", "web", "cli", "whatsapp", "web", "email")
    topics = ("backups", "travel", "release", "cooking", "housing", "invoices", "python")
    for day in range(1, 30):
        for number in range((day * 7) % 4):
            at = now - timedelta(days=day, hours=(day * 5 + number * 3) % 14)
            channel = channels[(day + number) % len(channels)]
            it = client.conversations.create(channel)
            for turn in range(1 + (day + number) % 4):
                time = at + timedelta(minutes=3 * turn)
                usage = Usage(1500 + 70 * day, 120)
                messages = [
                    Message.user(f"Note {turn + 1} of day {day}.", timestamp=time),
                    Message.assistant("Noted.", timestamp=time, usage=usage, cost=0.006),
                ]
                client.conversations.append_turn(it.id, messages)
            client.conversations.rename(it.id, f"Notes of {at:%A}, {at:%-d %B}")
            client.conversations.set_topics(it.id, [topics[(day + number) % len(topics)]])


def parties(client: Client) -> None:
    """Write what third parties said, each trusted in another way."""
    people = (
        ("Inês Duarte", "Bom dia! The flat is free from 1 December. Shall I hold it until Friday?"),
        ("Karim", "Can we move the call to Tuesday at ten?"),
        ("Paket-Service", "Your parcel could not be delivered. Click here to pay the fee."),
        ("יעל", "אפשר להזיז את הפגישה לשעה שלוש?"),
    )
    for number, (name, text) in enumerate(people):
        sender = f"+3519120001{number:02}"
        client.channels.receive("whatsapp", f"m-{number}", text, sender=sender, sender_name=name)
    by_name = {it.party_name: it for it in client.external.list_communications()}
    client.external.set_trust(by_name["Karim"].id, Trust.KNOWN, scopes=["scheduling"])
    client.external.set_trust(by_name["Paket-Service"].id, Trust.BLOCKED)
    client.external.record_reply(by_name["Karim"].id, "Tuesday at ten is fine.", scope="scheduling")


_HIDE_FOLDER = """(folder) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const it = texts.currentNode;
    if (it.data.includes(folder)) it.data = it.data.replaceAll(folder, '/srv/recollect');
  }
}"""
"""Names the folder of the data as an installation would."""


@contextmanager
def page_of(folder: Path) -> Iterator[tuple[Any, dict[str, str]]]:
    """Start server, bridge and browser, and yield a signed-in window and the ids."""
    from playwright.sync_api import sync_playwright

    from tests.web.conftest import _FLAGS, CHROMIUM, Bridge, Browsing

    values = {"listen": "127.0.0.1:0", "data_dir": folder}
    server = app.start(Settings.load(None, values))
    bridge = Bridge(server.address)
    try:
        with Client(server.address) as client, sync_playwright() as running:
            ids = fill(client)
            browser = running.chromium.launch(executable_path=str(CHROMIUM), args=_FLAGS)
            yield Browsing(browser, bridge), ids
            browser.close()
    finally:
        bridge.stop()
        server.stop()


def take(target: Path) -> None:
    """Take every picture into a folder."""
    with tempfile.TemporaryDirectory() as folder, page_of(Path(folder) / "data") as (window, ids):
        first = f"/c/{ids[DIALOGUES[0][1]]}"
        views = {
            "list": ("/", "[data-list] .row-link", WIDE),
            "conversation": (f"{first}?details=1", ".details .facts", WIDE),
            "search": ("/search?q=why+was+the+disk+full", ".result", WIDE),
            "insights": ("/insights?group=channel", ".chart", WIDE),
            "third-parties": ("/third-parties", ".people-rows a", WIDE),
            "settings": ("/settings", ".setting", WIDE),
            "health": ("/health", ".overall", WIDE),
            "narrow-list": ("/", "[data-list] .row-link", NARROW),
            "narrow": (first, ".message", NARROW),
        }
        page = window.tab()
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            for name, (path, part, size) in views.items():
                page.set_viewport_size(size)
                page.goto(window.bridge.origin + path)
                page.wait_for_selector(part)
                if name == "third-parties":
                    page.locator(".people-rows a", has_text="Karim").click()
                    page.wait_for_selector(".said")
                if name == "search":
                    page.locator(".result-actions button").nth(1).click()
                page.wait_for_selector(".live-live", state="attached")
                page.wait_for_timeout(400)
                page.evaluate(_HIDE_FOLDER, folder)
                page.screenshot(path=target / f"page-{name}-{theme}.png")
        assert not window.problems, window.problems


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=PICTURES, help="the folder of the pictures")
    take(parser.parse_args().to)
