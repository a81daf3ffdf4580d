"""Build the site of the documentation: `make site`, into `site/`.

    python scripts/docs_site.py [--output FOLDER]

The pages of `docs/` link to others of the tree (`client/README.md`), which a reader of the
repository can follow. For the site they are copied beside those of `docs/`, and the links follow; a
link to any other file becomes its path. The reference of the Python client is made from its
docstrings by griffe, and not committed. zensical builds the pages and refuses links to pages that
are not there; then every link of the HTML, with its anchor, is followed.
"""

import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote

import griffe

ROOT = Path(__file__).parents[1]
DOCS = "docs"
API = "reference/api"

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)")
_BLOCK = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)

_GROUPS = {
    "conversations": "Conversations",
    "recall": "Recall",
    "channels": "Channels",
    "external": "External",
    "insight": "Insight",
    "checkpoints": "Checkpoints",
    "access": "Access",
    "admin": "Admin",
}
"""The groups of calls of a client, with their classes in `recollect._sync`."""


class BrokenSite(Exception):
    """The site cannot be built; the text names what is wrong."""


def build(root: Path, output: Path) -> list[str]:
    """Build the site of a tree. Return the links that lead nowhere. Raises BrokenSite."""
    with TemporaryDirectory() as folder:
        work = Path(folder)
        others = stage(root, work / DOCS)
        write_api(root, work / DOCS / API)
        (work / "mkdocs.yml").write_text(configuration(root, others))
        program = [str(Path(sys.executable).parent / "zensical"), "build", "--strict"]
        result = subprocess.run(program, cwd=work, capture_output=True, text=True, check=False)
        if result.returncode or not (work / "site/index.html").is_file():
            text = re.sub(r"\x1b\[[0-9;]*m", "", result.stdout + result.stderr)
            raise BrokenSite(f"zensical cannot build the pages:\n{text}")
        shutil.rmtree(output, ignore_errors=True)
        shutil.copytree(work / "site", output)
    return list(broken_links(output))


