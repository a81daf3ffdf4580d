"""`recollect-server config`: prints the settings in force."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import yaml

from recollect_server.cli.options import load_settings, with_settings


@click.command()
@with_settings
def config(config: Path | None, **flags: Any) -> None:
    """Print the settings in force, as a YAML file that --config reads."""
    settings = load_settings(config, flags)
    values = {
        name: _duration(value) if isinstance(value, timedelta) else str(value) if isinstance(value, Path) else value
        for name, value in settings.model_dump().items()
    }
    click.echo(yaml.safe_dump(values, sort_keys=False), nl=False)


def _duration(value: timedelta) -> str:
    return f"{round(value.total_seconds() * 1000)}ms"
