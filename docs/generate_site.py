"""MkDocs' hook: what reads right in the repository reads right on the site as well.

Links from docs/ to files outside it lead to `repo_url`; without one the file's path stands in their place. A file that
is not there is a warning and so, as the build is strict, an error. Tables and lists need no empty line before them,
as everywhere but in Python's Markdown. A quotation that begins with `[!CAUTION]` or `[!NOTE]` is a box.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

_LOG = logging.getLogger("mkdocs.hooks.site")
_ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<path>\.\./[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
_BEGINS = {"table": re.compile(r"\|"), "list": re.compile(r"(- |\d+\. )")}
_BOX = re.compile(r"^> \[!(NOTE|WARNING|CAUTION)\]\n((?:>.*\n)+)", re.MULTILINE)
_KINDS = {"NOTE": 'note "Note"', "WARNING": 'warning "Warning"', "CAUTION": 'danger "Caution"'}
_GOES_ON = {"table": re.compile(r"\|"), "list": re.compile(r"(- |\d+\. |\s)")}


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Called by MkDocs for each page."""
    return _LINK.sub(lambda link: _outside(link, page.file.src_uri, config.repo_url), _apart(_boxed(markdown)))


def _outside(link: re.Match[str], page: str, repository: str | None) -> str:
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link["path"]))
    if path.startswith("docs/"):
        return link[0]
    if not (_ROOT / path).exists():
        _LOG.warning("%s links to %s, which is not there", page, path)
    if repository:
        return f"[{link['text']}]({repository.rstrip('/')}/blob/main/{path}{link['anchor'] or ''})"
    return f"{link['text']} (`{path}`)" if path not in link["text"] else link["text"]


def _boxed(markdown: str) -> str:
    """With boxes as Material draws them, in place of those that the repository's host draws."""

    def box(found: re.Match[str]) -> str:
        lines = ("    " + line.removeprefix(">").removeprefix(" ") for line in found[2].splitlines())
        return "\n".join((f"!!! {_KINDS[found[1]]}", *lines, ""))

    return _BOX.sub(box, markdown)


def _apart(markdown: str) -> str:
    """With an empty line before each table and list, outside of code."""
    lines, before, in_code = [], "", False
    for line in markdown.splitlines():
        for kind, begins in _BEGINS.items():
            if before and not in_code and begins.match(line) and not _GOES_ON[kind].match(before):
                lines.append("")
        in_code ^= line.startswith("```")
        lines.append(line)
        before = line
    return "\n".join([*lines, ""])
