"""The commands and programs of docs/guides/languages.md, run: code that is generated, compiled, and
calls a real server.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from recollect import Client

from tests.conftest import LONG, RunningServer

ROOT = Path(__file__).parents[2]
JARS = Path("/usr/share/java")
SECTIONS = {
    section.partition("\n")[0].replace("\\", ""): section
    for section in (ROOT / "docs/guides/languages.md").read_text().split("\n## ")[1:]
}
FILES = {
    "ruby": "main.rb",
    "php": "main.php",
    "cpp": "main.cc",
    "java": "Main.java",
    "kotlin": "main.kt",
    "toml": "Cargo.toml",
}
NEEDED = {
    "Ruby": ["grpc_tools_ruby_protoc"],
    "C++": ["grpc_cpp_plugin"],
    "Java": ["grpc_java_plugin", "javac"],
    "Kotlin": ["grpc_java_plugin", "javac", "kotlinc"],
    "PHP": ["php"],
    "Rust": ["cargo"],
}
CRATES = Path("/usr/share/cargo/registry")
GENERATED = sorted(name for name, text in SECTIONS.items() if re.search(r"```sh\n.*protoc ", text))

_minutes = pytest.mark.skipif(not LONG, reason="takes minutes: make hostile runs it")


def prepared(language: str, folder: Path) -> list[str]:
    """Write the program of a language into a folder, and return its commands."""
    for name in ["protoc", *NEEDED.get(language, [])]:
        if shutil.which(name) is None:
            pytest.skip(f"there is no {name} here: docs/guides/languages.md says what to install")
    if language == "Rust" and not {*CRATES.glob("hyper-0.14.*"), *CRATES.glob("prost-build-*")}:
        pytest.skip("Debian's crates are not here: docs/guides/languages.md says which to install")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", SECTIONS[language], re.MULTILINE | re.DOTALL)
    (folder / "proto").symlink_to(ROOT / "proto")
    (folder / "lib").mkdir()
    (folder / "classes").mkdir()
    for kind, text in blocks:
        named = re.match(r"// ([\w/]+\.rs)", text)
        if path := named[1] if named else FILES.get(kind):
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text)
    return [line for kind, text in blocks if kind == "sh" for line in text.splitlines()]


def depends(package: str) -> list[str]:
    """Return the packages of Debian that an installed one asks for."""
    command = ["dpkg-query", "--show", "--showformat", "${Depends}", package]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [re.split(r"[ :(|]", it.strip())[0] for it in listed.split(",") if it.strip()]


def jars(language: str) -> list[str]:
    """Return the jars of the packages of Debian that the page names, and of those they ask for:
    what a machine has on which nothing else was installed.
    """
    named = "".join(SECTIONS[it] for it in ("Java", language))
    packages = re.findall(r"`apt-get install ([^`]*)`", named)
    todo = " ".join(packages).split()
    closed: set[str] = set()
    while todo:
        if (package := todo.pop()) not in closed:
            closed.add(package)
            todo += depends(package)
    command = ["dpkg", "--listfiles", *sorted(closed)]
    files = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    return sorted({it for it in files if Path(it).parent == JARS and it.endswith(".jar")})


def run(command: str, folder: Path, classpath: str = "") -> str:
    """Run a command of the page in a folder and return what it prints."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ | {"CLASSPATH": f"classes:{classpath}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("language", GENERATED)
def test_the_page_generates_code_of_every_service(language: str, tmp_path: Path) -> None:
    generate = prepared(language, tmp_path)[0]
    run(generate, tmp_path)
    files = [it for it in (tmp_path / "lib").rglob("*") if it.is_file()]
    code = b"".join(it.read_bytes() for it in files).decode("latin-1")
    for message in ("AppendTurnRequest", "SearchResponse", "StreamUpdatesRequest"):
        assert re.search(message.replace("Request", "_?Request"), code), message


@pytest.mark.timeout(1000)
@pytest.mark.parametrize(
    ("language", "program"),
    [
        ("Ruby", "ruby -I lib main.rb"),
        ("PHP", "php main.php"),
        ("Java", "java Main"),
        pytest.param("C++", "./client", marks=_minutes),
        pytest.param("Kotlin", "java MainKt", marks=_minutes),
        pytest.param("Rust", "target/debug/client", marks=_minutes),
    ],
)
def test_the_program_of_the_page_writes_and_finds(
    server: RunningServer, client: Client, language: str, program: str, tmp_path: Path
) -> None:
    commands = prepared(language, tmp_path)
    if language == "C++" and subprocess.call(["bash", "-c", "pkg-config --exists grpc++"]):
        pytest.skip("there is no libgrpc++-dev here: docs/guides/languages.md says what to install")
    classpath = ":".join(jars(language)) if language in ("Java", "Kotlin") else ""
    for command in commands:
        run(command, tmp_path, classpath)
    snippet = run(f"timeout 60 {program} {server.target}", tmp_path, classpath)
    assert snippet == "We ship on Friday.\n"
    [conversation] = client.conversations.list()
    loaded = client.conversations.load(conversation.id)
    assert [it.content for it in loaded.messages] == ["We ship on Friday."]
