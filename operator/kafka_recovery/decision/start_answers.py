"""What follows from each answer to whether a broker that is away can be started, with its disk named. Words only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from kafka_recovery.decision import pods
from kafka_recovery.decision.alike import named
from kafka_recovery.decision.kubectl import Kubectl
from kafka_recovery.decision.pods import SILENT_BROKER
from kafka_recovery.decision.returns import listed_brokers, named_brokers
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.pods import BrokerPod

_NAMED = 4
"""So many brokers that hold records are named; the others are counted."""

LOST = "No, its disk is lost for good, not only detached"
_DOUBTS = "its machine may have crashed, or is dead, or its volume was detached by force or restored"


def unknown(start: str, otherwise: str) -> Iterator[tuple[str, str]]:
    nothing = f"{start}, approve nothing" if otherwise else start
    yield "Nobody knows yet", f"{nothing}: look at that disk (how: {SILENT_BROKER})."


def repaired(broker: BrokerId, its_own: str, elected: str, crashed: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    yield (
        "Yes",
        "repair it (mount, permissions, room; delete no file; keep it in log.dirs), see its directories are there, "
        f"{its_own}restart broker {broker}, wait. {elected}",
    )
    yield "Yes, but files were lost or repaired on it, or may have been", crashed("restart {}")


def bound(seen: Sequence[BrokerPod], at: datetime, kubectl: Kubectl) -> str:
    """What has to be, where its claim is as young as the incident, and leads to another disk; empty: it is not."""
    if not any(pods.dangers(seen, at)):
        return ""
    return f"Yes, its OLD volume is found and whole, and its claim is bound to it ({kubectl.line('get pvc')})"


def started(bound: str, whole: str, crashed: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """`bound`: what has to be before it is on its own disk; empty: it is."""
    yield bound or "Yes, its machine did not crash (a killed process is no crash)", whole
    doubts = "The same, but its machine may have crashed" if bound else f"Yes, but {_DOUBTS}"
    yield doubts, crashed("start {} on its disk, anywhere")


def unreached(its_own: str, otherwise: str) -> Iterator[tuple[str, str]]:
    nothing = " Approve nothing: clients" if otherwise else " Clients"
    yield (
        "It runs, but can't be reached",
        f"{_FIRST if its_own else ''}repair its network, and wait.{nothing} may still write to it.",
    )


_FIRST = "first copy the same, then "


def led_by_now(broker: BrokerId, led: Sequence[PartitionEvidence]) -> str:
    """What another one leads: joining it, the broker deletes what that leader lacks, started or only reached again."""
    there = sorted(each.id for each in led if broker in each.assignment and broker != each.leader)
    unasked = "" if all(each.leader is not None for each in led) else "UNASKED: "  # else it has no leader, a line above
    led_now = f"{unasked}another one leads there by now"
    return f"first copy its directories of {named(there)} ({led_now}), then " if there else ""


def crashed(
    broker: BrokerId,
    twins: Sequence[BrokerId],
    holding: Sequence[BrokerId],
    off: Sequence[BrokerId],
    its_own: bool,
    start: str,
    *,
    pod: bool = False,
) -> str:
    """`twins`: whom Kafka can elect as well, of whom one may have lost nothing. `holding`: who answer with records.

    `off`: whose disks may hold some. `its_own`: it has directories that are to be copied, whether it crashed or not.
    `pod`: it has one, which starts by itself.
    """
    asked = f"ask the same of {named_brokers(twins, 'or')} before you start either; " if twins else ""
    if not holding and not off:
        return f"{asked}{_FIRST if its_own else ''}{start.format('it')}. No other copy holds a record."
    few = listed_brokers if len(holding) <= _NAMED else named_brokers
    copied = [f"FROM {few(holding)}"] if holding else []
    if off:
        disk, they = ("disk", "that one starts or is") if len(off) == 1 else ("disks", "those start or are")
        copied.append(f"off the {disk} of {named_brokers(off)}, before {they} reached again")
    told = f"{'the same, and those' if its_own else 'the directories'} {', and '.join(copied)}"
    delete = "that one deletes" if len(holding) + len(off) == 1 else "they delete"
    its = f"broker {broker}" if off else "it"  # beside another one that is off nobody knows which one "it" is
    keep = "keep its Pod off, then " if pod else ""
    return f"{asked}first {keep}copy {told}: {delete} what {its} lost. Then {start.format(its)}."
