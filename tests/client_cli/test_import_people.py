"""`recollect import` of chats between people, and of mail."""

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from recollect import Client
from recollect.imports import whatsapp
from recollect.imports.forms import Options
from recollect.imports.plans import Batch, Plan
from recollect.imports.reading import Source

from tests.client_cli.conftest import BringIn, Counts, Run
from tests.client_cli.test_import_products import written

CHAT = """\
[13/05/24, 21:07:08] Hiking: \u200eMessages and calls are end-to-end encrypted.
[13/05/24, 21:07:10] Ana: Where do we meet?
At the station: platform 3?
[13/05/24, 21:08:00] Alex: \u200e<attached: 00000012-PHOTO-2024-05-13.jpg>
[13/05/24, 21:08:00] Ben \U0001f6b2: ok
[13/05/24, 21:08:00] Ben \U0001f6b2: ok
[13/05/24, 21:09:00] \u200eAna added Zoe
[13/05/24, 21:10:00] Zoe: \u200e<Media omitted>
"""


def test_a_group_of_whatsapp_comes_where_the_owner_is_named_and_grows(
    run: Run, bring_in: BringIn, client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "WhatsApp Chat - Hiking.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_chat.txt", CHAT)
        archive.writestr("00000012-PHOTO-2024-05-13.jpg", b"\xff\xd8")
    for owner in ((), ("--owner", "Eve")):
        ran = run("import", path, *owner)
        assert (ran.code, ran.lines[0]["messagesNew"]) == (6, 0)
        assert "--owner says who of them you are: Hiking, Ana, Alex, Ben \U0001f6b2, Zoe" in ran.err
    assert list(client.conversations.list()) == []
    ran = run("import", path, "--owner", "Alex")
    assert (ran.code, ran.lines[0]["messagesNew"], ran.lines[0]["hidden"]) == (6, 6, 1)
    assert "a file is not in the export, and its place is kept: <Media omitted>" in ran.err
    [conversation] = client.conversations.list()
    assert (conversation.title, conversation.channel) == ("Hiking", "whatsapp-export")
    came = list(client.conversations.load(conversation.id).messages)[1:]
    assert [(it.sender, it.content) for it in came[:1]] == [
        ("Ana", "Where do we meet?\nAt the station: platform 3?")
    ]
    assert came[1].attachments[0].media_type == "image/jpeg"
    assert [it.sender for it in came] == ["Ana", "Alex", "Ben \U0001f6b2", "Ben \U0001f6b2", "Zoe"]
    written(tmp_path / "WhatsApp Chat with Hiking.txt", f"{CHAT}[14/05/24, 08:00:00] Ana: Late!\n")
    counts = bring_in(tmp_path / "WhatsApp Chat with Hiking.txt", "--owner", "Alex")
    assert counts == Counts(0, 1, 1, 6, 1)  # and a note


STAMPS = {
    "English (US), Android": "5/13/24, 9:07 PM - ",
    "English (US), iPhone": "[5/13/24, 9:07:08\u202fPM] ",
    "English (UK)": "13/05/2024, 21:07 - ",
    "English (Australia)": "13/5/2024, 9:07 pm - ",
    "German": "13.05.24, 21:07 - ",
    "German, iPhone": "[13.05.24, 21:07:08] ",
    "Swiss German": "13.05.2024, 21:07 - ",
    "Dutch": "13-05-2024 21:07 - ",
    "French": "13/05/2024 à 21:07 - ",
    "Italian": "13/05/24, 21:07 - ",
    "Spanish": "13/5/24, 9:07 p.\u00a0m. - ",
    "Portuguese": "13/05/2024 21:07 - ",
    "Swedish": "2024-05-13 21:07 - ",
    "Finnish": "13.5.2024 klo 21.07 - ",
    "Japanese": "2024/05/13 21:07 - ",
    "Korean": "2024. 5. 13. 오후 9:07 - ",
    "Chinese": "2024/5/13 下午9:07 - ",
    "Arabic": "١٣/٥/٢٠٢٤، ٩:٠٧ م - ",
    "Thai": "13/5/2567 21:07 - ",
    "Hindi": "13/05/24, 9:07 pm - ",
}


