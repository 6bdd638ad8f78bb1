"""Lies about what an election costs, and about logs whose ends brokers tell wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafka_recovery.domain.evidence import PartitionEvidence, Replica, WitnessedEnd
from kafka_recovery.domain.ids import Offset
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Lack
from kafka_recovery.domain.reason import Reason
from kafka_recovery.simulator.histories.facts import Misreported
from kafka_recovery.simulator.histories.judging.readings import CONTRADICTS
from simulation.lies.honest import FORKED, ON_DISK, OVERTHROWING, PLAIN, WRONG
from simulation.lies.liars import FIRST, Liar, Tell, lies, together

LOSSLESS, BOUNDED = LossClass.LOSSLESS, LossClass.BOUNDED


def _believes(off: int) -> Tell:
    """Broker 3 tells its log end wrong by so many records, and its epochs say where it ends."""

    def tell(it: Liar) -> None:
        it.story.misreported.append(Misreported(20.0, 3, off))
        it.tells(
            it.story.looked,
            copies=lambda look: {key: copy._replace(end=copy.end - off) for key, copy in look.copies.items()},
        )

    return tell


def _said_to_contradict(seen: PartitionEvidence) -> tuple[Replica, ...]:
    why = Reason(CONTRADICTS, "so they say")
    return tuple(replace(replica, problem=why) for replica in seen.replicas)


def _with_logs(**values: Any) -> Callable[[PartitionEvidence], tuple[Replica, ...]]:
    """All copies of a partition, each with a log that is another one."""
    return lambda seen: tuple(
        replace(copy, log=replace(copy.log, **values)) if copy.log else copy for copy in seen.replicas
    )


LIES = (
    *lies("loss_stays_in_its_class", PLAIN, {
        "lossless where acknowledged records are lost": lambda it: it.costs(loss_class=LOSSLESS, at_most=0, proof="so"),
        "a bound that is too low": lambda it: it.costs(loss_class=BOUNDED, at_most=1, proof="so"),
        "lossless without a number": lambda it: it.costs(loss_class=LOSSLESS, at_most=None, proof="so"),
    }),
    *lies("loss_stays_in_its_class", OVERTHROWING, {
        "what the old leader still acknowledges": lambda it: it.costs(loss_class=LOSSLESS, at_most=0, proof="so"),
    }),
    *lies("class_has_its_number", PLAIN, {
        "lossless, and no number": lambda it: it.costs(loss_class=LOSSLESS, at_least=0, at_most=None),
        "a bound without a number": lambda it: it.costs(loss_class=BOUNDED, at_most=None),
        "a number for what is unknown": lambda it: it.costs(at_most=7),
        "more at least than at most": lambda it: it.costs(loss_class=BOUNDED, at_least=3, at_most=2),
        "an election that costs nobody knows what": lambda it: it.decides(loss=None),
    }),
    *lies("class_is_proven", PLAIN, {
        "lossless without a proof": lambda it: it.costs(loss_class=LOSSLESS, at_most=0, proof=""),
        "a bound without a proof": lambda it: it.costs(loss_class=BOUNDED, at_most=9, proof=""),
    }),
    *lies("class_is_proven", FORKED, {
        "a proof without any history": lambda it: it.costs(loss_class=LOSSLESS, at_most=0, proof="so"),
    }),
    *lies("at_least_is_lost", PLAIN, {
        "one record too many": lambda it: it.costs(at_least=lambda loss: loss.at_least + 1),
        "nothing at all": lambda it: it.costs(at_least=0),
        "more than was ever committed": together(
            lambda it: it.plans_on(witnessed_ends=(WitnessedEnd("watcher", Offset(900)),)),
            lambda it: it.costs(at_least=900),
        ),
    }),
    *lies("lacks_are_true", FORKED, {
        "what is lacking is not told": lambda it: it.costs(lacks=()),
        "one record too many": lambda it: it.costs(
            lacks=lambda loss: tuple(replace(lack, records=lack.records + 1) for lack in loss.lacks)
        ),
        "from another offset on": lambda it: it.costs(
            lacks=lambda loss: tuple(replace(lack, from_offset=Offset(0)) for lack in loss.lacks)
        ),
    }),
    *lies("who_contradicts_itself_is_named", PLAIN, {
        "twenty records too many": _believes(20),
        "one record too many": _believes(1),
        "three records too few": _believes(-3),
    }),
    *lies("nobody_else_is_named", WRONG, {
        "who has told the truth": lambda it: it.hides(it.story.misreported, lambda told: True),
        "another one": lambda it: it.tells(it.story.misreported, broker=3),
    }),
    *lies("nobody_else_is_named", PLAIN, {
        "everybody": lambda it: it.looks(replicas=_said_to_contradict),
        "everybody, long after an answer was garbled": together(
            lambda it: it.looks(replicas=_said_to_contradict),
            lambda it: setattr(it.story, "struck", {"garbled": [0.0]}),
        ),
    }),
    *lies("disks_are_as_told", ON_DISK, {
        "a volume with room is full": lambda it: it.looks(replicas=_with_logs(almost_full=True)),
        "a full volume has room": lambda it: it.looks(replicas=_with_logs(almost_full=False)),
        "all copies begin at once on their disks": lambda it: it.looks(replicas=_with_logs(local_start=Offset(0))),
        "the volume was filled later": lambda it: it.tells(it.story.filled, at=900.0),
    }),
    *lies("lacks_are_true", PLAIN, {
        "what nobody holds": lambda it: it.decides(
            FIRST, loss=lambda decision: replace(decision.loss, lacks=(Lack(decision.order[1], Offset(0), 2),))
        ),
    }),
)  # fmt: skip
