"""Incidents that come about on real brokers, one after the other, and what our command line shows of each.

A file in `incidents_shown` holds what is shown of each. PIN=1 writes them anew: read their diff. Incidents that these
brokers can't be brought to are made from evidence, in unit.cli.terminal.incidents.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from brokers import forked
from testbed.cluster import RealKafka
from testbed.waiting import wait_until
from testbed.warm import WarmKafka, mend

pytestmark = pytest.mark.brokers
GROUP = "incidents shown"

SHOWN = Path(__file__).parent / "incidents_shown"
FIRST_SCREEN = 24
"""Lines of a terminal that nobody made larger."""
TOOL = "kafka-recovery"
AUTOMATIC = (
    "limits: {brokersDownPercent: 100}\nrules: [{name: everything, minReplicationFactor: 1, approval: AutoApprove}]\n"
)
IMPATIENT = "rules: [{name: everything, patience: 0s}]\n"
REPLICAS = {
    "orders": [[1, 2, 3]] * 3,
    "payments": [[1, 2, 3]],
    "invoices": [[1, 2]] * 2,
    "audit": [[1, 2, 3]],
}
VARIES = {
    r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b": "2026-11-21 12:00:00",
    r"\b[0-9a-f]{64}\b": "DIGEST",
    r"(?<=plan )[0-9a-f]{12}\b": "DIGEST",
    r"(?<=\d at[ \n])\d{2,3}\b": "100",
}


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster, and a person with our command line before it."""

    kafka: RealKafka
    folder: Path

    def writes(self, count: int, *topics: str, acks: str = "all") -> None:
        """So many records into each of their partitions."""
        for topic in topics:
            written = self.kafka.produce_to(topic, range(len(REPLICAS[topic])), count, "record", acks=acks)
            assert {len(values) for values in written.values()} == {count}

    def plan(self, *topics: str, options: Sequence[str] = ()) -> str:
        """What is shown of a plan for them."""
        return self.typed("plan", *options, *partitions(*topics))

    def typed(self, command: str, *words: str, code: int = 0) -> str:
        """What a command prints, without what differs from run to run."""
        reach = ("--bootstrap-server", self.kafka.bootstrap)
        environment = {"XDG_STATE_HOME": str(self.folder / "state"), "COLUMNS": "110"}
        done = forked.run(TOOL, command, *reach, *words, environment=environment)
        assert done.returncode == code, done.stderr
        return self._steady(done.stdout)

    def file(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def _steady(self, text: str) -> str:
        kafka = self.kafka
        named = {kafka.cluster_id: "prod", kafka.controller_address: "controller:9093", f"{self.folder}/": ""}
        for each, name in (named | {kafka.address(id): f"broker-{id}:9092" for id in kafka.brokers}).items():
            text = text.replace(each, name)
        for pattern, name in VARIES.items():
            text = re.sub(pattern, name, text)
        return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def partitions(*topics: str) -> list[str]:
    """The options that name all of theirs."""
    ids = (f"{topic}-{index}" for topic in topics for index in range(len(REPLICAS[topic])))
    return [word for id in ids for word in ("--partition", id)]


def the_old_leader_still_leads(site: Site) -> str:
    """Broker 3 fell out of the ISR, then broker 2; then broker 1 was cut off from the controllers, and leads on.

    It stands still until the others know that nobody leads: else they would copy from it.
    """
    kafka = site.kafka
    for topic, replicas in REPLICAS.items():
        kafka.create_topic(topic, replicas, min_insync_replicas=2)
    site.writes(10, "orders", "invoices", "audit")
    kafka.freeze(3)
    kafka.wait_until_fenced(3)
    site.writes(12, "orders", "audit")
    site.writes(20, "payments")
    kafka.freeze(2)
    kafka.wait_until_fenced(2)
    site.writes(5, "orders", "audit", acks="1")
    kafka.detour.stall()
    kafka.freeze(1)
    for broker in (2, 3):
        kafka.thaw(broker)
    kafka.wait_until_unfenced(2, 3)
    kafka.wait_until_fenced(1)
    kafka.thaw(1)
    return site.plan("orders")


class Heartbeat:
    """BrokerHeartbeat (KIP-631)."""

    API_KEY = 63


def a_member_is_back_a_moment_ago(site: Site) -> str:
    """Broker 1 learns that it was fenced, and leads no more; its heartbeats still don't arrive."""
    kafka = site.kafka
    kafka.detour.withhold(Heartbeat)
    wait_until("it leads no more", lambda: kafka.leader_answers("orders", 0, 1), lambda leads: not leads)
    return site.plan("orders")


def a_member_answers_and_is_fenced(site: Site) -> str:
    """The same under a policy that waits for nobody."""
    return site.plan("orders", options=("--policy", site.file("impatient.yaml", IMPATIENT)))


def the_last_member_is_dead(site: Site) -> str:
    """Then somebody killed it with SIGKILL."""
    site.kafka.kill(1)
    return site.plan("orders", options=("--out", str(site.folder / "plan.json")))


def nothing_is_lost(site: Site) -> str:
    """The same, but the metadata log is read: two had to be in sync, so broker 1 alone acknowledged nothing."""
    return site.plan("orders", options=("--bootstrap-controller", site.kafka.controller_address))


def a_few_records_are_lost_at_most(site: Site) -> str:
    """The same, but a person names broker 3, which holds less."""
    named = [{"topic": "orders", "partition": index, "designatedLeader": 3} for index in range(3)]
    file = site.file("leaders.json", json.dumps({"partitions": named}))
    return site.typed("plan", "--bootstrap-controller", site.kafka.controller_address, "--path-to-json-file", file)


def the_planned_leader_dies_after_the_approval(site: Site) -> str:
    """Broker 2 is killed, too, before the plan that elects it is executed by the word of who read it."""
    site.kafka.kill(2)
    site.kafka.wait_until_fenced(2)
    plan = site.folder / "plan.json"
    digest = json.loads(plan.read_text())["digest"]
    return site.typed("execute", str(plan), "--plan", digest, "--yes", code=1)


def the_only_copy_is_empty_in_one_topic(site: Site) -> str:
    """Broker 3 is the only one left, and payments were written while it was away."""
    return site.plan("orders", "payments")


def no_copy_lives(site: Site) -> str:
    """Invoices have replicas on brokers 1 and 2 alone."""
    return site.plan("invoices")


def elected_unasked(site: Site) -> str:
    """Under a policy that asks nobody, broker 3 leads the audit log now; two brokers are still down."""
    policy = site.file("automatic.yaml", AUTOMATIC)
    return site.typed("recover", "--policy", policy, *partitions("audit"))


def the_next_in_line_is_empty(site: Site) -> str:
    """Broker 2 is started again, on an empty disk."""
    kafka = site.kafka
    kafka.wipe(2)
    kafka.start(2)
    kafka.wait_until_unfenced(2)
    kafka.wait_for_log_ends(2, "orders", dict.fromkeys(range(3), 0))
    return site.plan("orders")


def the_controllers_are_gone(site: Site) -> str:
    """The only controller is killed."""
    site.kafka.kill_controller()
    return site.plan("orders")


def the_longest_log_is_the_wrong_one(site: Site) -> str:
    """Another day: broker 2 led alone and wrote more, broker 3 led alone later, and then broker 1, which died."""
    mend(site.kafka)
    site.kafka.offline_partition("orders", {2: 27, 3: 15}, partitions=3)
    return site.plan("orders")


STORY: Sequence[Callable[[Site], str]] = (
    the_old_leader_still_leads,
    a_member_is_back_a_moment_ago,
    a_member_answers_and_is_fenced,
    the_last_member_is_dead,
    nothing_is_lost,
    a_few_records_are_lost_at_most,
    the_planned_leader_dies_after_the_approval,
    the_only_copy_is_empty_in_one_topic,
    no_copy_lives,
    elected_unasked,
    the_next_in_line_is_empty,
    the_controllers_are_gone,
    the_longest_log_is_the_wrong_one,
)
"""What happens to one cluster: each goes on from the one before."""
LONG = (the_next_in_line_is_empty, the_controllers_are_gone, the_longest_log_is_the_wrong_one)
"""Half a minute: a broker is started again, without a controller brokers are asked until the deadline, and four more
sessions run out."""


class Told:
    """The story as far as it was played."""

    def __init__(self, site: Site) -> None:
        self._story = ((each.__name__, each(site)) for each in STORY)
        self._shown: dict[str, str] = {}

    def shown(self, incident: str) -> str:
        """What was shown of it; KeyError if the story broke off before."""
        while incident not in self._shown and (found := next(self._story, None)):
            self._shown |= [found]
        return self._shown[incident]


@pytest.fixture(scope="module")
def told(warm: WarmKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    with warm.lent(elr=False, detour=1) as kafka:
        yield Told(Site(kafka, tmp_path_factory.mktemp("shown")))


@pytest.mark.parametrize(
    "incident",
    [pytest.param(each.__name__, id=each.__name__, marks=pytest.mark.full if each in LONG else ()) for each in STORY],
)
def test_each_incident_is_shown_as_its_file_has_it(incident: str, told: Told) -> None:
    """The first takes three sessions of a broker beside a cluster of its own."""
    shown, file = told.shown(incident), SHOWN / f"{incident}.txt"
    if os.environ.get("PIN"):
        file.write_text(shown)
    assert shown == file.read_text()


@pytest.mark.parametrize("file", sorted(SHOWN.iterdir()), ids=lambda file: file.stem)
def test_what_decides_stands_on_the_first_screen_of_each(file: Path) -> None:
    shown = file.read_text().splitlines()
    if shown[0].startswith("Plan for"):
        decides = re.compile(r"THEN, IF YOU|ONLY IF|IN PLACE OF|REPAIR THE CONTROLLERS|Do nothing yet|  No: |  No, ")
        assert any(map(decides.match, shown[:FIRST_SCREEN]))


def test_every_file_belongs_to_an_incident() -> None:
    assert sorted(path.stem for path in SHOWN.iterdir()) == sorted(each.__name__ for each in STORY)
