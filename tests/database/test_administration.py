"""AdminService of a server whose logs are in PostgreSQL: what is about folders is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
from recollect import Client, Unavailable

from tests.conftest import Start
from tests.postgres import Postgres


def test_what_is_about_folders_is_refused_and_changes_nothing(
    postgres: Postgres, start_server: Start, tmp_path: Path
) -> None:
    backups = tmp_path / "backups"
    server = start_server(store=postgres.new_database(), backup_dir=backups)
    with Client(server.target, retry=None) as client:
        conversation = client.conversations.create("web")
        calls: dict[str, Callable[[], object]] = {
            "ada": lambda: client.admin.create_space("ada"),
            "eve": lambda: client.admin.delete_space("eve"),
            "default": client.admin.backup,
        }
        for space, call in calls.items():
            with pytest.raises(Unavailable, match=f"the logs of {space} are in a database"):
                call()
        assert [it.name for it in client.admin.list_spaces().spaces] == ["default"]
        assert client.conversations.get(conversation.id) == conversation
    assert not backups.exists()
