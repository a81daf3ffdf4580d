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
FILES = {"ruby": "main.rb", "php": "main.php", "cpp": "main.cc", "java": "Main.java"}
NEEDED = {
    "Ruby": "grpc_tools_ruby_protoc",
    "C++": "grpc_cpp_plugin",
    "Java": "grpc_java_plugin",
    "PHP": "php",
}
GENERATED = sorted(name for name, text in SECTIONS.items() if "```sh\n" in text)


def prepared(language: str, folder: Path) -> list[str]:
    """Write the program of a language into a folder, and return its commands."""
    for name in {"protoc", NEEDED.get(language, "protoc")}:
        if shutil.which(name) is None:
            pytest.skip(f"there is no {name} here: docs/guides/languages.md says what to install")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", SECTIONS[language], re.MULTILINE | re.DOTALL)
    (folder / "proto").symlink_to(ROOT / "proto")
    (folder / "lib").mkdir()
    (folder / "classes").mkdir()
    for kind, text in blocks:
        if kind in FILES:
            (folder / FILES[kind]).write_text(text)
    return [line for kind, text in blocks if kind == "sh" for line in text.splitlines()]


def run(command: str, folder: Path) -> str:
    """Run a command of the page in a folder and return what it prints."""
    jars = ":".join(map(str, sorted(JARS.glob("*.jar"))))
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ | {"CLASSPATH": f"classes:{jars}"},
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
        pytest.param("C++", "./client", marks=pytest.mark.skipif(not LONG, reason="takes minutes")),
        pytest.param("Java", "java Main", marks=pytest.mark.skipif(not LONG, reason="minutes")),
    ],
)
def test_the_program_of_the_page_writes_and_finds(
    server: RunningServer, client: Client, language: str, program: str, tmp_path: Path
) -> None:
    commands = prepared(language, tmp_path)
    if language == "C++" and subprocess.call(["bash", "-c", "pkg-config --exists grpc++"]):
        pytest.skip("there is no libgrpc++-dev here: docs/guides/languages.md says what to install")
    for command in commands:
        run(command, tmp_path)
    snippet = run(f"{program} {server.target}", tmp_path)
    assert snippet == "We ship on Friday.\n"
    [conversation] = client.conversations.list()
    loaded = client.conversations.load(conversation.id)
    assert [it.content for it in loaded.messages] == ["We ship on Friday."]
