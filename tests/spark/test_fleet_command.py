"""`kafka-recovery fleet` from question to page: what Spark found is shown, as a table, as data and as a report."""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import pytest_asyncio
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from kafka_recovery.cli import main
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.fleet.export import Archive
from spark.test_readiness import RACKS, VILLAGE, led
from testbed.chromium import Browser, Page
from unit.decision.incident import broker, dead, evidence, log, partition
from unit.documents import document

HOSTILE = "<script>alert(1)</script>"

TOWN = evidence(
    led(HOSTILE, {3: log(9), 4: log(9)}, (3,)),
    led("alone", {4: log(9)}, (4,)),
    *(partition({1: None, 3: log(5), 4: log(5)}, id=TopicPartition("down", n)) for n in range(3)),
    brokers=[dead(1), *(broker(n, rack=RACKS[n]) for n in (3, 4))],
)


@dataclass(frozen=True)
class Told:
    """What the three commands said, and where everything lies."""

    root: Path
    ranked: str
    readied: str

    @property
    def page(self) -> Path:
        return self.root / "page.html"

    def counted(self) -> list[dict[str, Any]]:
        """What Spark wrote down of each broker and pair."""
        rows: list[dict[str, Any]] = pq.read_table(self.root / "readiness" / "losses").to_pylist()
        return [row for row in rows if row["kind"] != "Rack"]


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Two clusters, asked both questions, and the page."""
    root = tmp_path_factory.mktemp("fleet")
    archive = Archive.at(str(root / "evidence"))
    for name, seen in (("village", VILLAGE), ("town", TOWN)):
        archive.write(replace(seen, cluster=replace(seen.cluster, cluster_id=name)))
    (root / "policy.yaml").write_text("rules:\n- name: all\n")
    asked = ["--evidence", str(root / "evidence"), "--policy", str(root / "policy.yaml"), "--to", str(root)]
    ranked = command("rank", *asked, "--run", "rank")
    readied = command("readiness", *asked, "--run", "readiness", "-o", "json")
    results = ("--results", str(root / "rank"), "--results", str(root / "readiness"))
    command("report", *results, "--out", str(root / "page.html"))
    return Told(root, ranked, readied)


def command(*words: str) -> str:
    done = CliRunner().invoke(main.app, ["fleet", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_ranking_s_numbers_are_shown_with_where_the_rest_lies(told: Told) -> None:
    assert told.ranked.splitlines()[1].split() == ["2", "16", "0", "0", "3", "1"]
    assert str(told.root / "rank" / "manifest.json") in told.ranked


def test_for_programs_it_is_the_manifest(told: Told) -> None:
    said = document("fleet-run", told.readied)

    assert (said["task"], said["summary"]["partitions"]) == ("readiness", 16)
    assert said.pop("formatVersion") == 1
    assert json.loads(Path(said.pop("manifest")).read_bytes()) == said


def test_the_page_shows_what_spark_counted(told: Told) -> None:
    titles = re.findall(r'<td class="h[^"]*" title="([^"]*)"', told.page.read_text())

    shown = sorted(html.unescape(title).partition(";")[0] for title in titles)
    assert shown == sorted(f"{row['failing']}: {row['offline']} offline" for row in told.counted())


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


async def opened(browser: Browser, told: Told, **how: Any) -> Page:
    return await browser.open(told.page.as_uri(), **how)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.asyncio(loop_scope="module")
class TestInABrowser:
    """A real one, at its word. Only in full: it installs 300 MB of Debian's packages where there is no Chromium, and
    what the page is made of is held by its unit tests.
    """

    async def test_the_page_asks_for_nothing_and_complains_of_nothing(self, told: Told, browser: Browser) -> None:
        page = await opened(browser, told)

        sections = await page.value("[...document.querySelectorAll('h2')].map(heading => heading.id)")
        assert sections == ["worst", "pairs", "clusters", "topics", "offline", "leaders", "origin"]
        assert page.requests == [told.page.as_uri()]
        assert page.complaints == []

    @pytest.mark.parametrize("dark", [False, True])
    async def test_the_heat_maps_show_what_spark_counted(self, told: Told, browser: Browser, dark: bool) -> None:
        page = await opened(browser, told, dark=dark)

        cells: list[dict[str, Any]] = await page.value(CELLS)

        counted = {
            (row["cluster_id"], min(row["brokers"]), max(row["brokers"])): row["offline"] for row in told.counted()
        }
        assert {(cell["cluster"], *cell["brokers"]): cell["offline"] for cell in cells} == counted
        assert counted["town", 3, 4] == 2
        assert all(cell["isVisible"] for cell in cells)

    async def test_a_topic_that_is_called_like_a_script_is_text(self, told: Told, browser: Browser) -> None:
        page = await opened(browser, told)

        assert HOSTILE in await page.value("document.body.innerText")
        assert await page.value("document.scripts.length") == 0

    async def test_on_a_telephone_only_tables_are_wider_than_the_page(self, told: Told, browser: Browser) -> None:
        page = await opened(browser, told, width=390)

        assert await page.value("document.documentElement.scrollWidth") == 390

    async def test_the_browser_tells_of_what_a_page_asks_for_and_complains_of(
        self, browser: Browser, tmp_path: Path
    ) -> None:
        (tmp_path / "page.html").write_text("<img src='elsewhere.png'><script>console.error('broken')</script>")

        page = await browser.open((tmp_path / "page.html").as_uri())

        assert page.requests == [(tmp_path / "page.html").as_uri(), (tmp_path / "elsewhere.png").as_uri()]
        assert "broken" in page.complaints
