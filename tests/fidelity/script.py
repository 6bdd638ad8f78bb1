"""A small language for what happens to one partition, so that the same script plays on real brokers and on the model.

A script is data: steps with a text and an act. What a step sees is a `Sight`; two playings are equal if all sights are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Value = int | str | None | list[int] | list[str]
Fields = Mapping[str, Value]

TOPIC = "orders"
OBSERVER = 4
"""A broker that no script touches: whatever happens, somebody can be asked. It holds a replica in few scripts."""
BROKERS = (1, 2, 3, OBSERVER)

UNCLEAN_CHECK = 2
"""Seconds between two looks of the controller for unclean elections that are allowed."""

ANY_EPOCH = -1
BEYOND = "OFFSET_OUT_OF_RANGE"
"""What a replica says of a leader epoch above its own latest."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The partition as the controller has it; `leader` None: offline."""

    leader: int | None
    leader_epoch: int
    isr: frozenset[int]
    elr: frozenset[int]
    last_known_elr: tuple[int, ...]
    replicas: tuple[int, ...]


class Stage(Protocol):
    """A cluster with the brokers above, on which scripts are played. Errors are given by their names in Kafka."""

    def create(self, replicas: Sequence[int], min_isr: int, unclean: bool) -> None:
        """The topic with one partition; returns when it is led."""

    def delete(self) -> None:
        """Returns when the topic is gone."""

    def configure(self, key: str, value: str) -> None:
        """Set one of the topic's configs."""

    def kill(self, broker: int) -> None:
        """SIGKILL."""

    def stop(self, broker: int) -> None:
        """SIGTERM; returns when the process is gone."""

    def freeze(self, broker: int) -> None:
        """SIGSTOP."""

    def thaw(self, broker: int) -> None:
        """SIGCONT."""

    def start(self, broker: int) -> None:
        """A new process; returns when it answers."""

    def wipe(self, broker: int) -> None:
        """An empty disk for a broker that is down."""

    def fence(self, broker: int) -> None:
        """Returns when the controller has fenced it."""

    def unfence(self, broker: int) -> None:
        """Returns when the controller lets it lead."""

    def partition(self) -> Partition:
        """As of now."""

    def wait(self, what: str, met: Callable[[], bool]) -> None:
        """Let time pass until it is met; AssertionError if it never is."""

    def settle(self) -> None:
        """Until every running broker has applied what the controller has written."""

    def running(self) -> Sequence[int]:
        """The brokers that answer."""

    def log_end(self, broker: int) -> int | str:
        """The replica's log end, or the error."""

    def log(self, broker: int) -> list[str]:
        """The batches that the replica holds, oldest first: offsets, leader epoch, and which write they are of."""

    def epochs(self, broker: int, latest: int) -> list[str]:
        """Of each leader epoch up to the latest: which one the replica has in its place, and where that ends."""

    def reassignment(self) -> tuple[list[int], list[int]]:
        """Replicas being added, and being removed."""

    def write(self, broker: int, records: int, acks: int) -> str:
        """The error of one Produce request to this broker."""

    def offsets(self, broker: int, epoch: int, debugging: bool) -> tuple[str, int, int]:
        """ListOffsets LATEST as consumer or with replica id -2: error, offset, leader epoch."""

    def elect(self, preferred: bool, topic: str) -> str:
        """The error of ElectLeaders PREFERRED or UNCLEAN."""

    def reassign(self, replicas: Sequence[int] | None, same_count: bool) -> str:
        """The error of AlterPartitionReassignments; None cancels. `same_count`: other counts are refused."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What one step saw."""

    step: str
    fields: Fields


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens; `act` returns what is to be compared, None where there is nothing.

    `to_brokers`: it happens to them, or is awaited of them, whichever topic the script is about.
    """

    text: str
    act: Callable[[Stage], Fields | None]
    to_brokers: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """`name` says what is to be seen; `elr`: eligible leader replicas are on; `newest_only`: older releases can't.

    `spoils`: nothing can be played on its cluster afterwards.
    """

    name: str
    elr: bool
    steps: tuple[Step, ...]
    newest_only: bool = False
    spoils: bool = False

    @property
    def to_brokers(self) -> tuple[str, ...]:
        """What happens to brokers in it, in order."""
        return tuple(step.text for step in self.steps if step.to_brokers)

    def do(self, number: int, stage: Stage) -> list[Sight]:
        """What the step of this number saw."""
        step = self.steps[number - 1]
        try:
            fields = step.act(stage)
        except AssertionError as failure:
            raise AssertionError(f"{self.name}, step {number}, {step.text}: {failure}") from failure
        return [] if fields is None else [Sight(f"{number}. {step.text}", fields)]


def differences(real: Sequence[Sight], model: Sequence[Sight]) -> list[str]:
    """A line for each field that differs; the steps are the same."""
    found = []
    for ours, theirs in zip(real, model, strict=True):
        for key in {**ours.fields, **theirs.fields}:
            one, other = ours.fields.get(key), theirs.fields.get(key)
            if one != other:
                found.append(f"{ours.step}: {key} is {one} on real brokers, {other} on the model")
    return found


# What happens to the topic


def create(*replicas: int, min_isr: int = 1, unclean: bool = False) -> Step:
    """The topic, its one partition on these brokers."""
    return Step(f"create on {replicas}", lambda stage: stage.create(replicas, min_isr, unclean))


def delete() -> Step:
    """The topic goes."""
    return Step("delete the topic", lambda stage: stage.delete())


def configure(key: str, value: str) -> Step:
    """A topic config, by Kafka's key."""
    return Step(f"set {key}={value}", lambda stage: stage.configure(key, value))


