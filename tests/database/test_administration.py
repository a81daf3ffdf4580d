"""Administration of a server whose logs are in PostgreSQL: what is answered, what is refused, and
that no answer, file or line of the log has the password.
"""

from pathlib import Path

import pytest
from recollect import Client, InvalidArgument, Message, NotFound, Unavailable

from tests.conftest import Start
from tests.postgres import Postgres
from tests.server.conftest import files_with

SECRET = "s3cret"  # noqa: S105 - of nobody


def test_administrators_see_spaces_but_make_copy_and_delete_none_and_never_see_the_password(
    postgres: Postgres,
    start_server: Start,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    url = postgres.new_database().replace("postgres@", f"postgres:{SECRET}@")
    server = start_server(store=url, backup_dir=tmp_path / "backups", log_level="debug")
    with Client(server.target, space="ada") as ada:
        ada.conversations.create("web", messages=[Message.user("apricot")])
    with Client(server.target, retry=None) as client:
        admin = client.admin
        answers = [
            admin.list_settings(),
            admin.list_spaces(),
            admin.list_tokens(),
            admin.list_jobs(),
            admin.list_retention_rules(),
            admin.get_stats(space="ada"),
        ]
        assert [it.name for it in admin.list_spaces().spaces] == ["ada"]
        assert admin.get_stats(space="ada").space.messages == 1
        refusals: list[str] = []
        for change in (
            lambda: admin.create_space("ben"),
            lambda: admin.delete_space("ada"),
            lambda: admin.backup(),
        ):
            with pytest.raises(Unavailable, match="are in a database, in which this server") as one:
                change()
            refusals.append(str(one.value))
        with pytest.raises(InvalidArgument, match="store") as changed:
            admin.set_setting("store", "folder")
        with pytest.raises(NotFound) as missing:
            admin.get_stats(space="ben")
        assert [it.name for it in admin.list_spaces().spaces] == ["ada"]
    with Client(server.target, space="ada") as ada:
        assert len(list(ada.conversations.list())) == 1
    postgres.end_sessions(url)
    server.stop()
    texts = [repr(answers), *refusals, str(changed.value), str(missing.value), *capfd.readouterr()]
    assert "postgresql://postgres:***@" in texts[0]
    assert not [text for text in texts if SECRET in text]
    assert files_with(server.data_dir, SECRET) == []
    assert not (tmp_path / "backups").exists()
