"""`recollect-server audit`: print the audit log of a data folder."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from recollect_server.access.audit_file import read_audit
from recollect_server.kernel.domain.time import from_text, milliseconds, system_clock
from recollect_server.run.commands.folder import folder_there
from recollect_server.run.commands.logs import printable, say
from recollect_server.run.commands.options import NamedPath, load_settings
from recollect_server.run.settings.values import duration

_PATH = NamedPath(path_type=Path)


@click.command()
@click.option("--since", default="", metavar="DURATION", help="only of the last 1h, 7d, … [all]")
@click.option("--json", "as_json", is_flag=True, help="print each record as a line of JSON")
@click.option("--config", type=_PATH, metavar="FILE", help="a YAML file with settings")
@click.option(
    "--data-dir", type=_PATH, metavar="VALUE", help="folder that holds all data [.recollect]"
)
def audit(since: str, config: Path | None, data_dir: Path | None, *, as_json: bool) -> None:
    """Print who was refused, and who changed tokens, administered or deleted: oldest first, while
    the server runs or not.

    A line whose checksum does not fit is named on standard error, and the status is 1.
    """
    settings = load_settings(config, {"data_dir": data_dir})
    try:
        earliest = system_clock() - milliseconds(duration(since)) if since else None
    except ValueError as error:
        raise click.BadParameter(f"{since!r} {error}", param_hint="--since") from error
    folder_there(settings)
    damaged = 0
    for file, number, record in read_audit(settings.data_dir):
        if record is None:
            damaged += 1
            say(f"{file}, line {number}: the checksum does not fit", sys.stderr)
        elif earliest is None or _time_of(record) >= earliest:
            click.echo(json.dumps(record) if as_json else printable(_line(record)))
    if damaged:
        raise SystemExit(1)


def _time_of(record: dict[str, Any]) -> int:
    try:
        return from_text(str(record["time"]))
    except (KeyError, ValueError):
        return 0


def _line(record: dict[str, Any]) -> str:
    """Return a record as a line: its time, its outcome, the method, and the rest by name."""
    first = [str(record.get(name, "")) for name in ("time", "outcome", "method")]
    rest = [
        f"{name}={value}"
        for name, value in record.items()
        if name not in ("time", "outcome", "method", "crc")
    ]
    return " ".join(filter(None, [*first, *rest]))
