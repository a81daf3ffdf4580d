"""Contents of the image that are left out of what pip installs, by the Dockerfile."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

DOCKERFILE = (Path(__file__).parents[2] / "Dockerfile").read_text("utf-8")
_UNINSTALLED = re.search(r"pip uninstall --yes --quiet ((?:[\w-]+ ?)+)\\", DOCKERFILE)
assert _UNINSTALLED is not None
LEFT_OUT = frozenset(_UNINSTALLED[1].split())
INSTALLED = re.findall(r'"\./(client|server)\[([\w,]+)\]"', DOCKERFILE)
FETCHES_MODELS = "huggingface-hub"
MODULES = ("filelock", "fsspec", "hf_xet", "huggingface_hub", "tqdm")


def required(name: str, extras: frozenset[str], without: str = "") -> set[str]:
    """Return the distributions that one needs here, itself included."""
    names: set[str] = set()
    looked_at: set[tuple[str, frozenset[str]]] = set()
    waiting = [(name, extras)]
    while waiting:
        at = name, extras = waiting.pop()
        if at in looked_at or name == without:
            continue
        looked_at.add(at)
        try:
            requires = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # it is for another system
        names.add(name)
        for it in map(Requirement, requires):
            environments = ({"extra": extra} for extra in ("", *extras))
            if it.marker is None or any(map(it.marker.evaluate, environments)):
                waiting.append((canonicalize_name(it.name), frozenset(it.extras)))
    return names


def test_the_image_leaves_out_what_only_fetches_models_and_all_of_it() -> None:
    roots = [(f"recollect-{name}", frozenset(extras.split(","))) for name, extras in INSTALLED]
    assert len(roots) == 2
    every = set().union(*(required(*it) for it in roots))
    others = set().union(*(required(*it, without=FETCHES_MODELS) for it in roots))
    assert FETCHES_MODELS in every
    assert every - others == LEFT_OUT


def test_a_text_is_embedded_and_a_model_read_without_what_the_image_leaves_out() -> None:
    program = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({MODULES!r}))\n"  # an import of one fails
        "from recollect_server.recall.model.embedder import Embedder\n"
        "from recollect_server.recall.model.weights import look, shipped\n"
        "print(Embedder(look(shipped())).embed(['The roof leaks.']).shape)\n"
    )
    assert {it.replace("_", "-") for it in MODULES} == LEFT_OUT
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("(1, 384)\n", 0), done.stderr
