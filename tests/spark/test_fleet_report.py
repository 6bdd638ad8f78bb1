"""`kafka-recovery fleet report` on what Spark wrote, opened in a real browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from kafka_recovery.cli import main
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.fleet.export import Archive
from spark.test_readiness import RACKS, VILLAGE, led
from testbed.chromium import Browser
from unit.decision.incident import broker, dead, evidence, log, partition

HOSTILE = "<script>alert(1)</script>"

TOWN = evidence(
    led(HOSTILE, {3: log(9), 4: log(9)}, (3,)),
    led("alone", {4: log(9)}, (4,)),
    *(partition({1: None, 3: log(5), 4: log(5)}, id=TopicPartition("down", n)) for n in range(3)),
    brokers=[dead(1), *(broker(n, rack=RACKS[n]) for n in (3, 4))],
)

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


@pytest.fixture(scope="module")
def place(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Evidence, what two runs found in it, and the page."""
    root = tmp_path_factory.mktemp("fleet")
    archive = Archive.at(str(root / "evidence"))
    for name, seen in (("village", VILLAGE), ("town", TOWN)):
        archive.write(replace(seen, cluster=replace(seen.cluster, cluster_id=name)))
    (root / "policy.yaml").write_text("rules:\n- name: all\n")
    asked = ["--evidence", str(root / "evidence"), "--policy", str(root / "policy.yaml"), "--to", str(root)]
    command("rank", *asked, "--run", "rank")
    command("readiness", *asked, "--run", "readiness")
    command(
        "report",
        "--results",
        str(root / "rank"),
        "--results",
        str(root / "readiness"),
        "--out",
        str(root / "page.html"),
    )
    return root


def command(*words: str) -> None:
    done = CliRunner().invoke(main.app, ["fleet", *words])
    assert done.exit_code == 0, done.output


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with Browser() as browser:
        yield browser


INSTALLING_CHROMIUM = pytest.mark.timeout(900)


@INSTALLING_CHROMIUM
async def test_the_page_asks_for_nothing_and_complains_of_nothing(
    spark: SparkSession, place: Path, browser: Browser
) -> None:
    uri = (place / "page.html").as_uri()

    page = await browser.open(uri)

    sections = await page.value("[...document.querySelectorAll('h2')].map(heading => heading.id)")
    assert sections == ["worst", "pairs", "clusters", "topics", "offline", "leaders", "origin"]
    assert page.requests == [uri]
    assert page.complaints == []


@INSTALLING_CHROMIUM
@pytest.mark.parametrize("dark", [False, True])
async def test_the_heat_maps_show_what_spark_counted(
    spark: SparkSession, place: Path, browser: Browser, dark: bool
) -> None:
    page = await browser.open((place / "page.html").as_uri(), dark=dark)

    cells: list[dict[str, Any]] = await page.value(CELLS)

    counted = {
        (row["cluster_id"], min(row["brokers"]), max(row["brokers"])): row["offline"]
        for row in pq.read_table(place / "readiness" / "losses").to_pylist()
        if row["kind"] != "Rack"
    }
    assert {(cell["cluster"], *cell["brokers"]): cell["offline"] for cell in cells} == counted
    assert counted["town", 3, 4] == 2
    assert all(cell["isVisible"] for cell in cells)


@INSTALLING_CHROMIUM
async def test_a_topic_that_is_called_like_a_script_is_text(spark: SparkSession, place: Path, browser: Browser) -> None:
    page = await browser.open((place / "page.html").as_uri())

    assert HOSTILE in await page.value("document.body.innerText")
    assert await page.value("document.scripts.length") == 0


@INSTALLING_CHROMIUM
async def test_on_a_telephone_only_tables_are_wider_than_the_page(
    spark: SparkSession, place: Path, browser: Browser
) -> None:
    page = await browser.open((place / "page.html").as_uri(), width=390)

    assert await page.value("document.documentElement.scrollWidth") == 390


@INSTALLING_CHROMIUM
async def test_the_browser_tells_of_what_a_page_asks_for_and_complains_of(
    spark: SparkSession, tmp_path: Path, browser: Browser
) -> None:
    (tmp_path / "page.html").write_text("<img src='elsewhere.png'><script>console.error('broken')</script>")

    page = await browser.open((tmp_path / "page.html").as_uri())

    assert page.requests == [(tmp_path / "page.html").as_uri(), (tmp_path / "elsewhere.png").as_uri()]
    assert "broken" in page.complaints
