"""Tokens of a data folder, as its operator makes them."""

import json
from pathlib import Path
from typing import Any

import pytest
from recollect_server.domain.tokens import Grant, Token, scopes_of
from recollect_server.services.tokens import Tokens
from recollect_server.storage.logs.tokens import TokenLedger

from tests.conftest import MovableClock
from tests.server_cli.conftest import run

CONVERSATION = "conv-01HQ0000000000000000000000"


@pytest.fixture(autouse=True)
def _logs_apart(no_log: None) -> None:
    """Keep logs out of the output of commands."""


@pytest.fixture
def tokens(tmp_path: Path, clock: MovableClock) -> Tokens:
    """Return the tokens of an empty data folder."""
    return tokens_of(tmp_path / "data", clock)


def tokens_of(data_dir: Path, clock: MovableClock) -> Tokens:
    """Return the tokens of a data folder."""
    return Tokens(TokenLedger(data_dir), clock)


def grant(kind: str = "brain", *spaces: str, **fields: Any) -> Grant:
    """Return a grant of a kind."""
    scopes = scopes_of(kind, tuple(fields.pop("scopes", ())))
    return Grant(kind, scopes, spaces or ("default",), **fields)


def listed(data_dir: Path) -> list[dict[str, Any]]:
    """Return what `token list --all` lists."""
    result = run("token", "list", "--all", "--json", "--data-dir", data_dir)
    assert result.exit_code == 0, result.output
    fields: list[dict[str, Any]] = json.loads(result.stdout)
    return fields


def valid(tokens: Tokens) -> list[Token]:
    """Return the tokens that are valid now."""
    return [it for it in tokens.all() if not tokens.ended(it)]
