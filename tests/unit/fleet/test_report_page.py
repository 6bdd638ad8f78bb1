"""The page itself: complete, alone, and deaf to what a topic is called."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kafka_recovery.fleet.manifest import Loss
from kafka_recovery.fleet.report import LONGEST
from kafka_recovery.fleet.report_page import Segment, page, segments
from unit.fleet.runs import count, counts, evidence, leader, losses, ranked, topic, write_run
from unit.fleet.test_report import told

HOSTILE = "<script>alert(1)</script>"


class Read(HTMLParser):
    """What a browser would make of it: tags with attributes, and text."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def written(tmp_path: Path, name: str) -> str:
    """A page on which everything that others may have named has this name."""
    alone = {1: counts(none=4), 2: counts(lossless=1)}
    prepared = write_run(
        tmp_path / "readiness",
        "readiness",
        {
            "losses": losses(name, alone),
            "topics": [
                topic(name, counts(none=4), kind, name) | {"worst": name} for kind in ("Broker", "Pair", "Rack")
            ],
            "offline": [topic(name, counts(unknown=1), cluster=name)],
        },
        worst=(Loss(name, name, 4, 0, 0, 0, 4),),
        seen=[evidence(name)],
    )
    ranking = write_run(
        tmp_path / "rank",
        "rank",
        {
            "counts": [count(name, "Refuse", 3, rule=name) | {"cluster_id": name}],
            "ranking": [ranked("Refuse", name, name, at_least=None)],
            "leaders": [leader(1, 5, 2, name) | {"rack": name}],
        },
        seen=[evidence(name + "2")],
    )
    return page(told(prepared, ranking)).decode()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("plain"), "orders")


def test_its_tags_are_closed_and_its_numbers_are_there(plain: str) -> None:
    read = Read(plain)

    assert read.open == []
    text = " ".join(read.text.split())
    for said in ("Partitions at risk by pair of brokers", "Loss classes by topic", "Leaders per broker", "✕ 4"):
        assert said in text


def test_it_needs_nothing_from_anywhere(plain: str) -> None:
    read = Read(plain)

    assert not {"script", "link", "img", "iframe", "object", "form", "a"} & {tag for tag, _ in read.tags}
    attributes = {name for _, attributes in read.tags for name in attributes}
    assert not {"src", "href", "style", "action"} & attributes
    assert not any(name.startswith("on") for name in attributes)
    assert "url(" not in plain
    assert "http" not in plain.replace("http-equiv", "")


def test_its_policy_allows_its_own_style_and_nothing_else(plain: str) -> None:
    (policy,) = [a["content"] for _, a in Read(plain).tags if a.get("http-equiv") == "Content-Security-Policy"]
    style = re.search("<style>(.*)</style>", plain, re.DOTALL)

    assert style
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_every_table_tells_which_heading_a_number_belongs_to(plain: str) -> None:
    tags = Read(plain).tags

    assert sum(tag == "table" for tag, _ in tags) == sum(tag == "thead" for tag, _ in tags) > 8
    assert all(a.get("scope") in ("col", "row") for tag, a in tags if tag == "th")


def test_a_heat_map_has_each_pair_once_and_each_broker_alone(plain: str) -> None:
    cells = [
        a for tag, a in Read(plain).tags if tag == "td" and "title" in a and (a.get("class") or "").startswith("h")
    ]

    assert [cell["title"] for cell in cells] == [
        "broker 1: 4 offline; 0 lossless, 0 bounded, 0 unknown, 4 none",
        "brokers 1 and 2: 5 offline; 1 lossless, 0 bounded, 0 unknown, 4 none",
        "broker 2: 1 offline; 1 lossless, 0 bounded, 0 unknown, 0 none",
    ]


@pytest.mark.parametrize("name", [HOSTILE, '"><img src=x onerror=alert(1)>', "</style><b>", "{{ 7 * 7 }}", "</title>"])
def test_whatever_a_topic_is_called_is_text(tmp_path: Path, plain: str, name: str) -> None:
    (tmp_path / "other").mkdir()

    read = Read(written(tmp_path / "other", name))

    assert name in read.text
    assert [tag for tag, _ in read.tags] == [tag for tag, _ in Read(plain).tags]


def test_characters_that_would_turn_the_text_around_are_written_out(tmp_path: Path) -> None:
    text = Read(written(tmp_path, "pay\u202egnp\x1b[2J")).text

    assert "\u202e" not in text
    assert "\\u202e" in text


def test_a_name_without_end_is_cut(tmp_path: Path) -> None:
    content = written(tmp_path, "x" * 900)

    assert "x" * (LONGEST - 1) + "…" in content
    assert "x" * LONGEST not in content


def test_a_large_fleet_s_page_stays_small(tmp_path: Path) -> None:
    alone = {broker: counts(none=broker) for broker in range(1, 31)}
    run = write_run(
        tmp_path / "readiness",
        "readiness",
        {
            "losses": [row for n in range(30) for row in losses(f"cluster-{n}", alone)],
            "topics": [topic(f"topic-{n}", counts(none=n + 1)) for n in range(3000)],
        },
        seen=[evidence(f"cluster-{n}") for n in range(300)],
    )

    content = page(told(run))

    assert len(content) < 1_000_000
    text = " ".join(Read(content.decode()).text.split())
    for said in (
        "and 2,975 more topics",
        "and 22 more clusters, whose losses hurt less",
        "and 6 more brokers, whose loss hurts less",
        "and 260 more pieces of evidence",
    ):
        assert said in text


def test_a_fleet_in_which_all_is_well_has_a_page_as_well(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / task, task) for task in ("readiness", "rank")]

    text = " ".join(Read(page(told(*runs)).decode()).text.split())

    assert "Every partition has a leader." in text
    assert "Topics with partitions that hang on one broker: none." in text


def test_a_bar_s_parts_follow_each_other_and_fill_their_share() -> None:
    assert segments({"lossless": 1, "bounded": 0, "none": 1}, 4) == [
        Segment("lossless", 0.0, 25.0),
        Segment("none", 25.0, 25.0),
    ]
    assert segments({"lossless": 0}, 0) == []
