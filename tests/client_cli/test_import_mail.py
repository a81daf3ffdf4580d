"""`recollect import` of mailboxes: where a mail begins, who wrote it, and in which order. One is
written by Python's own `mailbox`.
"""

import base64
import mailbox
from email.message import EmailMessage
from pathlib import Path

import pytest
from recollect import Client

from tests.client_cli.conftest import Run, messages_of
from tests.client_cli.test_import_products import only

ALEX = "Alex Doe <alex@example.org>"


def mail(
    number: int, sender: str, body: str, more: str = "", subject: str = "Plan", date: bool = True
) -> str:
    """Return a mail with the line that stands before it."""
    fields = f"Date: Tue, 02 Jan 2024 10:{number:02}:00 +0000\n" if date else ""
    return (
        f"From {number}@x.example Tue Jan 02 10:{number:02}:00 2024\n"
        f"Message-ID: <m{number}@x.example>\nFrom: {sender}\nTo: kim@example.org\n"
        f"Subject: {subject}\n{fields}{more}\n{body}\n\n"
    )


def came(run: Run, client: Client, path: Path, data: str | bytes) -> tuple[int, list[str]]:
    """Import a mailbox. Return the exit code, and the texts of all conversations."""
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    code = run("import", path, "--owner", "alex@example.org").code
    return code, [it for each in client.conversations.list() for it in messages_of(client, each.id)]


def test_a_line_of_a_text_that_begins_with_from_begins_no_mail(
    run: Run, client: Client, tmp_path: Path
) -> None:
    body = (
        "One.\n\nFrom the figures of 2019 we see growth.\n\nFrom 09:30 to 11:00 we meet.\n\n"
        "From Tue Jan 02 at 10:00 it rains.\nLast line."
    )
    box = mail(1, ALEX, body) + mail(2, ALEX, "another")
    code, texts = came(run, client, tmp_path / "a.mbox", box)
    assert (code, sorted(texts)) == (0, sorted([body, "another"]))


@pytest.mark.parametrize(
    "line",
    [
        "From - Tue Jan 02 10:01:00 2024",
        "From alex at example.org  Tue Jan  2 10:01:00 2024",
        "From 1799@xxx Tue Jan 02 10:01:00 +0000 2024",
        "From ???@??? 2024-01-02 10:01:00",
    ],
)
def test_lines_before_mails_of_several_programs_are_known(
    run: Run, client: Client, tmp_path: Path, line: str
) -> None:
    box = "".join(mail(it, ALEX, f"text {it}") for it in (1, 2)).splitlines()
    lines = [line if it.startswith("From ") else it for it in box]
    code, texts = came(run, client, tmp_path / "a.mbox", "\n".join(lines))
    assert (code, sorted(texts)) == (0, ["text 1", "text 2"])