@pytest.mark.parametrize("stamp", STAMPS.values(), ids=STAMPS)
def test_dates_of_whatsapp_are_read_in_every_locale(tmp_path: Path, stamp: str) -> None:
    path = written(tmp_path / "chat.txt", f"{stamp}Ana: See you 5/6 at 7\n{stamp}Alex: Yes\n")
    with Source(path).open() as reading:
        assert whatsapp.FORMAT.is_head
        assert whatsapp.FORMAT.is_head(path.read_bytes())
        [plan] = whatsapp.FORMAT.read(reading, Options(owner="Alex"))
    assert isinstance(plan, Plan), plan
    placed = [it for step in plan.steps if isinstance(step, Batch) for it in step.messages]
    assert [(it.message.sender, it.message.content) for it in placed] == [
        ("Ana", "See you 5/6 at 7"),
        ("Alex", "Yes"),
    ]
    seconds = 8 if ":08" in stamp else 0
    expected = datetime(2024, 5, 13, 21, 7, seconds).astimezone()
    assert placed[0].message.timestamp == expected
    assert plan.skips == []


def test_an_order_of_day_and_month_that_is_guessed_is_named(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "chat.txt", "05/06/24, 21:07 - Ana: Hi\n05/06/24, 21:08 - Alex: Yo\n")
    ran = run("import", path, "--owner", "Alex", "--dry-run")
    assert (ran.code, "which number is the day is guessed: the first one" in ran.err) == (6, True)


def test_chats_of_telegram_come_with_their_people(run: Run, client: Client, tmp_path: Path) -> None:
    def said(own: int, sender: str, text: object, **more: object) -> dict[str, object]:
        return (
            {"id": own, "type": "message", "date": "2024-05-13T21:07:08", "from": sender}
            | {"date_unixtime": str(1_715_634_428 + own), "text": text}
            | more
        )

    link = ["See ", {"type": "link", "text": "https://m.org"}, "!"]
    messages = [
        {"id": 1, "type": "service", "action": "create_group", "actor": "Ana"},
        said(2, "Ana", link),
        said(3, "Alex", "", photo="photos/p.jpg"),
        said(4, "Ana", "", hologram=1),
        said(5, "Alex", None, text_entities=[{"type": "plain", "text": "At nine?"}]),
    ]
    chat = {"name": "Hiking", "type": "private_group", "id": 7, "messages": messages}
    path = written(tmp_path / "result.json", {"about": "", "chats": {"list": [chat]}})
    ran = run("import", path, "--owner", "Alex")
    assert (ran.code, ran.lines[0]["messagesNew"], ran.lines[0]["hidden"]) == (6, 3, 1)
    assert "a message of which nothing is read: 4" in ran.err
    [conversation] = client.conversations.list()
    first, second, third = client.conversations.load(conversation.id).messages
    assert (first.sender, first.content) == ("Ana", "See https://m.org!")
    assert third.content == "At nine?"
    assert first.timestamp == datetime.fromtimestamp(1_715_634_430, UTC)
    assert second.attachments[0].uri == "telegram-export:photos/p.jpg"


def test_a_channel_of_discord_comes_with_its_people(
    run: Run, client: Client, tmp_path: Path
) -> None:
    def said(own: str, name: str, text: str, kind: str = "Default", **more: object) -> object:
        author = {"id": name, "name": name, "nickname": name}
        fields = {"id": own, "type": kind, "timestamp": "2024-05-13T21:07:08+02:00"}
        return fields | {"content": text, "author": author} | more

    url = "https://cdn.example.org/a/map.png?ex=1"
    value = {
        "guild": {"id": "1", "name": "Club"},
        "channel": {"id": "2", "type": "GuildTextChat", "name": "walks"},
        "messages": [
            said("10", "Ana", "", "GuildMemberJoin"),
            said("11", "Ana", "Here", attachments=[{"url": url, "fileName": "map.png"}]),
            said("12", "Alex", "Thanks", "Reply"),
        ],
    }
    ran = run("import", written(tmp_path / "walks.json", value), "--owner", "Alex")
    assert (ran.code, ran.lines[0]["messagesNew"], ran.lines[0]["hidden"]) == (0, 2, 1)
    [conversation] = client.conversations.list()
    assert (conversation.title, conversation.channel) == ("Club: walks", "discord-export")
    first, second = client.conversations.load(conversation.id).messages
    assert (first.sender, first.attachments[0].uri) == ("Ana", url)
    assert (second.sender, first.attachments[0].media_type) == ("Alex", "image/png")


