"""The site of the documentation: links that lead nowhere are named, others follow their pages."""

from pathlib import Path

import pytest

from scripts.docs_site import BrokenSite, broken_links, build, relinked

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree with a page that leads out of `docs/`, and the client of this one."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "client").symlink_to(ROOT / "client")
    (tmp_path / "packages").symlink_to(ROOT / "packages")
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench/README.md").write_text("# Bench\n\n[back](../docs/index.md#small)\n")
    (tmp_path / "docs/python.md").write_text("# Python\n")
    (tmp_path / "docs/index.md").write_text(
        "# Top\n\n## Small\n\n[bench](../bench/README.md#bench), [code](../bench/run.py)\n"
    )
    (tmp_path / "mkdocs.yml").write_text(
        "site_name: Small\nnav:\n  - Top: index.md\n"
        "  - Reference:\n      - Python client: reference/python.md\n"
    )
    (tmp_path / "docs/reference").mkdir()
    (tmp_path / "docs/python.md").rename(tmp_path / "docs/reference/python.md")
    return tmp_path


def test_a_site_has_the_pages_that_the_docs_link_to_and_the_reference_of_the_client(
    tree: Path,
) -> None:
    assert build(tree, tree / "site") == []
    top = (tree / "site/index.html").read_text()
    assert 'href="tree/bench/overview/#bench"' in top
    assert "<code>bench/run.py</code>" in top
    reference = (tree / "site/reference/api/conversations/index.html").read_text()
    assert 'id="append_turn"' in reference
    page = tree / "site/tree/bench/overview/index.html"
    page.write_text(page.read_text().replace("#small", "#smell") + '<a href="../no/">no</a>')
    broken = list(broken_links(tree / "site"))
    assert any("#smell leads to no place in its page" in it for it in broken), broken
    assert any("../no/ leads to no file" in it for it in broken), broken


def test_a_page_with_a_link_to_no_page_is_refused(tree: Path) -> None:
    with (tree / "docs/index.md").open("a") as page:
        page.write("\n[nothing](reference/nothing.md)\n")
    text, _ = relinked(tree, "docs/index.md", (tree / "docs/index.md").read_text())
    assert "nothing (`docs/reference/nothing.md`)" not in text
    with pytest.raises(BrokenSite, match=r"nothing\.md"):
        build(tree, tree / "site")
