"""The units of systemd: valid, closed to what the server does not need, with settings that there
are.
"""

import configparser
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from recollect_server.run.commands import commands
from recollect_server.run.settings import SYSTEM_FILE, Settings

from tests.deploy.conftest import DEPLOY, Load

UNITS = sorted(it for it in (DEPLOY / "systemd").iterdir() if it.suffix != ".yaml")
SERVICES = [it for it in UNITS if it.suffix == ".service"]
EXPOSURE = {"recollect.service": 15, "recollect-backup.service": 10}
"""Largest exposure that `systemd-analyze security` may find, in tenths: 0 is none, 100 is all."""

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="systemd-analyze is not installed (apt-get install systemd)",
)


def analyze(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def lines_of(unit: Path, key: str) -> list[str]:
    return re.findall(rf"^(?:# )?{key}=(.*)$", unit.read_text(), re.MULTILINE)


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    for unit in UNITS:
        text = unit.read_text().replace("/opt/recollect/bin", str(Path(sys.executable).parent))
        # what is commented out counts too
        text = re.sub(r"^# (?=[A-Z]\w+=)", "", text, flags=re.MULTILINE)
        (tmp_path / unit.name).write_text(text)
    result = analyze("verify", *(tmp_path / it.name for it in UNITS))
    assert (result.returncode, result.stdout + result.stderr) == (0, "")
    wrong = tmp_path / "recollect.service"
    wrong.write_text(wrong.read_text().replace("ProtectHome=yes", "ProtectHomes=yes"))
    assert "ProtectHomes" in analyze("verify", wrong).stderr


@needs_systemd
@pytest.mark.parametrize("unit", SERVICES, ids=lambda it: it.name)
def test_a_unit_is_open_to_little(unit: Path) -> None:
    result = analyze("security", "--offline=yes", f"--threshold={EXPOSURE[unit.name]}", unit)
    assert result.returncode == 0, result.stdout[-200:]


@pytest.mark.parametrize("unit", SERVICES, ids=lambda it: it.name)
def test_a_unit_runs_a_command_with_settings_that_there_are(
    unit: Path, load: Load, tmp_path: Path
) -> None:
    [start] = lines_of(unit, "ExecStart")
    program, command, *flags = shlex.split(start)
    assert Path(program).name == "recollect-server"
    assert command in commands.list_commands(None)  # type: ignore[arg-type]
    # the file that comes with the units, whole: what is commented out counts too
    assert flags == ["--config", str(SYSTEM_FILE)]
    sample = (DEPLOY / "systemd/recollect.yaml").read_text()
    names = re.findall(r"^(?:# )?([a-z_]+):", sample, re.MULTILINE)
    assert set(names) <= set(Settings.model_fields)
    file = tmp_path / "recollect.yaml"
    file.write_text(sample)
    settings = load({}, file)
    stop = lines_of(unit, "TimeoutStopSec")
    assert all(int(it) > settings.shutdown_grace.total_seconds() for it in stop)
    folders = {f"/var/lib/{it}" for it in lines_of(unit, "StateDirectory")[0].split()}
    named = {str(settings.data_dir), str(settings.backup_dir or settings.data_dir)}
    assert named == folders


def test_the_timer_starts_the_backup() -> None:
    timer = configparser.ConfigParser()
    timer.read(DEPLOY / "systemd/recollect-backup.timer")
    assert timer["Timer"]["OnCalendar"]
    assert (DEPLOY / "systemd/recollect-backup.service").is_file()
