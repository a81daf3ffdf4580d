"""The README says what is so."""

import re
from pathlib import Path

from recollect_server.settings import Settings

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SERVER, CLIENT = ROOT / "server/src/recollect_server", ROOT / "client/src/recollect"


def test_the_readme_lists_every_setting_with_its_default() -> None:
    listed = dict(re.findall(r"^\| `RECOLLECT_(\w+)` \| `--[\w-]+` \| `([^`]*)` \|", README, re.MULTILINE))
    shown = {
        "True": "true",
        "False": "false",
        "0:00:01": "1s",
        "0:00:10": "10s",
        "0:00:15": "15s",
        "0:01:00": "1m",
        "7 days, 0:00:00": "7d",
    }
    shown |= {"0:05:00": "5m", "0:10:00": "10m", "0:30:00": "30m", "0:00:30": "30s", "0:02:00": "2m"}
    defaults = {name.upper(): str(field.default) for name, field in Settings.model_fields.items()}
    assert listed == {name: shown.get(default, default) for name, default in defaults.items()}


def test_every_folder_on_the_readmes_map_is_there() -> None:
    folders = re.findall(r"^\| `([\w./…]+/)`", README, re.MULTILINE)
    assert len(folders) > 8
    for folder in folders:
        path = folder.replace("server/…", "server/src/recollect_server").replace("client/…", "client/src/recollect")
        assert (ROOT / path).is_dir(), folder


def test_every_folder_is_on_the_readmes_map() -> None:
    section = README.partition("\n## The map\n")[2].partition("\n## ")[0]
    named = {name for folder in re.findall(r"`([\w./…]+/)`", section) for name in folder.split("/")}
    rooms = {path.parent.name for path in SERVER.rglob("*/__init__.py")} | {
        path.parent.name for path in CLIENT.glob("*/__init__.py")
    }
    assert len(rooms) > 15
    assert rooms - named == set()


def test_every_section_that_a_link_names_is_there() -> None:
    for page in (ROOT / "README.md", ROOT / "client" / "README.md"):
        links = re.findall(r"\]\(([\w./]*)#([\w-]+)\)", page.read_text())
        for file, section in links:
            headings = re.findall(r"^#+ (.*)", ((page.parent / file) if file else page).read_text(), re.MULTILINE)
            assert section in {re.sub(r"[^\w -]", "", it.lower()).replace(" ", "-") for it in headings}, (file, section)


def test_every_claim_about_others_has_its_source() -> None:
    named, given = set(re.findall(r"\[\[(\d+)\]\]", README)), re.findall(r"^\[(\d+)\]: https://", README, re.MULTILINE)
    assert named == set(given)
    assert len(given) == len(set(given)) > 50


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


def test_every_test_that_the_readme_names_is_there() -> None:
    named = re.findall(r"`((?:tests/)?[\w/]*\btest_\w+\.py)(?:::(\w+))?`", README)
    assert len(named) > 30
    files = [path.relative_to(ROOT) for path in ROOT.glob("tests/**/test_*.py")]
    for path, test in named:
        found = [file for file in files if file.match(path)]
        assert found, path
        assert not test or any(f"def {test}(" in (ROOT / file).read_text() for file in found), test


def test_every_folder_of_tests_is_on_their_own_readmes_map() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert set(re.findall(r"^\| `(\w+)/` \|", (ROOT / "tests" / "README.md").read_text(), re.MULTILINE)) == folders