def test_days_of_slack_come_with_their_people(run: Run, client: Client, tmp_path: Path) -> None:
    def said(ts: str, user: str, text: str, **more: object) -> dict[str, object]:
        profile = {"display_name": "", "real_name": user.title()}
        return {
            "type": "message",
            "ts": ts,
            "user": user,
            "text": text,
            "user_profile": profile,
        } | more

    folder = tmp_path / "Club export"
    users = [{"id": it, "profile": {"real_name": it.title()}} for it in ("ana", "alex")]
    written(folder / "users.json", users)
    written(folder / "channels.json", [{"id": "C1", "name": "walks"}])
    first = [
        said("1715634428.000100", "ana", "", subtype="channel_join"),
        said("1715634429.000100", "ana", "See <https://m.org|the map> &amp; come <@ana>"),
        said("1715634430.000100", "alex", "", files=[{"url_private": "https://f.org/a.png"}]),
    ]
    written(folder / "walks" / "2024-05-13.json", first)
    written(folder / "walks" / "2024-05-14.json", [said("1715720829.000100", "ana", "Late!"), 7])
    ran = run("import", folder, "--owner", "Alex")
    assert (ran.code, ran.lines[0]["messagesNew"], ran.lines[0]["hidden"]) == (6, 3, 1)
    assert "2024-05-14.json item 2: it is no message of Slack" in ran.err
    [conversation] = client.conversations.list(query="13")
    assert (conversation.title, conversation.channel) == ("walks 2024-05-13", "slack-export")
    one, other = client.conversations.load(conversation.id).messages
    assert (one.sender, one.content) == ("Ana", "See the map (https://m.org) & come @Ana")
    assert other.attachments[0].uri == "https://f.org/a.png"
    assert run("import", folder).lines[0]["messagesNew"] == 0


def test_chats_of_signal_come_with_their_people(run: Run, client: Client, tmp_path: Path) -> None:
    def said(chat: str, author: str, seconds: int, **item: object) -> dict[str, object]:
        sent = str(1_715_634_428_000 + seconds * 1000)
        return {"chatItem": {"chatId": chat, "authorId": author, "dateSent": sent} | item}

    def text(body: str, **more: object) -> dict[str, object]:
        return {"standardMessage": {"text": {"body": body}} | more}

    photo = {"pointer": {"contentType": "image/jpeg", "locatorInfo": {"size": 3}}}
    ana = {"aci": "YQ==", "profileGivenName": "Ana", "nickname": {"given": "Anna"}}
    group = {"masterKey": "Zw==", "snapshot": {"title": {"title": "Hiking"}}}
    frames = [
        {"version": "1", "backupTimeMs": "1715634428000"},
        {"account": {"givenName": "Alex", "familyName": ""}},
        {"recipient": {"id": "1", "self": {}}},
        {"recipient": {"id": "2", "contact": ana}},
        {"recipient": {"id": "3", "group": group}},
        {"chat": {"id": "1", "recipientId": "2"}},
        {"chat": {"id": "2", "recipientId": "3"}},
        said("1", "2", 1, **text("Where do we meet?")),
        said("2", "2", 2, **text("", attachments=[photo])),
        said("1", "1", 3, **text("At the station"), revisions=[text("At teh")]),
        said("2", "1", 4, poll={"question": "When?", "options": [{"option": "8"}]}),
        said("2", "2", 5, updateMessage={"groupCall": {}}),
        said("2", "2", 6, hologram={}),
    ]
    path = written(tmp_path / "main.jsonl", "".join(f"{json.dumps(it)}\n" for it in frames))
    ran = run("import", path, "--owner", "Alex")
    counts = [ran.lines[0][it] for it in ("messagesNew", "hidden", "otherBranches", "leftOut")]
    assert (ran.code, counts) == (6, [4, 1, 1, 2]), ran.err
    assert "a message of which nothing is read: 1715634434000-" in ran.err
    [hiking] = client.conversations.list(query="Hiking")
    one, other = client.conversations.load(hiking.id).messages
    assert (one.sender, one.attachments[0].media_type) == ("Anna", "image/jpeg")
    assert (other.sender, other.content) == ("Alex", "When?\n- 8")
    # The ids of recipients and chats are those of one export: a newer one adds what is new.
    again = json.dumps(frames).replace('Id": "2"', 'Id": "7"').replace('"id": "2"', '"id": "7"')
    again = again.replace('"3"', '"8"')
    newer = [*json.loads(again), said("1", "7", 9, **text("See you"))]
    written(path, "".join(f"{json.dumps(it)}\n" for it in newer))
    ran = run("import", path, "--owner", "Alex")
    assert [ran.lines[0][it] for it in ("messagesNew", "messagesKnown")] == [1, 4]

    empty: dict[str, object] = {"quote": "", "sticker": None, "reactions": [], "attachments": []}
    line = {"date": "2024-05-13T21:07:08", "sender": "Me", "body": "Hi"} | empty
    lines = [line, line | {"sender": "Zoe", "attachments": [{"name": "a.png", "path": "media/a"}]}]
    path = tmp_path / "signal" / "Zoe" / "data.json"
    written(path, "".join(f"{json.dumps(it)}\n" for it in lines))
    ran = run("import", tmp_path / "signal", "--owner", "Me")
    assert (ran.code, ran.lines[0]["messagesNew"]) == (0, 2)
    [zoe] = client.conversations.list(query="Zoe")
    assert [it.sender for it in client.conversations.load(zoe.id).messages] == ["Me", "Zoe"]


