"""`recollect admin`: settings, spaces, tokens, jobs and statistics of a server."""

from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest
from recollect import Client, Message, Role
from recollect.cli.exits import NOT_FOUND, USAGE
from recollect_server.kernel.domain.time import system_clock

from tests.buckets import KEY, SECRET, s3_store
from tests.client_cli.conftest import Inside
from tests.conftest import RunningServer, Start
from tests.waiting import until


def test_settings_are_listed_set_and_reset(inside: Inside, server: RunningServer) -> None:
    assert inside("admin", "settings", "set", "slow_call", "45m", on_terminal=True).out == (
        "slow_call is 45m.\n"
    )
    assert inside("admin", "settings", "set", "threads", "16", on_terminal=True).out == (
        "threads is 16 from the next start of the server on.\n"
    )
    changed = {
        line["key"]: line["value"]
        for line in inside("admin", "settings", "list", "--changed").lines
    }
    assert changed["slow_call"] == "45m"
    shown = inside("admin", "settings", "list", "--group", "capacity", on_terminal=True).out
    assert "Capacity" in shown
    assert "16 from the next start on" in shown
    assert "slow_call" not in shown
    refused = inside("admin", "settings", "set", "slow_call", "soon", on_terminal=True)
    assert (refused.code, "is not a duration" in refused.err) == (USAGE, True)
    refused = inside("admin", "settings", "set", "profile_tokens", "-1", on_terminal=True)
    assert (refused.code, "greater than or equal to 0" in refused.err) == (USAGE, True)
    assert inside("admin", "settings", "reset", "slow_call").lines[0]["value"] == "1s"
    file = Path(server.data_dir, "recollect.yaml")
    assert file.read_text() == "threads: 16\n"


def test_spaces_jobs_and_statistics_are_printed(
    inside: Inside, client: Client, server: RunningServer
) -> None:
    client.conversations.create("web")
    [space] = inside("admin", "spaces", "list").lines
    assert (space["name"], space["conversations"]) == ("default", 1)
    assert "default" in inside("admin", "spaces", "list", on_terminal=True).out
    jobs = {line["name"]: line["state"] for line in inside("admin", "jobs").lines}
    assert (jobs["repair"], jobs["embedding"]) == ("idle", "off")
    assert "embedding" in inside("admin", "jobs", on_terminal=True).out
    [stats] = inside("admin", "stats").lines
    assert stats["space"]["conversations"] == 1
    (server.folder / "conv-1.jsonl.torn").write_bytes(b"half a line")
    shown = inside("admin", "stats", on_terminal=True).out
    assert "torn files" in shown
    assert "default/conversations/conv-1.jsonl.torn" in shown