def write(broker: int, records: int, acks: str = "all") -> Step:
    """One Produce request to that broker."""
    number = -1 if acks == "all" else int(acks)
    text = f"write {records} to {broker} with acks={acks}"
    return Step(text, lambda stage: {"error": stage.write(broker, records, number)})


# What happens to processes


def kill(*brokers: int) -> Step:
    """SIGKILL, one after the other."""
    return _each("kill", brokers, lambda stage: stage.kill)


def stop(*brokers: int) -> Step:
    """Controlled shutdowns, one after the other."""
    return _each("stop", brokers, lambda stage: stage.stop)


def freeze(*brokers: int) -> Step:
    """SIGSTOP."""
    return _each("freeze", brokers, lambda stage: stage.freeze)


def thaw(*brokers: int) -> Step:
    """SIGCONT."""
    return _each("thaw", brokers, lambda stage: stage.thaw)


def start(*brokers: int) -> Step:
    """New processes."""
    return _each("start", brokers, lambda stage: stage.start)


def wipe(*brokers: int) -> Step:
    """Empty disks."""
    return _each("wipe", brokers, lambda stage: stage.wipe)


# What is waited for


def until_fenced(*brokers: int) -> Step:
    """The controller has given up all of these."""
    return _each("until fenced", brokers, lambda stage: stage.fence)


def until_unfenced(*brokers: int) -> Step:
    """The controller would let each of these lead."""
    return _each("until unfenced", brokers, lambda stage: stage.unfence)


def until_isr(*brokers: int) -> Step:
    """Exactly these are in sync."""
    return _until(f"the ISR is {brokers}", lambda stage: stage.partition().isr == frozenset(brokers))


def until_leader(broker: int) -> Step:
    """This broker leads and says so itself."""

    def met(stage: Stage) -> bool:
        return stage.partition().leader == broker and _answers_as_leader(stage, broker)

    return _until(f"{broker} leads", met)


def until_offline() -> Step:
    """Nobody leads."""
    return _until("nobody leads", lambda stage: stage.partition().leader is None)


def until_end(end: int, *brokers: int) -> Step:
    """The replicas on these brokers end there."""
    return _until(f"{brokers} end at {end}", lambda stage: all(stage.log_end(b) == end for b in brokers))


def until_replicas(*brokers: int) -> Step:
    """A reassignment is done: these are the replicas, in this order."""

    def met(stage: Stage) -> bool:
        return stage.partition().replicas == brokers and stage.reassignment() == ([], [])

    return _until(f"the replicas are {brokers}", met)


# What is asked


