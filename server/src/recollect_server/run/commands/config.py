"""`recollect-server config`: prints the settings in force."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import yaml

from recollect_server.run.commands.options import OF_FOLDER, load_settings, with_settings
from recollect_server.run.settings.values import duration_text


@click.command()
@with_settings(*OF_FOLDER)
def config(config: Path | None, **flags: Any) -> None:
    """Print the settings in force, as a YAML file that --config reads."""
    settings = load_settings(config, flags)
    values = {
        name: duration_text(value)
        if isinstance(value, timedelta)
        else str(value)
        if isinstance(value, (Path, str))
        else value
        for name, value in settings.model_dump().items()
    }
    click.echo(yaml.safe_dump(values, sort_keys=False), nl=False)
