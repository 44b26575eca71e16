"""The site: its navigation, its links and anchors, its commands and programs, and that it asks no other host for anything."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

import sqirl

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "scripts"))

import make_site  # noqa: E402
import snippets  # noqa: E402

PAGES = sorted(DOCS.glob("*.md"))
NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
#: Blocks of these languages are run, unless they say why not.
RUN = ("bash", "console", "python")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as Python-Markdown makes them."""
    found: set[str] = set()
    for heading in re.findall(
        r"^#+ +(.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    ):
        plain = unicodedata.normalize("NFKD", heading.replace("`", "")).encode("ascii", "ignore").decode()
        found.add(re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower()))
    return found


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r"^ +- [^\n]*: (\w+\.md)$", NAVIGATION, re.MULTILINE)
    assert sorted(listed) == [page.name for page in PAGES] and len(listed) == len(set(listed))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_pages_pictures_and_anchors(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text_of(page))):
        name, _, anchor = target.partition("#")
        place = DOCS / name if name else page
        if target.startswith("http") or not place.is_file() or (anchor and anchor not in anchors(text_of(place))):
            broken.append(target)
    assert not broken


def test_the_anchors_of_headings() -> None:
    assert anchors("# A cluster from two shells\n## The proof for H̄_ε\n```\n# no heading\n```\n") == {
        "a-cluster-from-two-shells", "the-proof-for-h_",
    }  # fmt: skip


@pytest.mark.parametrize("name", snippets.PAGES)
def test_the_commands_and_programs_of_a_page(name: str, tmp_path: Path) -> None:
    wrong = [
        outcome.error for outcome in snippets.run_page(text_of(DOCS / name), tmp_path, slow=False) if outcome.error
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("name", snippets.PAGES)
def test_the_slow_commands_too(name: str, tmp_path: Path) -> None:
    wrong = [outcome.error for outcome in snippets.run_page(text_of(DOCS / name), tmp_path, slow=True) if outcome.error]
    assert not wrong, "\n".join(wrong)


def test_what_is_not_run_is_little_and_says_why() -> None:
    found = {name: snippets.blocks(text_of(DOCS / name)) for name in snippets.PAGES}
    not_run = [block for blocks in found.values() for block in blocks if block.mark == "not run"]
    run = [block for blocks in found.values() for block in blocks if block.language in RUN and block.mark != "not run"]
    assert len(not_run) == 3 and len(run) > 20
    others = [page for page in PAGES if page.name not in snippets.PAGES and page.name not in ("theory.md", "gpu.md")]
    assert not [page.name for page in others if any(block.language in RUN for block in snippets.blocks(text_of(page)))]


def test_a_session_that_prints_something_else_is_found(tmp_path: Path) -> None:
    page = "```console\n$ echo one; echo two\none\n…\n```\n\n```console\n$ echo three\nfour\n```\n"
    right, wrong = snippets.run_page(page, tmp_path, slow=False)
    assert right.error is None and wrong.error is not None and wrong.text == "$ echo three\nthree\n"
    (failed,) = snippets.run_page("```bash\nfalse\n```\n", tmp_path, slow=False)
    assert failed.error is not None
    assert list(snippets.run_page("<!-- not run: no -->\n```bash\nfalse\n```\n", tmp_path, slow=True)) == []


def test_dots_stand_for_text_and_for_lines() -> None:
    assert snippets.matches("a … c\n…\nd\n", "a b c\n1\n2\nd\n") and snippets.matches("a\n…\n", "a\n")
    assert not snippets.matches("a\n", "a\nb\n") and not snippets.matches("a.c\n", "abc\n")


def test_the_reference_has_every_name_of_the_package() -> None:
    named = re.findall(r"^::: (\S+)$", text_of(DOCS / "api.md"), re.MULTILINE)
    for name in named:
        if name == "sqirl.errors":
            continue
        module, _, attribute = name.rpartition(".")
        assert getattr(importlib.import_module(module), attribute).__doc__, name
    public = {name for name in sqirl.__all__ if not name.startswith("__")}
    assert public <= {name.rpartition(".")[2] for name in named}


def test_the_glossary_has_the_words_of_the_report() -> None:
    assert make_site.symbols() in text_of(DOCS / "glossary.md")


def test_every_part_of_the_paper_has_a_command_and_a_time() -> None:
    rows = [line.split(" | ") for line in text_of(DOCS / "reproduce.md").splitlines() if line.startswith("| ")]
    table = {row[0].removeprefix("| "): row[1:] for row in rows}
    for item in make_site.ITEMS:
        command, seconds, *_ = table[item.paper]
        assert command == f"`{item.command}`" and re.fullmatch(r"\d+ s", seconds)
    for part in (
        *(f"Table {n}" for n in (1, 2, 3)),
        *(f"Figure {n}" for n in (2, 3, 4, 5)),
        "Appendix D.1",
        "Appendix D.2",
    ):
        assert any(part in name for name in table), part


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs comes with `make site`")
def test_the_site_is_built_strictly_and_asks_no_other_host(tmp_path: Path) -> None:
    shutil.copytree(DOCS, tmp_path / "docs")
    for name in ("mkdocs.yml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "src").symlink_to(ROOT / "src")
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"], cwd=tmp_path, check=True)
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= len(PAGES)
    loaded = r"<(?:script|img|iframe|source)[^>]* src=[\"']?(https?:)?//|<link[^>]* href=[\"']?(https?:)?//"
    assert not [page for page in pages if re.search(loaded, text_of(page))]
    styles = (tmp_path / "site").rglob("*.css")
    assert not [style for style in styles if re.search(r"(@import|url\()[\s\"']*(https?:)?//", text_of(style))]
