"""The page on credentials: its commands run and print what it shows."""

import re
import shlex
from pathlib import Path

from recollect_server.access.principal import CUSTOM, KINDS

from tests.credentials.conftest import listed
from tests.server_cli.conftest import run

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "credentials.md"
_ID = re.compile(r"(?<![0-9A-Za-z])[0-9a-z]{12}(?![0-9A-Za-z])")


def examples() -> list[tuple[str, list[str]]]:
    """Return each command of the first block with the lines that it shows of its output."""
    block, *_ = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    parts = [part.splitlines() for part in block.removeprefix("$ ").split("\n$ ")]
    return [(command, lines) for command, *lines in parts]


def same(text: str) -> str:
    """Return a text without what differs from run to run."""
    text = re.sub(r"rcl_([0-9a-z]{12})_(…|[0-9A-Za-z]{49})", r"rcl_\1_…", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    return _ID.sub("ID", text)


def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    shown_ids: list[str] = []
    for command, lines in examples():
        program, *arguments = shlex.split(command)
        assert program == "recollect-server"
        actual = [it["id"] for it in listed(tmp_path)]
        ids = dict(zip(shown_ids, actual, strict=True))
        result = run(*[ids.get(it, it) for it in arguments], "--data-dir", tmp_path)
        assert result.exit_code == 0, result.output
        assert same(result.output).splitlines() == [same(line) for line in lines]
        for shown in _ID.findall(" ".join(lines)):
            if shown not in shown_ids:
                shown_ids.append(shown)


def test_every_kind_is_on_the_page() -> None:
    section = PAGE.read_text().partition("## Kinds")[2]
    assert re.findall(r"^\| `(\w+)` \| ", section, re.MULTILINE)[: len(KINDS) + 1] == [
        *KINDS,
        CUSTOM,
    ]
