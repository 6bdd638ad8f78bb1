"""What pages show of programs, written by the programs.

PYTHONPATH=operator:spark:tests python -m unit.docs.shown    # writes the pages; read their diff

A comment `shown: NAME` stands above each such block. Digests, ages and the
time of now stand there as they were once: they differ from run to run, or with every change of the evidence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_recovery.cli.kubectl import asking, commands
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafka_recovery.domain.outcome import End, Outcome, PartitionOutcome
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest
from kafka_recovery.kube.recoveries.status import ApprovedBy, Phase
from kafka_recovery.kube.resources.kinds import CLUSTERS, RECOVERIES
from unit.cli.kubectl.person import NAMESPACE, Incidents, SmallKubernetes
from unit.cli.small_cluster import SmallCluster
from unit.cli.terminal.incidents import INCIDENTS, as_shown

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
PAGES = (REFERENCE / "commands.md", REFERENCE / "kubectl-plugin.md")
BLOCK = re.compile(r"(?P<above><!-- shown: (?P<name>.+?) -->\n```text\n).*?(?=^```)", re.DOTALL | re.MULTILINE)
DIGESTS = ("3f1c20c9aa5d", "59f8d0bb1c77")
ORDERS = [TopicPartition("orders", number) for number in range(3)]


class Stage:
    """A person with the plugin, and a recovery of the orders that wait for an approval."""

    def __init__(self, partitions: int) -> None:
        self.kubernetes, self.kafka = SmallKubernetes(), SmallCluster()
        self.incidents = Incidents(self.kubernetes, self.kafka)
        for id in ORDERS[:partitions]:
            self.kafka.offline(str(id), {2: 27, 3: 15})
        self.incidents.cluster(offline=partitions)
        self.plan = self.incidents.awaiting()

    def typed(self, words: str) -> str:
        """What the plugin prints on stdout; the digest is typed where it is asked for."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", "100")
            patch.setattr(asking, "somebody_there", lambda: True)
            done = CliRunner().invoke(commands.app, words.split(), obj=self.kubernetes.open, input=digest(self.plan))
        assert done.exit_code == 0, done.output
        return done.stdout


def until_the_partitions(shown: str) -> str:
    """The first screen: what follows says which partition is elected by which rule."""
    _, *lines = shown.splitlines(keepends=True)
    return "".join(
        lines[: lines.index("\n", next(at for at, each in enumerate(lines) if each.startswith("Partitions ")))]
    )


def replaced() -> str:
    """Of `plans`, the line about a plan that another one followed."""
    stage = Stage(1)
    stage.incidents.replanned("prod-1", stage.plan, lambda: stage.kafka.offline("orders-0", {2: 27, 3: 30}))
    (told,) = re.findall(r"^\w+: Replaced .*?(?=^\n|^To read)", stage.typed("plans prod-1"), re.DOTALL | re.MULTILINE)
    return str(told)


def ended() -> str:
    """`status NAME`, down to what a person does next."""
    stage = Stage(3)
    led = {"leader": BrokerId(2), "leader_epoch": LeaderEpoch(8), "log_end": Offset(27)}
    outcomes = [PartitionOutcome(id, Outcome.RECOVERED_UNDER_MIN_ISR, **led) for id in ORDERS]  # type: ignore[arg-type]
    objects = stage.kubernetes.memory.objects
    objects[RECOVERIES.path(NAMESPACE, "prod-1")]["metadata"]["creationTimestamp"] = "2026-11-21T11:54:19Z"
    status = objects[CLUSTERS.path(NAMESPACE, "prod")]["status"]
    status["brokerStates"] = [{"id": 1, "state": "Fenced", "since": "2026-11-21T11:53:48Z"}]
    status["lastProbe"] = "2026-11-21T12:09:00Z"
    stage.incidents.carried_out("prod-1", stage.plan, *outcomes)
    done = Reason("Recovered", "3 of 3 partitions have a leader that answered itself")
    by = ApprovedBy("prod-1-approve-3f1c20c9aa", "uid-of-the-approval", "ann")
    stage.incidents.tell("prod-1", Phase.ENDED, done, stage.plan, end=End.RECOVERED, approval=by)
    shown = stage.typed("status prod-1")
    return shown[shown.index("DATA LOSS") : shown.index("\n\n", shown.index("\n3. ")) + 1]


SHOWN: Mapping[str, Callable[[], str]] = {
    "the longest log is the wrong one": lambda: until_the_partitions(
        as_shown(INCIDENTS["the_longest_log_is_the_wrong_one"]())
    ),
    "a recovery waits": lambda: Stage(1).typed("status"),
    "its plans": lambda: Stage(1).typed("plans prod-1"),
    "its approval": lambda: Stage(1).typed("approve prod-1 --reason INC-4711"),
    "a plan was replaced": replaced,
    "a recovery has ended": ended,
}


def as_ever(text: str) -> str:
    """Without what differs from run to run."""
    found = list(dict.fromkeys(re.findall(r"\b[0-9a-f]{12}\b", text)))
    for shown, instead in zip(found, DIGESTS, strict=False):
        text = text.replace(shown, instead)
    text = re.sub(r"\b\d+d\b(?=\s+prod$)", lambda age: "2d".ljust(len(age[0])), text, flags=re.MULTILINE)
    text = re.sub(r"(?<=Replaced at )[-0-9T:]+Z", "2026-11-21T12:04:09Z", text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"


def wanted(page: Path) -> str:
    """What the page should hold."""
    return BLOCK.sub(lambda block: block["above"] + as_ever(SHOWN[block["name"]]()), page.read_text())


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(wanted(page))
