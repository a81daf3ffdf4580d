"""`recollect import` of messengers' chats: whose words they are, when they were said, and what is
no message.
"""

import os
import time
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from recollect import Client
from recollect_server.recall.model.own_words import own_sentences

from tests.client_cli.conftest import Run
from tests.client_cli.test_import_products import only, written


def own(content: str) -> list[str]:
    """Return the sentences that the owner's profile may have."""
    return [content[start:end] for start, end in own_sentences(content)]


def in_discord(number: int, kind: str, text: str, **more: Any) -> dict[str, Any]:
    author = {"id": "1", "name": "Alex", "nickname": "Alex"}
    fields = {"id": str(number), "type": kind, "content": text, "author": author}
    return fields | {"timestamp": f"2024-01-02T10:{number:02}:00+00:00"} | more


def discord_of(*messages: dict[str, Any]) -> dict[str, Any]:
    channel = {"id": "2", "type": "GuildTextChat", "name": "general"}
    return {"guild": {"id": "1", "name": "Home"}, "channel": channel, "messages": messages}


def test_types_of_discord_without_a_name_are_read_and_notices_named(
    run: Run, client: Client, tmp_path: Path
) -> None:
    value = discord_of(
        in_discord(1, "Default", "question"),
        in_discord(2, "20", "the bot's answer"),
        in_discord(3, "23", "an answer of a menu"),
        in_discord(4, "21", "a thread begins"),
        in_discord(5, "GuildMemberJoin", "Joined the server."),
    )
    ran = run("import", written(tmp_path / "general.json", value), "--owner", "Alex")
    assert (ran.code, ran.lines[0]["hidden"]) == (6, 1)
    assert "what the product hides: chat 1: Joined the server." in ran.err
    texts = ["question", "the bot's answer", "an answer of a menu", "a thread begins"]
    assert [it.content for it in only(client)] == texts


def test_all_parts_of_what_is_embedded_in_discord_and_forwarded_come(
    run: Run, client: Client, tmp_path: Path
) -> None:
    build: dict[str, Any] = {"author": {"name": "Builder"}, "title": "Build", "description": "ok"}
    build |= {"fields": [{"name": "Branch", "value": "birch"}], "footer": {"text": "at night"}}
    build |= {"image": {"url": "https://x.org/a.png"}}
    url = "https://x.org/b.png"
    other = {"content": "I live in Oslo.", "embeds": [], "attachments": [{"url": url}]}
    value = discord_of(
        in_discord(1, "Default", "", embeds=[build]),
        in_discord(2, "Default", "", forwardedMessage=other),
    )
    ran = run("import", written(tmp_path / "general.json", value), "--owner", "Alex")
    assert ran.code == 0
    first, second = only(client)
    assert first.content == "Builder\nBuild\nok\nBranch: birch\nat night"
    assert [it.uri for it in first.attachments] == ["https://x.org/a.png"]
    assert second.content.endswith(" ----------\nI live in Oslo.")
    assert own(second.content) == []
    assert [it.uri for it in second.attachments] == [url]


def in_telegram(number: int, text: str, **more: Any) -> dict[str, Any]:
    fields = {"id": number, "type": "message", "date": "2024-01-02T10:00:00", "from": "Alex"}
    return fields | {"date_unixtime": str(1_704_190_000 + number), "text": text} | more


def test_what_is_forwarded_in_telegram_is_nobodys_own_word(
    run: Run, client: Client, tmp_path: Path
) -> None:
    messages = [
        in_telegram(1, "note to self"),
        in_telegram(2, "I am allergic to peanuts.", forwarded_from="Kim Roe"),
        in_telegram(3, "I am 80.", forwarded_from=None, forwarded_from_id="user7"),
    ]
    chat = {"name": "Saved", "type": "saved_messages", "id": 5, "messages": messages}
    run("import", written(tmp_path / "result.json", chat), "--owner", "Alex")
    first, other, last = (it.content for it in only(client))
    assert other.startswith("---------- Forwarded message from Kim Roe ----------\nI am allergic")
    assert "from user7 -" in last
    assert (own(first), own(other)) == (["note to self"], [])


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process be in the time zone of Tokyo."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