def test_backups_are_listed_with_what_is_wrong_with_each(
    start_server: Start, no_log: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = start_server(backup_dir=tmp_path / "backups")
    inside = Inside(server.target, monkeypatch)
    listing = ("admin", "backups")
    assert inside(*listing, on_terminal=True).out == "There is no backup.\n"
    [made] = inside("admin", "backup", "tuesday").lines
    (tmp_path / "backups/recollect-20200101t000000z").mkdir()
    newest, interrupted = inside(*listing).lines
    assert (newest["path"], newest["complete"]) == (made["path"], True)
    assert not interrupted["complete"]
    shown = inside(*listing, on_terminal=True).out
    assert shown.splitlines()[1].split()[0] == "tuesday"
    assert f"in {tmp_path / 'backups'}/ on" in shown
    assert "not complete" in shown


def test_the_copies_in_the_bucket_are_listed_by_name_and_time(
    start_server: Start, no_log: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with s3_store(tmp_path / "s3") as url:
        copy = tmp_path / "s3/backups/recollect-20260301t123456z"
        copy.mkdir()
        (copy / "backup.json").write_text("{}")
        server = start_server(backup_dir=tmp_path / "here", backup_url=f"{url}/backups")
        inside = Inside(server.target, monkeypatch)
        assert inside("admin", "backups").lines == []
        listing = ("admin", "backups", "--in-bucket")
        [it] = inside(*listing).lines
        assert (it["name"], it["createTime"]) == (copy.name, "2026-03-01T12:34:56.000Z")
        shown = inside(*listing, on_terminal=True).out.splitlines()
        assert [line.split()[0] for line in shown] == ["backup", copy.name]


def test_tokens_are_created_listed_rotated_and_revoked(
    inside: Inside, server: RunningServer
) -> None:
    server.clock.move(system_clock() - server.clock())  # the command reads it too
    made = inside("admin", "tokens", "create", "--kind", "admin", "--for-space", "*").lines[0]
    with inside.patch.context() as patch:
        patch.setenv("RECOLLECT_TOKEN", made["secret"])
        reader = inside(
            *("admin", "tokens", "create", "--kind", "reader", "--expires", "90d"),
            *("--limit", "calls=10", "--note", "the wall"),
            on_terminal=True,
        )
        assert reader.out.startswith("rcl_")
        assert "It is printed this once." in reader.err
        [wall] = [it for it in inside("admin", "tokens", "list").lines if it.get("note")]
        assert (wall["kind"], wall["limits"], wall["spaces"]) == (
            "reader",
            {"calls": 10.0},
            ["default"],
        )
        assert inside("admin", "tokens", "rotate", wall["id"]).lines[0]["replaces"] == wall["id"]
        assert "revoked" in inside("admin", "tokens", "revoke", wall["id"], on_terminal=True).out
        assert "not used" in inside("admin", "tokens", "use", wall["id"], on_terminal=True).out
        own = inside("admin", "tokens", "use", made["id"], "--since", "1d")
        assert own.lines[0]["method"] == "AdminService.CreateToken"
        shown = inside("admin", "tokens", "use", made["id"], on_terminal=True).out
        assert "AdminService.RotateToken" in shown
        assert inside("admin", "tokens", "revoke", "0" * 12).code == NOT_FOUND
        assert "the wall" in inside("admin", "tokens", "list", "--all", on_terminal=True).out
        [brain] = inside("admin", "tokens", "create", "--kind", "brain").lines
        patch.setenv("RECOLLECT_TOKEN", brain["secret"])
        chat = inside("chat", stdin="Buy milk.\n/model haiku\n")
        assert (chat.code, chat.lines[0]["content"]) == (0, "Buy milk.")
        assert "haiku" in chat.lines[1]["reply"]


def test_rules_of_retention_are_listed_tried_and_their_receipts_printed(
    inside: Inside, client: Client
) -> None:
    assert "nothing is deleted" in inside("admin", "retention", "rules", on_terminal=True).out
    assert "Nothing would" in inside("admin", "retention", "preview", on_terminal=True).out
    assert "No rule" in inside("admin", "retention", "receipts", on_terminal=True).out
    time = datetime(2001, 2, 3, tzinfo=UTC)
    made = {client.conversations.create("web", create_time=time).id for _ in range(2)}
    for name in made:
        client.conversations.append_turn(
            name, [Message(role=Role.USER, content="zebra", timestamp=time)]
        )
    trial = ("admin", "retention", "preview", "--rules", "delete idle=90d; delete conversations=9")
    assert {line["conversationId"] for line in inside(*trial).lines} == made
    shown = inside(*trial, "--limit", "1", on_terminal=True)
    assert "it has been idle for" in shown.out
    assert "2001-02-03" in shown.out
    assert shown.err == "There are more than these 1: --limit takes up to 1000.\n"
    assert len(list(client.conversations.list())) == 2  # a trial deletes nothing
    wrong = inside("admin", "retention", "preview", "--rules", "delete channel=web")
    assert (wrong.code, "needs one of idle" in wrong.err) == (USAGE, True)
    assert inside("admin", "retention", "preview", "--rules", " ; ").code == USAGE
    inside("admin", "settings", "set", "retention_grace", "0s")
    rules = "delete channel=web idle=90d anchors=delete"
    # both are more than half: a yes is too little, and so is another number
    for flags in ([], ["--yes"], ["--number", "1"]):
        refused = inside("admin", "settings", "set", "retention", rules, *flags)
        assert refused.code == USAGE
        assert "would delete or unindex 2 conversations, more than half of all, now" in refused.err
        assert "zebra (default, web): it has been idle" in refused.err
        assert "--number 2" in refused.err
    assert inside("admin", "retention", "rules").lines == []
    assert inside("admin", "settings", "set", "retention", rules, "--number", "2").code == 0
    rule = inside("admin", "retention", "rules").lines[0]
    assert (rule["channel"], rule["idleSeconds"]) == ("web", 90 * 86_400)
    rules = inside("admin", "retention", "rules", on_terminal=True).out
    assert rules.splitlines()[1].split()[-3:] == ["every", "go", "now"]
    until(lambda: len(inside("admin", "retention", "receipts").lines) == 2)
    receipts = inside("admin", "retention", "receipts", "--limit", "1", on_terminal=True).out
    assert receipts.splitlines()[0].removesuffix("  web") in made
    assert receipts.splitlines()[2].startswith("delete channel=web idle=90d anchors=delete: it has")


def test_rules_that_take_something_want_a_yes_and_say_from_when_they_do(
    inside: Inside, client: Client
) -> None:
    time = datetime(2001, 2, 3, tzinfo=UTC)
    old = client.conversations.create("web", create_time=time).id
    for _ in range(2):
        client.conversations.create("web")
    rules = ("admin", "settings", "set", "retention", "delete idle=90d")
    refused = inside(*rules)
    assert (refused.code, "say with --yes" in refused.err) == (USAGE, True)
    assert "1 conversation now" in " ".join(refused.err.split())
    wrong = inside("admin", "settings", "set", "retention", "delete idle=9x")
    assert (wrong.code, "9x" in wrong.err) == (USAGE, True)
    done = inside(*rules, "--yes", on_terminal=True)
    assert done.code == 0
    assert "do nothing before" in done.out
    assert inside(*rules, "--yes").lines[0]["retentionStartTime"]
    assert inside("admin", "retention", "rules").lines[0]["startTime"]
    assert "from" in inside("admin", "retention", "rules", on_terminal=True).out
    assert [it.id for it in client.conversations.list()][-1] == old


def test_the_command_waits_for_the_end_and_names_what_is_wrong(
    inside: Inside, server: RunningServer
) -> None:
    for space in ("ada", "default"):
        with Client(server.target, space=space) as one:
            conversation = one.conversations.create("web")
            one.conversations.append_turn(conversation.id, [Message.user("Hello")])
    sound = inside("admin", "verify", "--all", on_terminal=True)
    assert sound.code == 0
    assert sound.out.splitlines() == [
        f"{space}: 1 conversation, 1 message, 0 external communications, 0 problems."
        for space in ("ada", "default")
    ]
    with apsw.Connection(str(server.folder / "conversations.db")) as index:
        index.execute("DELETE FROM requests")
    wrong = inside("admin", "verify", on_terminal=True)
    assert wrong.code == 1
    assert f"{conversation.id}: the index does not know 2 of its requests" in wrong.out
    (line,) = inside("admin", "verify", "--no-wait").lines
    assert (line["problemCount"], line["state"]) == (1, "done")


def test_deleted_spaces_leave_receipts(inside: Inside, client: Client) -> None:
    assert inside("admin", "spaces", "receipts", on_terminal=True).out == "No space was deleted.\n"
    for name in ("ada", "ben"):
        client.admin.create_space(name)
        client.admin.delete_space(name)
    assert [it["name"] for it in inside("admin", "spaces", "receipts").lines] == ["ben", "ada"]
    newest = inside("admin", "spaces", "receipts", "--limit", "1", on_terminal=True).out
    assert "ben" in newest
    assert "ada" not in newest
