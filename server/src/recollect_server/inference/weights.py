"""The files of an embedding model: where they lie, and whether they are what they should be."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

MODEL, TOKENIZER, SUMS = "model.int8w.onnx", "tokenizer.json", "SHA256SUMS"

_PACKAGE = Path(__file__).parents[1]


class NoWeights(Exception):
    """A file of the model is missing or cannot be read; the text says which."""


class WrongWeights(Exception):
    """The files are not the model that they should be; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A model whose files were found whole."""

    folder: Path
    identity: str
    """The same for the same files: two models' vectors cannot be compared."""


def shipped() -> Path:
    """Return the folder of the model that ships with the server: in its wheel, or in the source
    tree.
    """
    inside = _PACKAGE / "weights"
    return inside if inside.is_dir() else _PACKAGE.parents[2] / "models"


def look(folder: Path) -> Weights:
    """Return the model in a folder. Raises NoWeights, WrongWeights."""
    sums: dict[str, str] = {}
    for line in _read(folder / SUMS).decode(errors="replace").splitlines():
        digest, _, name = line.partition("  ")
        sums[name] = digest
    for name in (MODEL, TOKENIZER):
        if hashlib.sha256(_read(folder / name)).hexdigest() != sums.get(name):
            raise WrongWeights(
                f"{folder / name} is not the file that {SUMS} names: install recollect-server again, or name another model's folder"
                " with --embedding-model"
            )
    return Weights(
        folder, hashlib.sha256(f"{sums[MODEL]} {sums[TOKENIZER]}".encode()).hexdigest()[:32]
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise NoWeights(
            f"{path.name} of the embedding model cannot be read ({error.strerror}): install recollect-server again, or name another"
            " model's folder with --embedding-model"
        ) from error
