"""`kafka-recovery fleet` from question to page: what Spark found is shown, as a table, as data and as a report."""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from spark.villages import HOSTILE, Told
from testbed.chromium import Browser, Page
from unit.documents import document


def counted(villages: Told) -> list[dict[str, Any]]:
    """What Spark wrote down of each broker and pair."""
    return [row for name in ("town", "village") for row in villages.rows("losses", name) if row["kind"] != "Rack"]


def test_the_ranking_s_numbers_are_shown_with_where_the_rest_lies(villages: Told) -> None:
    assert villages.ranked.splitlines()[1].split() == ["2", "16", "0", "0", "3", "1"]
    assert str(villages.root / "rank" / "manifest.json") in villages.ranked


def test_for_programs_it_is_the_manifest(villages: Told) -> None:
    said = document("fleet-run", villages.readied)

    assert (said["task"], said["summary"]["partitions"]) == ("readiness", 16)
    assert said.pop("formatVersion") == 1
    assert json.loads(Path(said.pop("manifest")).read_bytes()) == said


def test_the_page_shows_what_spark_counted(villages: Told) -> None:
    titles = re.findall(r'<td class="h[^"]*" title="([^"]*)"', villages.page.read_text())

    shown = sorted(html.unescape(title).partition(";")[0] for title in titles)
    assert shown == sorted(f"{row['failing']}: {row['offline']} offline" for row in counted(villages))


CELLS = """
[...document.querySelectorAll("table.heat")].flatMap(table => {
  const brokers = [...table.tHead.rows[0].cells].slice(1).map(cell => +cell.textContent)
  const cluster = table.closest(".maps > div").querySelector("h3").textContent
  return [...table.tBodies[0].rows].flatMap(row => [...row.cells].slice(1).map((cell, place) => {
    const box = cell.getBoundingClientRect(), style = getComputedStyle(cell)
    return {
      cluster: cluster,
      brokers: [brokers[place], +row.cells[0].textContent],
      offline: +cell.firstChild.textContent,
      isVisible: box.width > 20 && box.height > 15 && style.visibility === "visible" &&
        style.color !== style.backgroundColor,
    }
  }))
})
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with Browser() as browser:
        yield browser


async def opened(browser: Browser, villages: Told, **how: Any) -> Page:
    return await browser.open(villages.page.as_uri(), **how)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.asyncio(loop_scope="module")
class TestInABrowser:
    """A real one, at its word. Only in full: it installs 300 MB of Debian's packages where there is no Chromium, and
    what the page is made of is held by its unit tests.
    """

    async def test_the_page_asks_for_nothing_and_complains_of_nothing(self, villages: Told, browser: Browser) -> None:
        page = await opened(browser, villages)

        sections = await page.value("[...document.querySelectorAll('h2')].map(heading => heading.id)")
        assert sections == ["worst", "pairs", "clusters", "topics", "offline", "leaders", "origin"]
        assert page.requests == [villages.page.as_uri()]
        assert page.complaints == []

    @pytest.mark.parametrize("dark", [False, True])
    async def test_the_heat_maps_show_what_spark_counted(self, villages: Told, browser: Browser, dark: bool) -> None:
        page = await opened(browser, villages, dark=dark)

        cells: list[dict[str, Any]] = await page.value(CELLS)

        told = {
            (row["cluster_id"], min(row["brokers"]), max(row["brokers"])): row["offline"] for row in counted(villages)
        }
        assert {(cell["cluster"], *cell["brokers"]): cell["offline"] for cell in cells} == told
        assert told["town", 3, 4] == 2
        assert all(cell["isVisible"] for cell in cells)

    async def test_a_topic_that_is_called_like_a_script_is_text(self, villages: Told, browser: Browser) -> None:
        page = await opened(browser, villages)

        assert HOSTILE in await page.value("document.body.innerText")
        assert await page.value("document.scripts.length") == 0

    async def test_on_a_telephone_only_tables_are_wider_than_the_page(self, villages: Told, browser: Browser) -> None:
        page = await opened(browser, villages, width=390)

        assert await page.value("document.documentElement.scrollWidth") == 390

    async def test_the_browser_tells_of_what_a_page_asks_for_and_complains_of(
        self, browser: Browser, tmp_path: Path
    ) -> None:
        (tmp_path / "page.html").write_text("<img src='elsewhere.png'><script>console.error('broken')</script>")

        page = await browser.open((tmp_path / "page.html").as_uri())

        assert page.requests == [(tmp_path / "page.html").as_uri(), (tmp_path / "elsewhere.png").as_uri()]
        assert "broken" in page.complaints
