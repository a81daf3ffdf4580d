"""The files of an embedding model: where they lie, and whether they are what they should be."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

MODEL, TOKENIZER, SUMS = "model.int8w.onnx", "tokenizer.json", "SHA256SUMS"

_PACKAGE = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Profile:
    """Profile of a model: the names of its files, and the form in which it takes texts."""

    name: str
    folder: str = "."
    """Its place below the shipped models."""
    model: str = MODEL
    question: str = ""
    """Prefix of questions."""
    passage: str = ""
    """Prefix of messages."""
    centres: str = ""
    """File of the mean vectors of messages and of questions, which are taken off; empty: none."""
    questions: str = ""
    """File of the mean vectors of questions, one for each of some languages: of these the nearest
    is taken off a question. It may be missing, and does not change the model's identity: no kept
    vector depends on it.
    """
    words: str = ""
    """File of the constants of word codes (`recall.model.word_codes`). It may be missing, and does
    not change the model's identity: without it no words are compared.
    """
    statements: str = ""
    """File of the classifier of statements (`recall.model.statement_classes`), likewise."""
    states: str = ""
    """Name of the last hidden states in the model's graph, which word codes are made of."""

    @property
    def files(self) -> tuple[str, ...]:
        return (self.model, TOKENIZER, *([self.centres] if self.centres else []))


MINILM = Profile("all-MiniLM-L6-v2", words="words.npz", statements="statements.npz", states="t79")
E5 = Profile(
    *("multilingual-e5-small", "e5", "model.q4n.onnx", "query:", "passage:"),
    centres="centres.npy",
    questions="questions.npy",
    words="words.npz",
    statements="statements.npz",
    states="t213",
)


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
    profile: Profile = MINILM


def shipped(profile: Profile = MINILM) -> Path:
    """Return the folder of a model that ships with the server: in its wheel, or in the source
    tree.
    """
    inside = _PACKAGE / "weights"
    models = inside if inside.is_dir() else _PACKAGE.parents[2] / "models"
    return models / profile.folder


def look(folder: Path, profile: Profile = MINILM) -> Weights:
    """Return the model in a folder. Raises NoWeights, WrongWeights."""
    sums = _sums(folder, profile)
    for name in profile.files:
        digest = hashlib.sha256(_read(folder / name, profile)).hexdigest()
        if digest != sums.get(name):
            raise WrongWeights(
                f"{folder / name} is not the file that {SUMS} names: {_advice(profile)}"
            )
    return Weights(folder, _identity(sums, profile), profile)


def identity_of(folder: Path, profile: Profile) -> str:
    """Return the identity of the model in a folder without a look at its large files. Raises
    NoWeights, WrongWeights.
    """
    sums = _sums(folder, profile)
    for name in profile.files:
        if name not in sums or not (folder / name).is_file():
            raise NoWeights(f"{name} of the model {profile.name} is missing: {_advice(profile)}")
    return _identity(sums, profile)


def _identity(sums: dict[str, str], profile: Profile) -> str:
    return hashlib.sha256(" ".join(sums[name] for name in profile.files).encode()).hexdigest()[:32]


def _sums(folder: Path, profile: Profile) -> dict[str, str]:
    sums: dict[str, str] = {}
    for line in _read(folder / SUMS, profile).decode(errors="replace").splitlines():
        digest, _, name = line.partition("  ")
        sums[name] = digest
    return sums


def _advice(profile: Profile) -> str:
    other = ", or name another model's folder with --embedding-model" if profile == MINILM else ""
    return f"install recollect-server again{other}"


def _read(path: Path, profile: Profile) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        model = "embedding model" if profile == MINILM else f"embedding model {profile.name}"
        raise NoWeights(
            f"{path.name} of the {model} cannot be read ({error.strerror}): {_advice(profile)}"
        ) from error
