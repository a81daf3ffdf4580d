"""The documentation matches the code: settings, map, links, sources, names of tests and of
functions.
"""

import re
from collections import defaultdict
from pathlib import Path

import click
import yaml
from recollect.cli.group import commands as client_commands
from recollect_server.run.commands import commands as server_commands
from recollect_server.run.settings import Settings

from tests.cases import each

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SERVER, CLIENT = ROOT / "server/src/recollect_server", ROOT / "client/src/recollect"
EDGES = sorted(ROOT.glob("packages/*/src/recollect"))
PAGES = sorted(
    [
        *DOCS.rglob("*.md"),
        *ROOT.glob("*.md"),
        *(ROOT / "examples").rglob("README.md"),
        *(ROOT / "bench").rglob("*.md"),
        ROOT / "client/README.md",
        *ROOT.glob("packages/*/README.md"),
        ROOT / "clients/toolkits/README.md",
        ROOT / "clients/typescript/README.md",
        ROOT / "clients/go/README.md",
        ROOT / "tests/README.md",
    ]
)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_bytes()) < 10_000


def test_the_settings_page_lists_every_setting_with_its_default() -> None:
    page = (DOCS / "reference/settings.md").read_text()
    listed = dict(
        re.findall(r"^\| `RECOLLECT_(\w+)` \| `--[\w-]+` \| `([^`]*)` \|", page, re.MULTILINE)
    )
    shown = {
        "True": "true",
        "None": "none",
        "False": "false",
        "0:00:10": "10s",
        "0:00:15": "15s",
        "0:01:00": "1m",
        "7 days, 0:00:00": "7d",
    }
    shown |= {
        "0:05:00": "5m",
        "0:10:00": "10m",
        "0:30:00": "30m",
        "0:00:30": "30s",
        "0:02:00": "2m",
        "0:00:01": "1s",
    }
    defaults = {name.upper(): str(field.default) for name, field in Settings.model_fields.items()}
    assert listed == {name: shown.get(default, default) for name, default in defaults.items()}


def test_each_request_of_the_contract_says_what_it_is_for() -> None:
    text = (ROOT / "docs/reference/contract.md").read_text()
    requests = re.findall(r"^`(\w+Request)`: (.*?)\.*$", text, re.MULTILINE)
    by_purpose: defaultdict[str, list[str]] = defaultdict(list)
    for name, purpose in requests:
        by_purpose[purpose].append(name)
    assert len(requests) > 60
    assert not [names for names in by_purpose.values() if len(names) > 1]


def test_the_map_names_every_package_and_no_other_folder() -> None:
    section = (DOCS / "architecture.md").read_text().partition("\n## Packages\n")[2]
    named = re.findall(r"`([\w./…]+/)`", section)
    assert len(named) > 20
    paths = {
        ROOT
        / folder.replace("server/…", "server/src/recollect_server").replace("…", "src/recollect")
        for folder in named
    }
    assert {path for path in paths if not path.is_dir()} == set()
    packages = {
        path.parent for top in (SERVER, CLIENT, *EDGES) for path in top.rglob("__init__.py")
    }
    assert len(packages) > 20
    assert packages - paths == set()


@each("page", PAGES)
def test_every_link_of_a_page_leads_to_a_file_and_a_section(page: Path) -> None:
    for file, section in re.findall(r"\]\((?!https?://)([^)#\s]*)#?([^)]*)\)", prose(page)):
        target = (page.parent / file) if file else page
        assert target.exists(), (file, section)
        if section:
            headings = re.findall(r"^#+ (.*)", target.read_text(), re.MULTILINE)
            assert section in {
                re.sub(r"[^\w -]", "", it.lower()).replace(" ", "-") for it in headings
            }, (file, section)


def test_every_page_of_the_docs_is_in_the_navigation() -> None:
    site = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named: set[str] = set()
    sections = [yaml.safe_load(site)]
    while sections:
        for entry in sections.pop():
            for value in entry.values():
                sections.append(value) if isinstance(value, list) else named.add(value)
    assert named == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


def test_every_statement_about_others_has_its_source() -> None:
    page = (DOCS / "benchmarks.md").read_text()
    named, given = (
        set(re.findall(r"\[\[(\d+)\]\]", page)),
        re.findall(r"^\[(\d+)\]: https://", page, re.MULTILINE),
    )
    assert named == set(given)
    assert len(given) == len(set(given)) > 50


def test_every_test_that_the_docs_name_exists() -> None:
    text = "\n".join(page.read_text() for page in (ROOT / "README.md", *DOCS.rglob("*.md")))
    named = re.findall(r"`((?:tests/)?[\w/]*\btest_\w+\.py)(?:::(\w+))?`", text)
    assert len(named) > 30
    files = [path.relative_to(ROOT) for path in ROOT.glob("tests/**/test_*.py")]
    for path, test in named:
        matches = [file for file in files if file.match(path)]
        assert matches, path
        assert not test or any(f"def {test}(" in (ROOT / file).read_text() for file in matches), (
            test
        )
    for folder in re.findall(r"`(tests/\w+)`", text):
        assert (ROOT / folder).is_dir(), folder


_COMMAND = re.compile(
    r"(?:^|[`\s(])(recollect-server|recollect) ([a-z-][^`\n|#;&>()]*)", re.MULTILINE
)


def test_every_command_that_the_docs_show_exists_with_its_options() -> None:
    programs: dict[str, click.Group] = {
        "recollect": client_commands,
        "recollect-server": server_commands,
    }
    count = 0
    written = {*DOCS.rglob("*.md")} - {DOCS / "reference/cli.md"}  # that page is made of the help
    for page in (ROOT / "README.md", ROOT / "client/README.md", *sorted(written)):
        for program, line in _COMMAND.findall(page.read_text()):
            command: click.Command = programs[program]
            words = line.split()
            if words[0][0] != "-" and words[0] not in programs[program].list_commands(
                click.Context(command)
            ):
                continue  # prose, or the name of the image
            while isinstance(command, click.Group) and words and not words[0].startswith("-"):
                subcommand = command.get_command(click.Context(command), words[0])
                assert subcommand, f"{page.name}: {program} {line}"
                command, words = subcommand, words[1:]
            allowed = {"--help", "--version"}.union(*(it.opts for it in command.params))
            allowed = allowed.union(*(it.secondary_opts for it in command.params))
            options = {word.partition("=")[0].rstrip(".,:)") for word in words if word[:2] == "--"}
            assert options <= allowed, f"{page.name}: {program} {line}"
            count += 1
    assert count > 100


@each("page", [DOCS / "architecture.md", *(DOCS / "architecture").glob("*.md")])
def test_every_module_and_function_that_the_architecture_pages_walk_through_exists(
    page: Path,
) -> None:
    walk = page.read_text().partition("\n## Packages\n")[0]
    named = re.findall(r"`([\w/]+\.py)(?:::([\w.]+))?`", walk)
    assert len(named) > 12
    for file, name in named:
        source = (SERVER / file).read_text()
        for part in name.split(".") if name else []:
            assert re.search(rf"^\s*(?:class|def|async def) {part}\b", source, re.MULTILINE), (
                file,
                name,
            )


def test_every_folder_of_tests_is_on_their_own_readmes_map() -> None:
    folders = {
        path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("*.py"))
    }
    assert (
        set(
            re.findall(r"^\| `(\w+)/` \|", (ROOT / "tests" / "README.md").read_text(), re.MULTILINE)
        )
        == folders
    )


def prose(page: Path) -> str:
    """Return a page without its blocks of code and the code within its paragraphs."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`(?:[^`\n]|\n(?!\n))*`", "", text)
