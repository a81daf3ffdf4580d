"""The server killed while it changes its file of settings, or deletes a space: each is done or
not, and the next start ends what was begun.
"""

from pathlib import Path

import pytest
from recollect import Client, Message, RecollectError
from recollect_server.kernel.log.space_removal import receipts

from tests.crash.load import process

OF_SETTINGS = {
    "settings.half_written": "20m",
    "settings.written": "20m",
    "settings.replaced": "30m",
}
"""The failpoints, with the value that the next start reads."""


@pytest.mark.parametrize("point", OF_SETTINGS)
def test_a_kill_leaves_the_old_file_of_settings_or_the_new_one(point: str, tmp_path: Path) -> None:
    file = tmp_path / "its.yaml"
    file.write_text("# Ada's\nidle_timeout: 20m\n")
    flags = "127.0.0.1:0", "--config", str(file)
    with (
        process(tmp_path / "data", point, *flags) as server,
        Client(server.target, retry=None) as client,
    ):
        with pytest.raises(RecollectError):
            client.admin.set_setting("idle_timeout", "30m", timeout=20)
        assert server.was_killed
    assert file.read_text() == f"# Ada's\nidle_timeout: {OF_SETTINGS[point]}\n"
    with process(tmp_path / "data", "", *flags) as server, Client(server.target) as client:
        changed = client.admin.set_setting("idle_timeout", "40m")
        assert changed.setting.value == "40m"
    assert file.read_text() == "# Ada's\nidle_timeout: 40m\n"
    assert sorted(it.name for it in tmp_path.iterdir()) == ["data", "its.yaml"]


OF_SPACES = {"space.begun", "space.renamed", "space.receipt_written", "space.removed"}
"""The failpoints of a delete."""


@pytest.mark.parametrize("point", sorted(OF_SPACES))
def test_a_killed_delete_of_a_space_is_undone_or_ended_by_the_next_start(
    point: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with (
        process(data, point) as server,
        Client(server.target, space="ada", retry=None) as client,
    ):
        conversation = client.conversations.create("web")
        client.conversations.append_turn(conversation.id, [Message.user("quixotriple")])
        with pytest.raises(RecollectError):
            client.admin.delete_space("ada", timeout=20)
        assert server.was_killed
    with process(data) as server, Client(server.target) as client:
        names = [it.name for it in client.admin.list_spaces()]
        if point == "space.begun":
            assert (names, receipts(data)) == (["ada", "default"], [])
            client.admin.delete_space("ada")
        else:
            assert names == ["default"]
        assert [(it.name, it.conversations) for it in receipts(data)] == [("ada", 1)]
    assert not [it for it in data.rglob("*") if it.is_file() and b"quixotriple" in it.read_bytes()]
    assert not list(data.glob(".deleted*"))
