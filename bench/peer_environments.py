"""Memory libraries that `bench.peers` measures, and the environments they are installed into."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import orjson

ROOT = Path(__file__).parents[1]
_RUNTIME = ("onnxruntime", "tokenizers", "numpy")
"""Libraries that the embedding model needs, in the environment of each peer that takes one."""


class Failed(Exception):
    """A library did not install or run; the text says why."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A library to measure."""

    name: str
    driver: str
    """Its name in `peer_drivers.DRIVERS`."""
    packages: tuple[str, ...]
    """Requirements of its environment; none: it needs only that of the benchmarks."""
    by: str
    """Kind of ranking of its search."""
    embeds: bool = True
    """True if it takes an embedding function."""
    searches: bool = True


_LANGGRAPH_PACKAGES = ("langgraph==1.2.24", "langgraph-checkpoint-sqlite==3.1.2", *_RUNTIME)
_MCP_MEMORY = ("mcp-memory-service==12.4.0", *_RUNTIME)
_TXTAI = ("torch==2.13.0", "txtai==9.14.0", *_RUNTIME)
_VECTORS, _WORDS, _BOTH = "vectors", "words", "words and vectors"
RECOLLECT = Peer("Recollect", "", (), _BOTH)
RECOLLECT_WORDS = Peer("Recollect, embedder off", "", (), _WORDS, embeds=False)
PLAIN_FTS5 = Peer("plain FTS5", "plain-fts5", (), _WORDS, embeds=False)
PLAIN_VECTORS = Peer("plain vectors (numpy)", "plain-vectors", (), _VECTORS)
LANGGRAPH = Peer("LangGraph InMemoryStore", "langgraph-memory", _LANGGRAPH_PACKAGES, _VECTORS)
PEERS = (
    RECOLLECT,
    RECOLLECT_WORDS,
    PLAIN_FTS5,
    PLAIN_VECTORS,
    Peer("Google ADK InMemoryMemoryService", "google-adk", ("google-adk==2.13.0",), _WORDS, False),
    Peer("mcp-memory-service", "mcp-memory", _MCP_MEMORY, _VECTORS),
    Peer("mcp-memory-service, hybrid", "mcp-memory-hybrid", _MCP_MEMORY, _BOTH),
    Peer("mem0, infer=False", "mem0", ("mem0ai==2.2.1", *_RUNTIME), _VECTORS),
    LANGGRAPH,
    Peer("LangGraph SqliteStore", "langgraph-sqlite", _LANGGRAPH_PACKAGES, _VECTORS),
    Peer("Chroma", "chroma", ("chromadb==1.5.9", *_RUNTIME), _VECTORS),
    Peer("txtai", "txtai", _TXTAI, _VECTORS),
    Peer("txtai, hybrid", "txtai-hybrid", _TXTAI, _BOTH),
    Peer(
        "LlamaIndex VectorMemoryBlock",
        "llama-index",
        (
            "llama-index-core==0.14.25",
            "llama-index-vector-stores-chroma==0.6.0",
            "chromadb==1.5.9",
            *_RUNTIME,
        ),
        _VECTORS,
    ),
    Peer(
        "OpenAI Agents SQLiteSession",
        "openai-agents",
        ("openai-agents==0.24.0",),
        "no search",
        embeds=False,
        searches=False,
    ),
)


def last_line(text: str) -> str:
    """Return the last line of a log that says something."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else "it ended without a word"


def size_of(folder: Path) -> int:
    """Return the bytes that a folder takes on the disk."""
    return sum(it.lstat().st_blocks * 512 for it in folder.rglob("*"))


def interpreter() -> str:
    """Return a Python whose sqlite3 loads extensions, which some libraries need; else this one."""
    test = "import sqlite3, sys; sqlite3.Connection.enable_load_extension; sys.version_info >= (3, 11) or sys.exit(1)"
    for python in (sys.executable, shutil.which("python3", path="/usr/bin")):
        if python and subprocess.run([python, "-c", test], capture_output=True).returncode == 0:
            return python
    return sys.executable


def environment(peer: Peer, folder: Path) -> Path:
    """Return the interpreter of the environment of a peer, made if it is not there. Raises
    Failed.
    """
    own = folder / "-".join(it.replace("==", "-").replace("/", "_") for it in peer.packages[:1])
    python, mark = own / "bin" / "python", own / "packages.json"
    packages = orjson.dumps(peer.packages)
    if mark.is_file() and mark.read_bytes() == packages:
        return python
    subprocess.run([interpreter(), "-m", "venv", "--clear", "--without-pip", own], check=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    command = [*pip, "--python", str(python), "install", *peer.packages]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"did not install: {last_line(done.stderr)}")
    mark.write_bytes(packages)
    return python


def recollect_size(environments: Path) -> int:
    """Return the bytes that an installation of Recollect's server and client takes."""
    packages = (str(ROOT / "server"), str(ROOT / "client"))
    python = environment(Peer("Recollect", "", packages, ""), environments)
    return size_of(python.parents[1])


def installed(peer: Peer, environments: Path) -> int:
    """Return the bytes that an installation takes; 0 for a baseline."""
    if peer in (RECOLLECT, RECOLLECT_WORDS):
        return recollect_size(environments)
    return size_of(environment(peer, environments).parents[1]) if peer.packages else 0