def look() -> Step:
    """Everything that can be seen of the partition now."""

    def act(stage: Stage) -> Fields:
        stage.settle()
        stage.wait("followers know no epoch that their leader does not", lambda: _followers_agree(stage))
        seen = stage.partition()
        adding, removing = stage.reassignment()
        held: dict[str, Value] = {}
        for broker in sorted(set(stage.running()) & set(seen.replicas)):
            held[f"log end of {broker}"] = end = stage.log_end(broker)
            if isinstance(end, int):
                held[f"log of {broker}"] = stage.log(broker)
                held[f"epochs of {broker}"] = stage.epochs(broker, seen.leader_epoch)
        return {
            "leader": seen.leader,
            "leader epoch": seen.leader_epoch,
            "ISR": sorted(seen.isr),
            "ELR": sorted(seen.elr),
            "last known ELR": list(seen.last_known_elr),
            "replicas": list(seen.replicas),
            "adding": adding,
            "removing": removing,
            **held,
        }

    return Step("look", act)


def _followers_agree(stage: Stage) -> bool:
    """Whether each running member of the ISR has fetched from who leads now, and dropped what it alone knew."""
    seen, running = stage.partition(), stage.running()
    if seen.leader is None or seen.leader not in running:
        return True
    led = stage.epochs(seen.leader, seen.leader_epoch)
    followers = [stage.epochs(broker, seen.leader_epoch) for broker in seen.isr & set(running)]
    return all(
        told in (by_leader, f"{epoch}: {BEYOND}")
        for each in followers
        for epoch, (told, by_leader) in enumerate(zip(each, led, strict=True))
    )


def ask_end(broker: int, *, epoch: int = ANY_EPOCH, debugging: bool = False) -> Step:
    """ListOffsets LATEST to that broker under a leader epoch, as consumer or as debugging consumer."""

    def act(stage: Stage) -> Fields:
        stage.settle()
        error, offset, answered_under = stage.offsets(broker, epoch, debugging)
        return {"error": error, "offset": offset, "leader epoch": answered_under}

    who = "debugging consumer" if debugging else "consumer"
    under = "any epoch" if epoch == ANY_EPOCH else f"epoch {epoch}"
    return Step(f"ask {broker} for the end as {who} under {under}", act)


def until_watermark(broker: int, offset: int) -> Step:
    """A consumer may read up to there."""
    return _until(
        f"{broker} lets consumers read to {offset}", lambda s: s.offsets(broker, ANY_EPOCH, False)[1] == offset
    )


def elect_unclean(topic: str = TOPIC) -> Step:
    """ElectLeaders UNCLEAN of partition 0."""
    return Step(f"elect {topic} unclean", lambda stage: {"error": stage.elect(False, topic)})


def elect_preferred(topic: str = TOPIC) -> Step:
    """ElectLeaders PREFERRED of partition 0."""
    return Step(f"elect {topic} preferred", lambda stage: {"error": stage.elect(True, topic)})


def reassign(*replicas: int, same_count: bool = False) -> Step:
    """AlterPartitionReassignments: other replicas, or another order. `same_count` needs a release with version 1."""
    text = f"assign to {replicas}{', as many as before' if same_count else ''}"
    return Step(text, lambda stage: {"error": stage.reassign(replicas, same_count)})


def cancel_reassignment() -> Step:
    """AlterPartitionReassignments without replicas."""
    return Step("cancel the reassignment", lambda stage: {"error": stage.reassign(None, False)})


def _answers_as_leader(stage: Stage, broker: int) -> bool:
    """OFFSET_NOT_AVAILABLE is a leader's answer too (KAFKA-15583)."""
    return stage.offsets(broker, ANY_EPOCH, False)[0] in ("NONE", "OFFSET_NOT_AVAILABLE")


def _each(text: str, brokers: Sequence[int], act: Callable[[Stage], Callable[[int], None]]) -> Step:
    def acts(stage: Stage) -> None:
        for broker in brokers:
            act(stage)(broker)

    return Step(f"{text} {', '.join(map(str, brokers))}", acts, to_brokers=True)


def _until(what: str, met: Callable[[Stage], bool]) -> Step:
    return Step(f"until {what}", lambda stage: stage.wait(what, lambda: met(stage)))
