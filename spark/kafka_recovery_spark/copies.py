"""Comparing two copies of a partition as columns; what the words mean is told in `decision.logs`.

A log is a struct of `start`, `end` and `epochs`. Offsets are not negative, or reading the evidence would have been
refused: so no difference of two overflows.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """The body with the value worked out once, however often it is used: Spark has no other way to bind a name."""
    return F.get(F.transform(F.array(value), body), F.lit(0))


def common_point(one: Column, other: Column) -> Column:
    """The largest offset up to which both logs are provably the same; null if a vector is unknown."""
    ours, theirs = one["epochs"], other["epochs"]
    empty = (one["start"] == one["end"]) & (other["start"] == other["end"]) & (one["end"] == other["start"])
    known = (F.size(ours) > 0) | empty
    same = F.when(known, F.least(one["end"], other["end"])).otherwise(_nothing())
    shared = F.coalesce(let(_last_shared(ours, theirs), lambda epoch: _shared_end(epoch, one, other)), _nothing())
    return F.when(ours == theirs, same).when(ours != theirs, shared)


def _nothing() -> Column:
    return F.lit(0).cast("bigint")


def _last_shared(ours: Column, theirs: Column) -> Column:
    """The largest epoch that both vectors know; null if there is none."""
    epochs = [F.transform(vector, lambda entry: entry["epoch"]) for vector in (ours, theirs)]
    return F.array_max(F.array_intersect(*epochs))


def _shared_end(epoch: Column, one: Column, other: Column) -> Column:
    """Where an epoch that both logs know ends in the shorter one (KIP-101)."""
    return F.when(epoch.isNotNull(), F.least(_end_of(epoch, one), _end_of(epoch, other)))


def _end_of(epoch: Column, log: Column) -> Column:
    later = F.filter(log["epochs"], lambda entry: entry["epoch"] > epoch)
    return F.least(log["end"], F.array_min(F.transform(later, lambda entry: entry["start"])))


def equal(one: Column, other: Column, common: Column) -> Column:
    """Whether both logs, the same up to `common`, provably hold the same records; false where it can't be known."""
    shared = (one["end"] == other["end"]) & (one["start"] == other["start"]) & (common == one["end"])
    written = F.when(one["epochs"] == other["epochs"], F.lit(True)).otherwise(_written(one) == _written(other))
    return F.when(shared, written).otherwise(F.lit(False))


def interchangeable(one: Column, other: Column, common: Column) -> Column:
    """Whether these are equal logs that begin at one offset on their disks, and have room there or do not, alike."""
    as_on_disk = one["local_start"].eqNullSafe(other["local_start"]) & (one["almost_full"] == other["almost_full"])
    return as_on_disk & equal(one, other, common)


def _written(log: Column) -> Column:
    """The entries that hold records which are still there."""
    epochs = log["epochs"]
    ends = F.transform(
        epochs,
        lambda entry, place: F.struct(
            entry["epoch"].alias("epoch"),
            F.greatest(entry["start"], log["start"]).alias("start"),
            F.least(F.get(epochs, place + 1)["start"], log["end"]).alias("end"),
        ),
    )
    held = F.filter(ends, lambda entry: entry["start"] < entry["end"])
    return F.transform(held, lambda entry: F.struct(entry["epoch"], entry["start"]))


def held(chosen: Column, other: Column, common: Column) -> Column:
    """How many offsets of the other log the chosen one may hold, both being the same up to `common`.

    If a vector is unknown, and `common` null, all that are not certainly lacking: those inside of the chosen log.
    """
    until = F.coalesce(common, F.least(chosen["end"], other["end"]))
    return F.greatest(until - F.greatest(chosen["start"], other["start"]), _nothing())


def records_lacking(other: Column) -> Column:
    """How many offsets of the other log, compared already, the chosen one does not hold."""
    return other["end"] - other["start"] - other["held"]


def first_lacking(chosen: Column, other: Column) -> Column:
    """The first of them."""
    begins_late = (chosen["start"] > other["start"]) | (other["held"] == 0)
    common = F.coalesce(other["common"], F.least(chosen["end"], other["end"]))
    return F.when(begins_late, other["start"]).otherwise(common)
