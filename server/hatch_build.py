"""Build hook that puts the embedding models' files into every wheel: nothing is downloaded, ever.

In the tree they lie in `models/` beside this distribution's folder. The source distribution carries
them in a `models/` of its own, so that a wheel can be built from it alone.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FILES = (
    *("model.int8w.onnx", "tokenizer.json", "words.npz", "statements.npz", "SHA256SUMS", "NOTICE"),
    *("e5/model.q4n.onnx", "e5/tokenizer.json", "e5/centres.npy", "e5/questions.npy"),
    *("e5/words.npz", "e5/statements.npz", "e5/SHA256SUMS"),
)


class WeightsHook(BuildHookInterface):
    """Adds the models' files to a wheel or a source distribution."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the hook's interface
        """Name the files and where they go. Raise FileNotFoundError if they are nowhere."""
        root = Path(self.root)
        inside = root / "models"
        folder = inside if inside.is_dir() else root.parent / "models"
        if missing := [name for name in _FILES if not (folder / name).is_file()]:
            raise FileNotFoundError(
                f"{folder} has no {', '.join(missing)}: build from the whole tree or from an sdist"
            )
        target = "recollect_server/weights" if self.target_name == "wheel" else "models"
        build_data["force_include"] |= {str(folder / name): f"{target}/{name}" for name in _FILES}
