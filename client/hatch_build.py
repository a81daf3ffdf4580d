"""The step of every build of this package that generates the blocking client (`unasync`)."""

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SyncBuildHook(BuildHookInterface[Any]):
    """Generates before anything is packed, into the sources, from where an editable installation
    runs.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Write the modules that are not current."""
        runpy.run_path(str(Path(self.root, "unasync.py")))["write"]()
