"""Lies about what an election costs."""

from __future__ import annotations

from dataclasses import replace

from kafka_recovery.domain.evidence import WitnessedEnd
from kafka_recovery.domain.ids import Offset
from kafka_recovery.domain.plan import Lack, LossClass
from simulation.lies.honest import FORKED, OVERTHROWING, PLAIN
from simulation.lies.liars import FIRST, lies, together

LOSSLESS, BOUNDED, UNKNOWN = LossClass.LOSSLESS, LossClass.BOUNDED, LossClass.UNKNOWN

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
    *lies("lacks_are_true", PLAIN, {
        "what nobody holds": lambda it: it.decides(
            FIRST, loss=lambda decision: replace(decision.loss, lacks=(Lack(decision.order[1], Offset(0), 2),))
        ),
    }),
)  # fmt: skip