MAILS = """\
From 1799@xxx Mon May 13 21:07:08 +0000 2024
Message-ID: <2@m.org>
In-Reply-To: <1@m.org>
References: <1@m.org>
From: =?utf-8?q?Zo=C3=AB?= <Zoe@m.org>
Subject: Re: The hut
Date: Mon, 13 May 2024 21:07:08 +0200
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: multipart/alternative; boundary=c

--c
Content-Type: text/html; charset=utf-8
Content-Transfer-Encoding: quoted-printable

<p>Booked =E2=80=93 see the map</p>
--c--
--b
Content-Type: image/png; name="map.png"
Content-Transfer-Encoding: base64

iVBORw0KGgo=
--b--

From 1798@xxx Mon May 13 20:07:08 +0000 2024
Message-ID: <1@m.org>
From: Alex <alex@m.org>
Subject: The hut
Date: Mon, 13 May 2024 20:07:08 +0200

Shall we book it?
>From Friday on it is full.

From 1797@xxx Mon May 13 19:07:08 +0000 2024
Message-ID: <9@news.org>
From: News <news@news.org>
Subject: 50 % off

Buy!

From 1796@xxx Mon May 13 20:07:08 +0000 2024
Message-ID: <1@m.org>
From: Alex <alex@m.org>
Subject: The hut

Shall we book it?
"""


def test_the_threads_of_a_mailbox_come_in_which_the_owner_wrote(
    run: Run, client: Client, tmp_path: Path
) -> None:
    path = written(tmp_path / "All mail.mbox", MAILS)
    assert "--owner says which name or address" in run("import", path).err
    ran = run("import", path, "--owner", "ALEX@m.org")
    assert (ran.code, ran.lines[0]["messagesNew"]) == (6, 2)
    assert "1 thread in which ALEX@m.org wrote nothing" in ran.err
    assert "1 mail that is expunged, or there twice" in ran.err
    [conversation] = client.conversations.list()
    assert (conversation.title, conversation.channel) == ("The hut", "mail-export")
    first, second = client.conversations.load(conversation.id).messages
    assert first.content == "Shall we book it?\nFrom Friday on it is full."
    assert (second.sender, second.content) == ("Zoë", "Booked – see the map")
    assert second.timestamp == datetime(2024, 5, 13, 19, 7, 8, tzinfo=UTC)
    assert second.attachments[0].uri == "mail-export:map.png"
    assert run("import", path, "--owner", "Alex").lines[0]["messagesKnown"] == 2


def test_the_sender_of_a_mail_is_read_before_its_words_are_decoded(
    run: Run, client: Client, tmp_path: Path
) -> None:
    senders = {
        "=?utf-8?q?Doe=2C_Alex?= <alex@m.org>": "Doe, Alex",
        "=?utf-8?q?alex=40m=2Eorg_=3Cx?= <mallory@bad.example>": "alex@m.org <x",
        "alex@m.org <mallory@bad.example>": "alex@m.org <mallory@bad.example>",
    }
    mails = [
        f"From x@xxx Mon May 13 20:07:0{at} +0000 2024\nMessage-ID: <{at}@m.org>\nReferences: <1@m.org>\n"
        f"From: {sender}\nDate: Mon, 13 May 2024 20:07:0{at} +0200\n\nPay {at}.\n"
        for at, sender in enumerate(senders, 1)
    ]
    path = written(tmp_path / "all.mbox", "\n".join(mails))
    assert run("import", path, "--owner", "alex@m.org").code == 0
    [conversation] = client.conversations.list()
    messages = client.conversations.load(conversation.id).messages
    assert [it.sender for it in messages] == list(senders.values())
