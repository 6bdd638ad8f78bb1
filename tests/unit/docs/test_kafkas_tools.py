"""Kafka's own tools as pages show them: typed as they stand, they find a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from unit.docs.commands import PAGES, ROOT

WRITTEN = [*PAGES, *sorted(ROOT.glob("examples/**/*.yaml"))]
TOOL = re.compile(r"\bkafka-(?:[a-z-]+\.sh|acls|cluster|configs|leader-election|metadata-quorum|topics) +[^`\n]+")
FINDS = re.compile(r" --bootstrap-(?:server|controller)[ =]\S")


def typed(text: str) -> Iterator[str]:
    """Commands with something behind the tool's name: without that it is only spoken of."""
    for line in text.replace("\\\n", " ").splitlines():
        code = re.findall(r"`([^`]+)`", line) if "`" in line else [line]
        yield from (found for each in code for found in TOOL.findall(each))


COMMANDS = [(page, command) for page in WRITTEN for command in typed(page.read_text())]


@pytest.mark.parametrize("command", [pytest.param(command, id=f"{page.name}: {command}") for page, command in COMMANDS])
def test_a_tool_of_kafkas_is_told_where_the_cluster_is(command: str) -> None:
    assert FINDS.search(command)


def test_they_are_found_in_blocks_in_lines_and_in_comments() -> None:
    assert {page.name for page, _ in COMMANDS} >= {
        *("acls.md", "clusters.md", "watched-cluster.yaml"),
        *("KafkaRecoveryClusterIsolated.md", "KafkaRecoveryFailed.md", "KafkaRecoveryUncleanElectionTopics.md"),
    }


@pytest.mark.parametrize("said", ["`kafka-topics.sh --describe`", "kafka-acls --add \\\n  --cluster"])
def test_one_without_an_address_would_be_found(said: str) -> None:
    (command,) = typed(said)

    assert not FINDS.search(command)
