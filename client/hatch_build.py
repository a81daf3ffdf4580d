"""The steps of every build of this package: generate the blocking client (`unasync`), and say where
the packages of its extras are.
"""

import os
import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

BY_VERSION = "EXTRAS_BY_VERSION"
"""The environment variable that makes the extras as a release has them, in the tree too. `make`
sets it, which installs the packages of the tree itself.
"""


class SyncBuildHook(BuildHookInterface[Any]):
    """Generates before anything is packed, into the sources, from where an editable installation
    runs.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Write the modules that are not current."""
        runpy.run_path(str(Path(self.root, "unasync.py")))["write"]()


class ExtrasHook(MetadataHookInterface):
    """Turns the table of extras into requirements.

    Until the packages are in a registry, `pip install './client[cli]'` can only find them in the
    tree. A release names their versions (`scripts/packages.py` refuses one that does not), and so
    does what pip builds in a clone of its own, which is gone when somebody adds an extra.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the optional dependencies."""
        folder = Path(self.root).resolve().parent / "packages"
        is_tree = (folder / "cli" / "pyproject.toml").is_file() and not any(
            it.startswith(("pip-install-", "pip-req-build-")) for it in folder.parts
        )
        by_version = not is_tree or bool(os.environ.get(BY_VERSION))

        def requirement(package: str) -> str:
            name = package.partition("[")[0]
            place = f"=={metadata['version']}" if by_version else f" @ {(folder / name).as_uri()}"
            return f"recollect-client-{package}{place}"

        metadata["optional-dependencies"] = {
            extra: list(map(requirement, packages))
            for extra, packages in self.config["extras"].items()
        }