def test_a_mailbox_that_a_library_wrote_comes_as_it_was_sent(
    run: Run, client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "sent.mbox"
    box = mailbox.mbox(path)
    for number in (1, 2):
        one = EmailMessage()
        one["From"], one["To"] = "Zoë <alex@example.org>", "Kim <k@m.org>"
        one["Subject"], one["Message-ID"] = "Grüße aus Köln " * 5, f"<{number}@m.org>"
        one["Date"] = f"Tue, 02 Jan 2024 10:0{number}:00 +0000"
        one["References"] = "<1@m.org>"
        one.set_content(f"Liebe Kim,\n\nFrom {number} o'clock on: grün.")
        one.add_alternative("<p>not read</p>", subtype="html")
        box.add(one)
    box.close()
    ran = run("import", path, "--owner", "Zoë")
    assert (ran.code, ran.lines[0]["messagesNew"]) == (0, 2), ran.err
    first, second = only(client)
    assert (first.sender, first.content) == ("Zoë", "Liebe Kim,\n\nFrom 1 o'clock on: grün.")
    assert second.content.endswith("From 2 o'clock on: grün.")
    [conversation] = client.conversations.list()
    assert conversation.title.startswith("Grüße aus Köln Grüße")


def test_a_comma_in_an_encoded_name_and_letters_that_are_not_encoded_are_read(
    run: Run, client: Client, tmp_path: Path
) -> None:
    box = mail(1, "=?utf-8?q?Doe=2C_Alex?= <alex@example.org>", "hello")
    box += mail(2, "Zoë <alex@example.org>", "hi", subject="Grüße")
    assert came(run, client, tmp_path / "a.mbox", box)[0] == 0
    names = {
        client.conversations.load(it.id).messages[0].sender for it in client.conversations.list()
    }
    assert names == {"Doe, Alex", "Zoë"}
    assert {it.title for it in client.conversations.list()} == {"Plan", "Grüße"}


@pytest.mark.parametrize(
    ("says", "means", "text"),
    [
        ("gb2312", "gbk", "朱镕基的计划"),
        ("ks_c_5601-1987", "cp949", "똠방각하"),
        ("shift_jis", "cp932", "①髙橋"),
        ("iso-8859-1", "cp1252", "„100 €“"),
        ("us-ascii", "utf-8", "Grüße"),
    ],
)
def test_character_sets_are_read_as_programs_mean_them(
    run: Run, client: Client, tmp_path: Path, says: str, means: str, text: str
) -> None:
    data = text.encode(means)
    subject = f"=?{says}?B?{base64.b64encode(data).decode()}?="
    more = f"Content-Type: text/plain; charset={says}\nContent-Transfer-Encoding: 8bit\n"
    box = mail(1, ALEX, "@@", more, subject).encode().replace(b"@@", data)
    assert came(run, client, tmp_path / "a.mbox", box) == (0, [text])
    assert [it.title for it in client.conversations.list()] == [text]


def test_letters_that_are_damaged_cost_no_others(run: Run, client: Client, tmp_path: Path) -> None:
    more = "Content-Type: text/plain; charset=gb2312\nContent-Transfer-Encoding: 8bit\n"
    data = "计划".encode("gbk") + b"\xff" + "计划".encode("gbk")
    box = mail(1, ALEX, "@@", more).encode().replace(b"@@", data)
    assert came(run, client, tmp_path / "a.mbox", box) == (6, ["计划\ufffd计划"])


def test_an_encoded_letter_may_go_on_in_the_next_word(
    run: Run, client: Client, tmp_path: Path
) -> None:
    data = "Grüße".encode()
    halves = (base64.b64encode(it).decode() for it in (data[:3], data[3:]))
    subject = " ".join(f"=?utf-8?B?{it}?=" for it in halves)
    came(
        run, client, tmp_path / "a.mbox", mail(1, ALEX, "hi", "", f"{subject} =?utf-8?q?_an?= Kim")
    )
    assert [it.title for it in client.conversations.list()] == ["Grüße an Kim"]


def test_a_mail_without_a_date_stands_behind_the_one_that_it_answers(
    run: Run, client: Client, tmp_path: Path
) -> None:
    reply = "References: <m1@x.example>\n"
    box = mail(2, ALEX, "reply", reply, date=False) + mail(1, ALEX, "question")
    box += mail(3, ALEX, "thanks", reply)
    dated = ["question", "reply", "thanks"]
    assert came(run, client, tmp_path / "a.mbox", box) == (6, dated)
    ran = run("import", tmp_path / "a.mbox", "--owner", "alex@example.org")
    assert "a mail has no date that can be read: it has that of its arrival" in ran.err


def test_an_address_in_a_reply_makes_no_thread(run: Run, client: Client, tmp_path: Path) -> None:
    kim = "In-Reply-To: Your message of Tuesday <Kim@example.org>\n"
    box = mail(1, ALEX, "one", kim) + mail(2, ALEX, "two", kim)
    assert came(run, client, tmp_path / "a.mbox", box)[0] == 0
    assert len(list(client.conversations.list())) == 2
