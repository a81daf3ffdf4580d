"""The server killed while it changes its file of settings: the file is the old one or the new one,
and the next change works.
"""

from pathlib import Path

import pytest
from recollect import Client, RecollectError

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
