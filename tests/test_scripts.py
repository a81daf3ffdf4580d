"""The scripts of maintainers: releases, and the check of the language."""

import ast
import io
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections import Counter
from collections.abc import Callable
from datetime import date
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from shutil import copy, copytree

import pytest
import yaml
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from recollect._shared.channel import ADDRESS
from recollect._shared.endpoint import CA, SPACE, TOKEN

from scripts import (
    check_circles,
    check_language,
    check_structure,
    check_tests,
    client_methods,
    client_types,
    install,
    packages,
    release,
)
from tests.cases import each

ROOT = Path(__file__).parents[1]
TODAY = date(2026, 11, 22)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a copy of the files that a release changes, with something to release: at the commit
    of a release nothing is.
    """
    for name in (*release.VERSIONS, "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, tmp_path / name)
    changelog = tmp_path / "CHANGELOG.md"
    heading = "## Unreleased\n"
    assert heading in changelog.read_text()
    changelog.write_text(changelog.read_text().replace(heading, f"{heading}\n- A change.\n", 1))
    return tmp_path


def test_a_release_sets_the_version_everywhere_and_dates_the_changelog(tree: Path) -> None:
    texts = release.changed_files(tree, "99.0.1", TODAY)
    assert len(texts) == len(release.VERSIONS) + 1
    assert 'version = "99.0.1"' in texts[tree / "client/pyproject.toml"]
    assert '"recollect-client[cli]==99.0.1"' in texts[tree / "server/pyproject.toml"]
    assert '__version__ = "99.0.1"' in texts[tree / "server/src/recollect_server/__init__.py"]
    for lock in ("package.json", "package-lock.json"):
        parsed = json.loads(texts[tree / "clients/typescript" / lock])
        assert parsed["version"] == "99.0.1"
        assert parsed.get("packages", {"": parsed})[""]["version"] == "99.0.1"
    before = (tree / "CHANGELOG.md").read_text()
    assert texts[tree / "CHANGELOG.md"] == before.replace(
        "## Unreleased\n", "## Unreleased\n\n## 99.0.1 (2026-11-22)\n", 1
    )


def test_a_release_names_the_image_that_the_chart_runs(tree: Path) -> None:
    chart = tree / "deploy/helm/recollect/Chart.yaml"
    text = release.changed_files(tree, "99.0.1", TODAY)[chart]
    assert yaml.safe_load(text) == yaml.safe_load(chart.read_text()) | {
        "version": "99.0.1",
        "appVersion": "99.0.1",
    }


def test_every_place_names_the_same_version() -> None:
    versions = {
        match
        for name, patterns in release.VERSIONS.items()
        for pattern in patterns
        for match in re.findall(pattern, (ROOT / name).read_text(), re.MULTILINE)[:1]
    }
    assert len(versions) == 1


def test_every_package_says_who_made_it_what_it_is_for_and_where_it_runs() -> None:
    projects = [
        tomllib.loads((ROOT / part / "pyproject.toml").read_text())["project"]
        for part in packages.PARTS
    ]
    for project in projects:
        assert project["authors"] == [{"name": "Recollect contributors"}]
        assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
        assert project["keywords"] == sorted(project["keywords"])
        assert project["classifiers"] == sorted(project["classifiers"])
        assert {it[-4:] for it in project["classifiers"] if it.startswith("Programming")} == {
            "3.11",
            *re.findall(r"3\.\d+", (ROOT / ".ci/pythons").read_text()),
        }
    (label,) = re.findall(r"^LABEL (.*?[^\\])\n", (ROOT / "Dockerfile").read_text(), re.M | re.S)
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="(.*)"', label))
    assert labels["licenses"] == "Apache-2.0"
    assert labels["vendor"] == "Recollect contributors"
    assert labels["revision"] == "$COMMIT"


def test_the_entry_for_the_registry_of_mcp_is_one_that_the_registry_takes() -> None:
    """The rules are those of the registry's schema of 2025-12-11, and of its check of a package of
    PyPI: the package's README names the server.
    """
    folder = ROOT / "packages/mcp"
    entry = json.loads((folder / "server.json").read_text())
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert entry["$schema"] == (
        "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
    )
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert 3 <= len(entry["name"]) <= 200
    assert 1 <= len(entry["title"]) <= 100
    assert 1 <= len(entry["description"]) <= 100
    assert f"mcp-name: {entry['name']} " in (folder / "README.md").read_text()
    (package,) = entry["packages"]
    assert package["registryType"] == "pypi"
    assert package["identifier"] == project["name"]
    assert package["identifier"] in project["scripts"]  # which `uvx` runs
    assert package["version"] == entry["version"] == project["version"]
    assert package["transport"] == {"type": "stdio"}
    variables = package["environmentVariables"]
    assert {it["name"] for it in variables} <= {ADDRESS, TOKEN, CA, SPACE}
    assert [it["name"] for it in variables if it.get("isSecret")] == [TOKEN]


def test_packages_that_differ_when_built_again_or_are_too_large_are_not_releasable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "1" / "a.whl", tmp_path / "2" / "a.whl"
    for path, text in ((first, b"one"), (second, b"one")):
        path.parent.mkdir()
        path.write_bytes(text)
    packages.check_same([first], [second])
    second.write_bytes(b"two")
    with pytest.raises(packages.NotReleasable, match=r"a\.whl is not the same"):
        packages.check_same([first], [second])
    second.write_bytes(b"one")
    monkeypatch.setattr(packages, "MOST_BYTES", 2)
    with pytest.raises(packages.NotReleasable, match="has 3 bytes, and may have 2"):
        packages.check_same([first], [second])


@pytest.mark.parametrize("built", ["wheel", "sdist"])
def test_packages_that_require_a_folder_of_this_machine_are_not_releasable(
    tmp_path: Path, built: str
) -> None:
    text = b"Name: a\nRequires-Dist: b @ file:///here/b ; extra == 'b'\n"
    if built == "wheel":
        package = tmp_path / "a-1-py3-none-any.whl"
        with zipfile.ZipFile(package, "w") as wheel:
            wheel.writestr("a-1.dist-info/METADATA", text)
    else:
        package = tmp_path / "a-1.tar.gz"
        with tarfile.open(package, "w:gz") as archive:
            info = tarfile.TarInfo("a-1/PKG-INFO")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    with pytest.raises(packages.NotReleasable, match="requires b @ file:///here/b"):
        packages.check_metadata([package])


@pytest.mark.parametrize("version", ["1.0", "v99.0.1", "0.0.1", "99.0.1-rc1"])
def test_a_release_needs_a_later_version_of_three_numbers(tree: Path, version: str) -> None:
    with pytest.raises(release.CannotRelease, match="version"):
        release.changed_files(tree, version, TODAY)


def test_a_release_without_changes_is_refused(tree: Path) -> None:
    (tree / "CHANGELOG.md").write_text(
        "# Changelog\n\n## Unreleased\n\n## 0.1.0 (2026-11-01)\n\n- The first.\n"
    )
    with pytest.raises(release.CannotRelease, match="no entries"):
        release.changed_files(tree, "99.0.1", TODAY)


def test_a_release_whose_check_fails_leaves_the_files_as_they_were(tree: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "New"]):
        subprocess.run([*git, *arguments], cwd=tree, check=True)
    texts = release.changed_files(tree, "99.0.1", TODAY)
    with pytest.raises(release.CannotRelease, match="false failed"):
        release.write_and_check(tree, texts, ["true", "false"])
    assert "99.0.1" not in (tree / "client/pyproject.toml").read_text()
    release.write_and_check(tree, texts, ["true"])
    assert "99.0.1" in (tree / "client/pyproject.toml").read_text()


def test_a_release_is_made_once_and_on_a_clean_main(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "--initial-branch", "main", tmp_path], check=True)
    release.check_tree(tmp_path, "1.0.0")
    (tmp_path / "new").touch()
    with pytest.raises(release.CannotRelease, match="changes"):
        release.check_tree(tmp_path, "1.0.0")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "add", "new"], cwd=tmp_path, check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "New"], cwd=tmp_path, check=True)
    subprocess.run([*git, "tag", "v1.0.0"], cwd=tmp_path, check=True)
    with pytest.raises(release.CannotRelease, match="tag already"):
        release.check_tree(tmp_path, "1.0.0")
    release.check_tree(tmp_path, "1.0.1")
    subprocess.run(
        [*git, "commit", "--quiet", "--allow-empty", "-m", "Next"], cwd=tmp_path, check=True
    )
    (tmp_path / ".git/info/exclude").write_text("dist/\n")
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist/a.whl").touch()
    with pytest.raises(release.CannotRelease, match="dist/ has packages of another release"):
        release.check_tree(tmp_path, "1.0.1")
    subprocess.run(["git", "checkout", "--quiet", "-b", "other"], cwd=tmp_path, check=True)
    with pytest.raises(release.CannotRelease, match="on main"):
        release.check_tree(tmp_path, "1.0.1")


def committed(tree: Path) -> Callable[..., str]:
    """Commit a tree to `main` of a new repository. Return how to call git there."""
    (tree / ".ci").mkdir()
    copy(ROOT / ".ci/contract.binpb", tree / ".ci")
    git = partial(release._git, tree)
    git("init", "--quiet", "--initial-branch", "main")
    for name in ("user.name", "user.email"):
        git("config", name, "nobody@example.org")
    git("add", ".")
    git("commit", "--quiet", "--message", "Before")
    return git


def test_a_release_is_committed_and_tagged_whole_but_for_its_packages(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = committed(tree)
    monkeypatch.setattr(release, "ROOT", tree)
    monkeypatch.setattr(release, "CHECKS", ["git diff --stat"])
    monkeypatch.setattr(release, "PACKAGES", "true")  # they are built and compared in minutes
    assert release.main(["99.0.1", "--make"]) == 0
    assert git("status", "--porcelain") == ""
    assert git("log", "--format=%s", "v99.0.1") == "Release 99.0.1\nBefore"
    changed = git("diff", "--name-only", "HEAD~").splitlines()
    assert sorted(changed) == sorted([*release.VERSIONS, "CHANGELOG.md"])
    with pytest.raises(release.CannotRelease, match="tag already"):
        release.check_tree(tree, "99.0.1")


def test_a_release_whose_packages_fail_is_not_tagged_and_says_how_to_go_on(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    git = committed(tree)
    monkeypatch.setattr(release, "ROOT", tree)
    monkeypatch.setattr(release, "CHECKS", [])
    monkeypatch.setattr(release, "PACKAGES", "false")
    assert release.main(["99.0.1", "--make"]) == 1
    assert git("tag", "--list") == ""
    assert capsys.readouterr().err.splitlines() == [
        "No release: false failed. Correct that and go on with this, or take the release back with"
        " git reset --hard HEAD~ if it is committed:",
        "false",
        "git tag --annotate v99.0.1 -m 'Recollect 99.0.1'",
    ]


def test_without_make_a_release_prints_the_steps_and_changes_nothing(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release, "ROOT", tree)
    before = {name: (tree / name).read_text() for name in release.VERSIONS}
    assert release.main(["99.0.1"]) == 0
    steps = capsys.readouterr().out.splitlines()
    assert steps[0] == "write client/pyproject.toml"
    assert steps[-2:] == [release.PACKAGES, "git tag --annotate v99.0.1 -m 'Recollect 99.0.1'"]
    assert {name: (tree / name).read_text() for name in release.VERSIONS} == before


def test_docstrings_that_begin_with_question_words_are_counted() -> None:
    source = '"""Whether it is."""\nclass A:\n    """A noun."""\n    b: int\n    """How many."""\n    c: int\n    """Howling."""\n'
    assert check_language.openings(source) == [(1, "Whether it is."), (5, "How many.")]


def test_participles_as_names_are_counted() -> None:
    source = "found = 1\ndef f(told, hits):\n    self._known = told\n    print(asked)\n    for seen in hits: pass\n"
    assert sorted(check_language.names(source)) == [
        (1, "found"),
        (2, "told"),
        (3, "_known"),
        (5, "seen"),
    ]


def test_names_of_several_classes_are_counted_private_and_inner_ones_too() -> None:
    sources = ("class A: pass\nclass B: pass\n", "class _C:\n    class A: pass\nclass _C: pass\n")
    classes = [(source, *it) for source in sources for it in check_language.classes(source)]
    names = [name for _, _, name in check_language.same_names(classes)]
    assert sorted(names) == ["A", "A", "_C", "_C"]


def test_metaphors_in_docstrings_comments_and_names_are_counted() -> None:
    source = '"""Mend it.\n\nNobody heard.\n"""\nnews = "the news"  # whoever reads it\n_Told = int\nextold = 1\n'
    assert sorted(check_language.metaphors(source)) == [
        (1, "Mend"),
        (3, "heard"),
        (5, "news"),
        (5, "whoever"),
        (6, "Told"),
    ]


def test_tests_that_assert_nothing_are_named() -> None:
    source = (
        "def test_a():\n    until(seen)\n"
        "async def test_b():\n    assert 1\n"
        "def test_c():\n    with pytest.raises(E):\n        f()\n"
        "def test_d():\n    assert_refused(f)\n"
        "def helper():\n    pass\n"
        "@check\ndef test_e():\n    run()\n"
    )
    tests = check_tests.tests_without(ast.parse(source))
    assert [test.name for test in tests] == ["test_a", "test_e"]


def test_modules_that_import_each_other_are_named(tmp_path: Path) -> None:
    for name, source in {
        "a/__init__.py": "",
        "a/one.py": "from a import two\nimport os",
        "a/two.py": "def f():\n    return import_module('a.three')",
        "a/three.py": "if TYPE_CHECKING:\n    from a.one import f",
        "a/four.py": "from a.one import f\nimport a.four",
        "b/x.tsx": "import { y } from './y';",
        "b/y.ts": "export { x } from '../b/x';\nimport z from './z/';",
        "b/z/index.ts": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    circles = check_circles.circles(check_circles.imports_of([tmp_path]))
    assert circles == [["a.one", "a.three", "a.two"], ["b/x.tsx", "b/y.ts"]]


def test_a_count_that_rises_fails_and_one_that_falls_is_mentioned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert check_language.compare({"server": Counter(names=3)}, {"server": {"names": 3}}) == 0
    assert check_language.compare({"server": Counter(names=2)}, {"server": {"names": 3}}) == 0
    assert "fell from 3 to 2" in capsys.readouterr().out
    assert check_language.compare({"server": Counter(names=4)}, {"server": {"names": 3}}) == 1
    assert "rose from 3 to 4" in capsys.readouterr().err


def test_an_installation_names_what_it_fetches_and_fails_as_pip_does(
    capfd: pytest.CaptureFixture[str],
) -> None:
    wheel = "numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl"
    lines = {
        f"Downloading {wheel} (16.9 MB)\n": ("numpy 2.4.6: 16.9 MB", 16.9),
        f"  Using cached https://mirror/a-b/{wheel} (16.9 MB)\n": ("numpy 2.4.6: 16.9 MB", 16.9),
        "Downloading stop_words-1.tar.gz (500 bytes)\n": ("stop_words 1: 500 bytes", 0.0005),
        f"  Downloading {wheel}.metadata (62 kB)\n": None,
        "Collecting numpy>=2.0\n": None,
    }
    assert {line: install.fetched(line) for line in lines} == lines
    assert install.main(["--no-index", "recollect-of-nobody"]) == 1
    printed = capfd.readouterr()
    assert "Looking for" in printed.out
    assert "recollect-of-nobody" in printed.err
    assert "Fetched" not in printed.out


def test_a_new_field_of_a_request_is_an_argument_and_a_new_call_has_to_be_described() -> None:
    contract = client_types.Contract()
    table = tomllib.loads(client_methods.TABLE.read_text())["admin"]
    contract.messages["CreateSpaceRequest"].field.add(
        name="purpose", number=9, type=FieldDescriptorProto.TYPE_STRING
    )
    text = client_methods.Service(contract, "admin", table).module()
    assert "        name: str,\n        *,\n        purpose: str | None = None,\n" in text
    assert "calls.CREATE_SPACE(name=name, purpose=purpose)" in text
    contract.services["AdminService"].method.add(name="MoveSpace")
    with pytest.raises(SystemExit, match="admin has no MoveSpace"):
        client_methods.Service(contract, "admin", table)


def test_statements_are_counted_without_docstrings_and_generated_modules() -> None:
    text = '"""A module."""\n\nA = 1\n\n\ndef f() -> int:\n    """Return it."""\n    return A\n'
    assert check_structure.statements(text) == 3
    assert check_structure.statements(f"# Generated by a script: edit that.\n{text}") == 0


def test_each_number_that_rises_is_named() -> None:
    before = {"statements": {"server": 10, "all": 12}, "imports": 600}
    now = {"statements": {"server": 11, "all": 11}, "imports": 601}
    assert list(check_structure.risen(now, before)) == [
        "server: statements rose from 10 to 11",
        "own imports of a module of the server rose from 6.0 to 6.01",
    ]
    assert list(check_structure.risen(before, before)) == []


@each(
    ("pattern", "replacement"),
    [
        (r"rpc Recent\(.*?\n  }\n", ""),  # a call goes
        ("string conversation_id = 1;", ""),  # a field goes
        ("string conversation_id = 1;", "string conversation_id = 99;"),
        ("string conversation_id = 1;", "bytes conversation_id = 1;"),
    ],
)
def test_a_contract_that_older_clients_cannot_use_is_refused(
    pattern: str, replacement: str, tmp_path: Path
) -> None:
    copytree(ROOT / "proto", tmp_path / "proto", dirs_exist_ok=True)
    copy(ROOT / "buf.yaml", tmp_path)
    assert breaks(tmp_path) == ""
    path = tmp_path / "proto/recollect/v1/recall_service.proto"
    path.write_text(re.sub(pattern, replacement, path.read_text(), count=1, flags=re.DOTALL))
    assert path.name in breaks(tmp_path)


def breaks(tree: Path) -> str:
    """Return the changes that `make breaking` refuses in a tree."""
    buf = Path(sys.executable).with_name("buf")
    command = [str(buf), "breaking", "--against", str(ROOT / ".ci/contract.binpb")]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False).stdout


def test_every_pinned_package_installs_on_the_oldest_python_that_readme_allows() -> None:
    oldest = re.search(r"Python (\d\.\d+) or newer", (ROOT / "README.md").read_text())
    assert oldest is not None
    pinned = [line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().split()]
    demands = {
        it.name: it.metadata["Requires-Python"] or ""
        for it in distributions()
        if canonicalize_name(it.name) in {*map(canonicalize_name, pinned)}
    }
    assert len(demands) > 100
    first = f"{oldest[1]}.0"
    assert {name: it for name, it in demands.items() if first not in SpecifierSet(it)} == {}
