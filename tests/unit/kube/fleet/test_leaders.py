"""Leaders in a FleetRanking's status: what was chosen comes out again, and text that is no such thing is refused."""

from __future__ import annotations

import base64
import gzip
import random
import tracemalloc
from collections.abc import Callable, Mapping

import pytest

from kafka_recovery.domain.election import Ranked
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.fleet.leaders import LONGEST, TooManyLeaders, packed, unpacked


def chosen(topic: str, partitions: int, broker: int = 1) -> Mapping[TopicPartition, Ranked]:
    one = Ranked(BrokerId(broker), LeaderEpoch(7), TopicId(f"id-of-{topic}"))
    return {TopicPartition(topic, number): one for number in range(partitions)}


def as_text(raw: bytes) -> str:
    return base64.b64encode(gzip.compress(raw)).decode()


def test_what_was_chosen_comes_out_again_also_of_a_cluster_in_which_nobody_was() -> None:
    leaders = {"one": {**chosen("orders", 3), **chosen("payments", 2, broker=4)}, "two": {}}

    assert unpacked(packed(leaders), "run") == leaders


def test_an_incident_of_a_hundred_thousand_partitions_fits() -> None:
    ids = [TopicId(base64.urlsafe_b64encode(random.Random(topic).randbytes(16)).decode()[:22]) for topic in range(100)]
    leaders = {
        f"cluster-{cluster}": {
            TopicPartition(f"topic-{topic}", number): Ranked(
                BrokerId((number * 7 + topic) % 12), LeaderEpoch(topic % 50), id
            )
            for topic, id in enumerate(ids)
            for number in range(50)
        }
        for cluster in range(20)
    }

    assert len(packed(leaders)) <= LONGEST


def test_more_than_a_status_can_hold_says_how_many_and_the_way_out() -> None:
    with pytest.raises(TooManyLeaders, match=r"it chose 400000 leaders, .* ask for fewer clusters at a time"):
        packed({"one": chosen("orders", 400_000)})


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: "", "cut off"),
        (lambda: "no base64!", "its leaders can't be read"),
        (lambda: base64.b64encode(b"no gzip").decode(), "its leaders can't be read"),
        (lambda: as_text(b" " * (64 << 20)), "more than 4194304 bytes"),
        (lambda: packed({"one": chosen("orders", 3)})[:40], "its leaders"),
        (lambda: as_text(b"[]"), "document"),
        (lambda: as_text(b'{"clusters":{"one":{"orders":{"x":[[0,1]]}}}}'), "clusters.one.orders"),
        (lambda: as_text(b'{"clusters":{"one":{"orders":{"x":[[0,"1",2]]}}}}'), "clusters.one.orders"),
        (lambda: as_text(b'{"clusters":{},"more":1}'), "more"),
        (lambda: "é", "its leaders can't be read"),
        (lambda: as_text(b'{"clusters":{"one":{"orders":{"x":[[0,-1,2]]}}}}'), "clusters.one.orders"),
        (lambda: as_text(b'{"clusters":{"one":{"orders":{"x":[[0,%s,2]]}}}}' % (b"9" * 4000)), "clusters.one.orders"),
    ],
    ids=[
        "none",
        "no base64",
        "no gzip",
        "a bomb",
        "cut",
        "a list",
        "no epoch",
        "text",
        "a field too many",
        "not ASCII",
        "a negative broker",
        "a broker that no Kafka has",
    ],
)
def test_text_that_holds_no_leaders_is_refused_and_names_its_run(made: Callable[[], str], says: str) -> None:
    """Made by the test: each process of a run collects this file, and a bomb takes long to pack."""
    with pytest.raises(InvalidDocument, match="nightly-1") as refused:
        unpacked(made(), "nightly-1")

    assert says in str(refused.value)


MEBIBYTE = 1 << 20


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b'{"clusters":{%s}}' % b",".join([b'"a":0'] * 600_000), "clusters.a: "),
        (b'{"clusters":{"one":{%s}}}' % b",".join([b'"a":0'] * 600_000), "clusters.one.a: "),
        (b'{"clusters":{},%s}' % b",".join([b'"a":0'] * 600_000), "600000 fields are wrong"),
        (b'{"clusters":{"%s":0}}' % (b"k" * 3_000_000), "clusters.kkk"),
    ],
    ids=["clusters", "topics", "fields", "a long key"],
)
def test_text_in_which_everything_is_wrong_gives_a_short_message(raw: bytes, says: str) -> None:
    """Whoever may write a FleetRanking's status packs it into 8 KB: a message of 50 MB, by way of 700 MB of memory."""
    text = as_text(raw)
    assert len(text) < LONGEST
    tracemalloc.start()
    try:
        with pytest.raises(InvalidDocument) as refused:
            unpacked(text, "nightly-1")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert says in str(refused.value)
    assert len(str(refused.value)) < 1000
    assert most < 64 * MEBIBYTE
