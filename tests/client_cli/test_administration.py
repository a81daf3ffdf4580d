"""`recollect admin`: settings, spaces, tokens, jobs and statistics of a server."""

from pathlib import Path

from recollect import Client
from recollect.cli.exits import NOT_FOUND, USAGE

from tests.client_cli.conftest import Inside
from tests.conftest import RunningServer


def test_settings_are_listed_set_and_reset(inside: Inside, server: RunningServer) -> None:
    assert inside("admin", "settings", "set", "warm_for", "45m", on_terminal=True).out == (
        "warm_for is 45m.\n"
    )
    assert inside("admin", "settings", "set", "threads", "16", on_terminal=True).out == (
        "threads is 16 from the next start of the server on.\n"
    )
    changed = {
        line["key"]: line["value"]
        for line in inside("admin", "settings", "list", "--changed").lines
    }
    assert changed["warm_for"] == "45m"
    shown = inside("admin", "settings", "list", "--group", "capacity", on_terminal=True).out
    assert "Capacity" in shown
    assert "16 from the next start on" in shown
    assert "warm_for" not in shown
    refused = inside("admin", "settings", "set", "warm_for", "soon", on_terminal=True)
    assert (refused.code, "is not a duration" in refused.err) == (USAGE, True)
    assert inside("admin", "settings", "reset", "warm_for").lines[0]["value"] == "30m"
    file = Path(server.data_dir, "recollect.yaml")
    assert file.read_text() == "threads: 16\n"


def test_spaces_jobs_and_statistics_are_printed(inside: Inside, client: Client) -> None:
    client.conversations.create("web")
    [space] = inside("admin", "spaces", "list").lines
    assert (space["name"], space["conversations"]) == ("default", 1)
    assert "default" in inside("admin", "spaces", "list", on_terminal=True).out
    jobs = {line["name"]: line["state"] for line in inside("admin", "jobs").lines}
    assert (jobs["repair"], jobs["embedding"]) == ("idle", "off")
    assert "embedding" in inside("admin", "jobs", on_terminal=True).out
    [stats] = inside("admin", "stats").lines
    assert stats["space"]["conversations"] == 1
    assert "conversations" in inside("admin", "stats", on_terminal=True).out


def test_tokens_are_created_listed_rotated_and_revoked(
    inside: Inside, server: RunningServer
) -> None:
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
        assert inside("admin", "tokens", "revoke", "0" * 12).code == NOT_FOUND
        assert "the wall" in inside("admin", "tokens", "list", "--all", on_terminal=True).out