def test_times_of_telegram_without_a_zone_are_those_of_the_machine(
    run: Run, client: Client, tmp_path: Path, in_tokyo: None
) -> None:
    message = {"id": 1, "type": "message", "date": "2020-05-02T01:00:00", "from": "Alex"}
    chat = {"type": "personal_chat", "id": 6, "messages": [message | {"text": "good night"}]}
    run("import", written(tmp_path / "result.json", chat), "--owner", "Alex")
    assert only(client)[0].timestamp == datetime(2020, 5, 1, 16, tzinfo=UTC)


def test_messages_for_a_model_with_a_type_are_no_chat_of_telegram(
    run: Run, client: Client, tmp_path: Path
) -> None:
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    value = {"id": "x1", "type": "chat", "title": "Mine", "messages": messages}
    run("import", written(tmp_path / "chat.json", value))
    assert [it.content for it in only(client)] == ["hello", "hi"]


def in_slack(number: int, user: str, text: str, **more: Any) -> dict[str, Any]:
    fields = {"type": "message", "ts": f"1704190{number:03}.000100", "user": user}
    return fields | {"text": text} | more


USERS = [
    {"id": "U01", "name": "alex", "profile": {"real_name": "Alex Doe", "display_name": "alex"}},
    {"id": "U02", "name": "kim", "profile": {"real_name": "Kim Roe", "display_name": ""}},
]


@pytest.mark.parametrize("in_archive", [False, True])
def test_people_of_slack_have_their_names_on_days_when_they_are_silent(
    run: Run, client: Client, tmp_path: Path, in_archive: bool
) -> None:
    shared = {"is_msg_unfurl": True, "author_name": "Kim Roe", "text": "I live in Oslo."}
    day = [
        in_slack(1, "U01", "shall we ship, <@U02>?"),
        in_slack(2, "U01", "look", attachments=[shared]),
        in_slack(3, "U02", "<@U02> has joined the channel", subtype="channel_join"),
    ]
    written(tmp_path / "exp" / "users.json", USERS)
    written(tmp_path / "exp" / "general" / "2024-01-02.json", day)
    path = tmp_path / "exp"
    if in_archive:
        path = tmp_path / "exp.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for it in (tmp_path / "exp").rglob("*.json"):
                archive.write(it, it.relative_to(tmp_path / "exp"))
    else:
        path = Path(os.path.relpath(tmp_path / "exp" / "general" / "2024-01-02.json"))
    ran = run("import", path, "--owner", "Ale")
    assert (ran.code, ran.lines[0]["messagesNew"]) == (6, 0)
    assert "'Ale' is none of its people" in ran.err
    ran = run("import", path, "--owner", "Alex Doe")
    assert (ran.code, ran.lines[0]["messagesNew"]) == (6, 2)
    assert "what the product hides: @Kim Roe has joined the channel" in ran.err
    first, second = only(client)
    assert (first.sender, first.content) == ("alex", "shall we ship, @Kim Roe?")
    assert own(second.content) == ["look"]


def test_dated_lines_in_a_message_of_whatsapp_stay_in_it_and_notices_have_no_sender(
    run: Run, client: Client, tmp_path: Path
) -> None:
    text = (
        "12/30/24, 9:05 PM - Messages and calls are end-to-end encrypted.\n"
        '12/30/24, 9:06 PM - Alex changed the group name from "Flat: old" to "Flat: new"\n'
        "12/30/24, 9:06 PM - Alex changed the group description: no smoking\n"
        "12/30/24, 9:07 PM - Kim: the list:\n12/31/24, 8:00 AM - we meet\nand then: go\n"
        '12/31/24, 9:08 PM - Alex: ok\n12/31/24, 9:09 PM - Ben "Bo" Low: yes\n'
    )
    path = written(tmp_path / "WhatsApp Chat with Kim.txt", text)
    ran = run("import", path, "--owner", "Alex")
    assert (ran.code, ran.lines[0]["hidden"]) == (6, 3)
    assert (
        "3 times: what the product hides: Messages and calls are end-to-end encrypted." in ran.err
    )
    assert [(it.sender, it.content) for it in only(client)] == [
        ("Kim", "the list:\n12/31/24, 8:00 AM - we meet\nand then: go"),
        ("Alex", "ok"),
        ('Ben "Bo" Low', "yes"),
    ]
