"""What a newcomer looks for at the root of a repository is there, and leads to what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [
    *("CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "GOVERNANCE.md", "ROADMAP.md", "SECURITY.md", "CHANGELOG.md"),
    *(".github/pull_request_template.md", "examples/README.md", "examples/argocd/README.md", "monitoring/README.md"),
    *("charts/kafka-recovery-crds/README.md", "charts/kafka-recovery-operator/README.md"),
]
LINK = re.compile(r"\]\((?!https?://)([^)#\s]+)(?:#[^)\s]*)?\)")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_outside_the_site_leads_to_files_that_are_there(page: str) -> None:
    """The site's own links are looked at when it is built."""
    gone = [
        link for link in LINK.findall((ROOT / page).read_text()) if not (ROOT / page).parent.joinpath(link).exists()
    ]

    assert gone == []


def test_nobody_is_named_who_could_not_be_asked() -> None:
    """An address of a person that nobody reads keeps a report from being read."""
    addresses = re.compile(r"[\w.+-]+@(?!example\.com\b)[\w-]+\.[a-z]{2,}")

    assert [page for page in PAGES if addresses.search((ROOT / page).read_text())] == []
