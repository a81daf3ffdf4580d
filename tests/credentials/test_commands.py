"""`recollect-server token`: create, list, revoke, rotate."""

import json
import re
from pathlib import Path

import pytest
from recollect_server.access.token import PATTERN

from tests.credentials.conftest import CONVERSATION, listed
from tests.server_cli.conftest import run


def made(data_dir: Path, *arguments: str) -> str:
    """Create a token and return what was printed."""
    result = run("token", "create", *arguments, "--data-dir", data_dir)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def test_a_token_is_printed_once_and_listed_without_its_secret(tmp_path: Path) -> None:
    data = tmp_path / "not" / "there"
    result = run(
        "token",
        "create",
        "--kind",
        "brain",
        "--expires",
        "90d",
        "--note",
        "my agent",
        "--data-dir",
        data,
    )
    assert result.exit_code == 0
    assert re.fullmatch(PATTERN, result.stdout.strip())
    assert "printed this once" in result.stderr
    token_id, secret = result.stdout.split("_")[1:]
    assert secret[:43] not in result.stderr
    for flags in ((), ("--json",), ("--all",)):
        shown = run("token", "list", *flags, "--data-dir", data)
        assert token_id in shown.output
        assert "my agent" in shown.output
        assert secret[:43] not in shown.output
    (fields,) = listed(data)
    assert (fields["kind"], fields["spaces"], fields["state"]) == ("brain", ["default"], "valid")


def test_json_has_the_token_and_what_it_allows(tmp_path: Path) -> None:
    arguments = ("--kind", "custom", "--scopes", "recall, receive", "--space", "a", "--space", "b")
    printed = json.loads(made(tmp_path, *arguments, "--limit", "calls=2", "--json"))
    assert re.fullmatch(PATTERN, printed["token"])
    assert printed["scopes"] == ["recall", "receive"]
    assert (printed["spaces"], printed["limits"]) == (["a", "b"], {"calls": 2})


def test_a_revoked_token_is_listed_among_all_only(tmp_path: Path) -> None:
    first, second = (made(tmp_path, "--kind", "reader") for _ in range(2))
    result = run("token", "revoke", first.split("_")[1], second, "--data-dir", tmp_path)
    assert result.stdout.split()[1::2] == [first.split("_")[1], second.split("_")[1]]
    none = run("token", "list", "--data-dir", tmp_path)
    assert none.stdout == ""
    assert none.stderr.startswith(f"there are no tokens in {tmp_path} that can be used")
    assert [it["state"] for it in listed(tmp_path)] == ["revoked", "revoked"]


def test_a_rotation_prints_the_new_token_and_says_when_the_old_one_ends(tmp_path: Path) -> None:
    old = made(tmp_path, "--kind", "project", "--conversation", CONVERSATION).split("_")[1]
    result = run("token", "rotate", old, "--overlap", "2h", "--data-dir", tmp_path)
    assert re.fullmatch(PATTERN, result.stdout.strip())
    before, new = listed(tmp_path)
    assert f"{old} ends at {before['expires']}" in result.stderr
    assert (new["replaces"], new["conversation"], new["expires"]) == (old, CONVERSATION, "")
    assert before["state"] == "valid"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--kind", "king"], "kind: 'king' is not a kind: kinds are brain, project"),
        (["--kind", "project"], "conversation: is required"),
        (["--kind", "project", "--conversation", "x"], "conversation: is not conv-"),
        (["--kind", "brain", "--conversation", CONVERSATION], "goes with the kinds project"),
        (["--kind", "custom"], "scopes: is required"),
        (["--kind", "custom", "--scopes", "recal"], "scopes: 'recal' is not a scope"),
        (["--kind", "brain", "--scopes", "recall"], "goes with the kind custom alone"),
        (["--kind", "brain", "--space", "../up"], "space: '../up' is not the name of a space"),
        (["--kind", "brain", "--channel", "Web"], "channel: is not a channel"),
        (["--kind", "brain", "--note", "a\nb"], "note: has more than 256"),
        (["--kind", "brain", "--expires", "soon"], "'soon' is not a duration"),
        (["--kind", "brain", "--expires", "9999999d"], "expires: is after the year 9999"),
        (["--kind", "brain", "--expires", "0s"], "expires: is in the past"),
        (["--kind", "brain", "--limit", "calls"], "is not NAME=NUMBER"),
        (["--kind", "brain", "--limit", "calls=nan"], "is not NAME=NUMBER"),
        (["--kind", "brain", "--limit", "calls=-1"], "limit: is not NAME=NUMBER"),
    ],
)
def test_a_wrong_grant_is_refused_by_name_and_makes_nothing(
    arguments: list[str], text: str, tmp_path: Path
) -> None:
    result = run("token", "create", *arguments, "--data-dir", tmp_path / "data")
    assert result.exit_code != 0
    assert text in result.output
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("command", ["revoke", "rotate"])
def test_a_token_that_is_not_there_is_named(command: str, tmp_path: Path) -> None:
    result = run("token", command, "0" * 12, "--data-dir", tmp_path)
    assert (result.exit_code, result.output) == (1, f"Error: there is no token {'0' * 12}\n")
    wrong = run("token", command, "rcl_what", "--data-dir", tmp_path)
    assert (wrong.exit_code, "rcl_what" in wrong.output) == (1, False)
    assert wrong.output.startswith("Error: token: is not the id of a token")


def test_a_ledger_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "tokens.jsonl"
    file.mkdir()
    for arguments in (("list",), ("create", "--kind", "brain")):
        result = run("token", *arguments, "--data-dir", tmp_path)
        assert (result.exit_code, str(file) in result.output) == (1, True)
