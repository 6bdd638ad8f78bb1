"""The site: built as `make docs` builds it, and asking nobody for anything when it is read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from mkdocs.config import load_config

ROOT = Path(__file__).parents[3]
LOADED = re.compile(r"<(?:script|img|iframe|source)[^>]*?\ssrc=\"([^\"]+)|<link[^>]*?\shref=\"([^\"]+)|url\(([^)]+)\)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    surroundings = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_every_page_is_in_the_navigation_and_every_link_leads_somewhere(site: Path) -> None:
    pages = {page.relative_to(ROOT / "docs").with_suffix("") for page in (ROOT / "docs").rglob("*.md")}

    for page in pages - {Path("index")}:
        where = page.parent if page.name == "README" else page
        assert (site / where / "index.html").is_file(), page


def test_tables_and_lists_are_none_of_the_text(site: Path) -> None:
    """Python's Markdown leaves them in a paragraph, as they were typed, unless a line is empty before them."""
    left = re.compile(r"^(?:<p>)?(?:- |\|).*", re.MULTILINE)
    code = re.compile(r"<pre.*?</pre>", re.DOTALL)

    for page in site.rglob("index.html"):
        assert left.findall(code.sub("", page.read_text())) == [], page


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    files = [*site.rglob("*.html"), *site.rglob("*.css"), *site.rglob("*.svg")]
    asked = {address for file in files for found in LOADED.findall(file.read_text()) for address in found if address}

    assert len(files) > 40
    assert [each for each in asked if re.match(r"['\"]?(https?:)?//", each)] == []


def test_links_out_of_docs_lead_to_the_repository_where_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPOSITORY_URL", "https://git.example/ours")
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    config = load_config(str(ROOT / "mkdocs.yml"))
    page = SimpleNamespace(file=SimpleNamespace(src_uri="reference/operator.md"))

    typed = (ROOT / "docs" / "reference" / "operator.md").read_text()
    text = config.plugins.run_event("page_markdown", typed, page=page, config=config, files=None)

    assert "](https://git.example/ours/blob/main/examples/README.md" in text