def stage(root: Path, target: Path) -> list[str]:
    """Copy the pages of `docs/`, and those that they link to. Return the paths of the others."""
    pending = sorted(str(it.relative_to(root)) for it in (root / DOCS).rglob("*") if it.is_file())
    copied: set[str] = set()
    while pending:
        name = pending.pop()
        if name in copied:
            continue
        copied.add(name)
        path = target / placed(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".md":
            shutil.copy(root / name, path)
            continue
        text, linked = relinked(root, name, (root / name).read_text())
        path.write_text(text)
        pending += linked
    return sorted(name for name in copied if not name.startswith(f"{DOCS}/") and name[-3:] == ".md")


def placed(name: str) -> str:
    """Return where a file of the tree is on the site."""
    if name.startswith(f"{DOCS}/"):
        return name.removeprefix(f"{DOCS}/")
    folder, base = posixpath.split(name)
    base = "overview.md" if base == "README.md" else base  # an index.html would take the folder
    return posixpath.join("tree", folder, base)


def relinked(root: Path, name: str, text: str) -> tuple[str, list[str]]:
    """Return the text of a page with links as they are on the site, and the files that they lead
    to.
    """
    linked: list[str] = []

    def link(match: re.Match[str]) -> str:
        picture, shown, path, anchor = match[1], match[2], match[3], match[4] or ""
        if not path:
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        if not (root / target).exists() and target.endswith(".md"):
            return match[0]  # which zensical refuses
        if not (root / target).is_file() or not (picture or target.endswith(".md")):
            return f"{shown} (`{target}`)" if target not in shown else shown
        linked.append(target)
        there = posixpath.relpath(placed(target), posixpath.dirname(placed(name)) or ".")
        return f"{picture}[{shown}]({there}{anchor})"

    parts = _BLOCK.split(text)
    parts[::2] = [_LINK.sub(link, part) for part in parts[::2]]
    return "".join(parts), linked


def configuration(root: Path, others: Sequence[str]) -> str:
    """Return the configuration of the staged site: that of the tree, with its added pages."""
    text = (root / "mkdocs.yml").read_text()
    api = [f"      - Python client, {name}: {API}/{name}.md\n" for name in (*_GROUPS, "types")]
    before, line, after = text.partition("      - Python client: reference/python.md\n")
    if not line:
        raise BrokenSite(
            "mkdocs.yml has no line for reference/python.md, behind which the API goes"
        )
    names = [name.removesuffix("README.md").rstrip("/") or name for name in others]
    tree = [f"      - {name}: {placed(path)}\n" for name, path in zip(names, others, strict=True)]
    return "".join([before, line, *api, after, "  - From the tree:\n" if tree else "", *tree])


def write_api(root: Path, folder: Path) -> None:
    """Write a page for each group of calls of the Python client, and one for its types."""
    folder.mkdir(parents=True)
    loader = griffe.GriffeLoader(search_paths=[root / "client/src"])
    package = loader.load("recollect")
    assert isinstance(package, griffe.Module)
    loader.resolve_aliases()
    for group, name in _GROUPS.items():
        lines = [f"# client.{group}\n"]
        lines += _class(package[f"_sync.{group}"][name], heading="")
        (folder / f"{group}.md").write_text("\n".join(lines) + "\n")
    lines = ["# Types of the client\n", "Everything that `recollect` exports.\n"]
    for name in sorted(_exports(package)):
        member = package[name]
        item = member.final_target if isinstance(member, griffe.Alias) else member
        if item.is_class:
            lines += _class(item, heading=f"## {name}")
        elif item.is_function:
            lines += [f"## {name}\n", *_function(item)]
    (folder / "types.md").write_text("\n".join(lines) + "\n")


def _exports(package: griffe.Module) -> list[str]:
    return [
        name
        for name, member in package.members.items()
        if isinstance(member, griffe.Alias)
        and not name.startswith("_")
        and member.target_path.startswith("recollect.")
    ]


def _class(item: griffe.Object, heading: str) -> Iterator[str]:
    if heading:
        yield heading + "\n"
    yield _text(item)
    level = "###" if heading else "##"
    fields, methods = [], []
    for name, member in item.members.items():
        if isinstance(member, griffe.Alias) or (
            name.startswith("_") and not (heading and name == "__init__")
        ):
            continue  # nobody makes a group: a client has it
        if member.is_function:
            methods += [f"{level} {name.strip('_')}\n", *_function(member)]
        elif member.is_attribute:
            kind = str(getattr(member, "annotation", None) or "").replace("|", "\\|")
            fields.append(f"| `{name}` | {f'`{kind}`' if kind else ''} | {_cell(member)} |")
    if fields:
        yield "| member | type | meaning |\n| --- | --- | --- |\n" + "\n".join(fields) + "\n"
    yield from methods


def _function(item: griffe.Object) -> Iterator[str]:
    assert isinstance(item, griffe.Function)
    parameters = [
        ("*" if it.kind is griffe.ParameterKind.var_positional else "")
        + ("**" if it.kind is griffe.ParameterKind.var_keyword else "")
        + it.name
        + (f": {it.annotation}" if it.annotation else "")
        + (f" = {it.default}" if it.default and it.kind.value[:3] != "var" else "")
        for it in item.parameters
        if it.name != "self"
    ]
    keyword_only = [
        it.kind is griffe.ParameterKind.keyword_only for it in item.parameters if it.name != "self"
    ]
    if True in keyword_only and not any(it.startswith("*") for it in parameters):
        parameters.insert(keyword_only.index(True), "*")
    listed = "".join(f"    {it},\n" for it in parameters)
    result = f" -> {item.returns}" if item.returns else ""
    name = item.name if item.name != "__init__" else item.parent.name if item.parent else ""
    body = f"{name}(\n{listed}){result}" if listed else f"{name}(){result}"
    yield f"```python\n{body}\n```\n"
    yield _text(item)


def _text(item: griffe.Object) -> str:
    return (item.docstring.value if item.docstring else "") + "\n"


def _cell(item: griffe.Object) -> str:
    text = item.docstring.value if item.docstring else ""
    return " ".join(text.split()).replace("|", "\\|")


class _Page(HTMLParser):
    """The links of a page, and the places that a link can lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the links and the names of an element."""
        for name, value in attrs:
            if value and (name == "id" or (name == "name" and tag == "a")):
                self.places.add(value)
            elif value and name in ("href", "src"):
                self.links.append(value)


def broken_links(site: Path) -> Iterator[str]:
    """Yield every link of a site that leads to no file, or to no place in it."""
    pages = {path: _Page() for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        page.feed(path.read_text())
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            if re.match(r"[a-z]+:|//", link) or path.name == "404.html":
                continue
            place, _, anchor = unquote(link).partition("#")
            target = (path.parent / place.partition("?")[0]).resolve() if place else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{path.relative_to(site)}: {link} leads to no file"
            elif anchor and target in pages and anchor not in pages[target].places:
                yield f"{path.relative_to(site)}: {link} leads to no place in its page"


def main(arguments: Sequence[str]) -> int:
    """Build the site, and return 1 if it cannot be built or a link is broken."""
    output = Path(arguments[1]) if arguments[:1] == ["--output"] else ROOT / "site"
    try:
        broken = build(ROOT, output.resolve())
    except BrokenSite as error:
        print(error, file=sys.stderr)
        return 1
    if broken:
        print("\n".join(broken), file=sys.stderr)
        print(f"{len(broken)} links are broken", file=sys.stderr)
        return 1
    print(f"{len(list(output.rglob('*.html')))} pages in {output}: open {output / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
