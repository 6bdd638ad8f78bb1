"""Two WatchedClusters with one Kafka: the older acts, the younger says why it does not, whoever is met first."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafka_recovery.cluster.sockets import Address
from kafka_recovery.kube.clusters.cant_open import CantOpen
from kafka_recovery.kube.clusters.same_kafka import SameKafka
from kafka_recovery.kube.resources.kinds import Meta, WatchedCluster
from unit.kube.kubernetes_in_memory import NOON

OLD, YOUNG = ("kafka", "prod"), ("payments", "copy-of-prod")


def cluster(
    key: tuple[str, str], age: int = 0, cluster_id: str = "abc", uid: str = "uid", *, confirmed: bool = True
) -> WatchedCluster:
    meta = Meta(*key, uid, 1, "1", NOON - timedelta(days=age))
    return WatchedCluster(meta, cluster_id, (Address("kafka", 9092),), confirmed=confirmed)


def acts(same: SameKafka, key: tuple[str, str]) -> bool:
    try:
        same.let_act(key)
    except CantOpen as why:
        return why.reason.code != "DuplicateCluster"
    return True


@pytest.fixture
def two() -> SameKafka:
    """The younger was met first, as may be after a restart."""
    same = SameKafka()
    same.met(cluster(YOUNG))
    same.met(cluster(OLD, age=1))
    return same


def test_a_cluster_alone_acts_and_nothing_is_said_of_it() -> None:
    same = SameKafka()

    assert same.met(cluster(OLD)) == set()
    assert (acts(same, OLD), same.doubled(OLD)) == (True, None)


def test_the_older_acts_and_each_of_them_names_the_other(two: SameKafka) -> None:
    assert (acts(two, OLD), acts(two, YOUNG)) == (True, False)
    said = two.doubled(OLD)
    assert (said and said.code) == "DuplicateCluster"
    assert "WatchedCluster payments/copy-of-prod has the same clusterId abc" in str(said)
    with pytest.raises(CantOpen, match="WatchedCluster kafka/prod, which is older, has the same clusterId abc"):
        two.let_act(YOUNG)


def test_who_only_names_another_s_kafka_is_in_nobody_s_way_however_old_it_is() -> None:
    same = SameKafka()
    same.met(cluster(YOUNG))
    same.met(cluster(OLD, age=1, confirmed=False))

    assert (acts(same, OLD), acts(same, YOUNG)) == (False, True)
    assert (same.doubled(YOUNG), same.only_looks(YOUNG)) == (None, None)
    with pytest.raises(CantOpen, match="WatchedCluster payments/copy-of-prod, which was seen to lead there, has"):
        same.let_act(OLD)


def test_of_two_of_which_none_was_confirmed_both_only_look_until_one_is(two: SameKafka) -> None:
    two.met(cluster(OLD, age=1, confirmed=False))
    two.met(cluster(YOUNG, confirmed=False))

    assert (acts(two, OLD), acts(two, YOUNG)) == (True, True), "else none ever would be"
    told = two.only_looks(OLD)
    assert "nobody is elected before the Kafka behind this one said it" in str(told)
    assert two.only_looks(YOUNG)

    assert set(two.met(cluster(YOUNG))) == {OLD}
    assert (acts(two, OLD), two.only_looks(YOUNG)) == (False, None)
    two.met(cluster(OLD, age=1))
    assert (acts(two, OLD), acts(two, YOUNG)) == (True, False), "both are real, and the older acts"


def test_one_that_is_alone_acts_before_it_was_confirmed() -> None:
    same = SameKafka()
    same.met(cluster(OLD, confirmed=False))

    assert (acts(same, OLD), same.only_looks(OLD)) == (True, None)


def test_two_of_the_same_second_are_told_apart_by_name() -> None:
    same = SameKafka()
    same.met(cluster(("b", "prod")))
    same.met(cluster(("a", "prod")))

    assert (acts(same, ("a", "prod")), acts(same, ("b", "prod"))) == (True, False)


def test_of_three_the_oldest_acts_and_counts_the_others(two: SameKafka) -> None:
    two.met(cluster(("kafka", "third"), age=2))

    assert [acts(two, key) for key in (("kafka", "third"), OLD, YOUNG)] == [True, False, False]
    said = two.doubled(("kafka", "third"))
    assert "kafka/prod (and 1 more) has" in str(said)


def test_the_others_are_looked_at_again_when_one_comes_and_when_it_goes(two: SameKafka) -> None:
    third = ("kafka", "third")

    assert set(two.met(cluster(third))) == {OLD, YOUNG}
    assert two.met(cluster(third)) == (), "nothing is new: two that wake each other would never rest"
    assert set(two.forget(OLD)) == {YOUNG, third}
    assert two.forget(OLD) == ()
    assert acts(two, third) is True, "payments/copy-of-prod has its age, and a later name"


def test_one_made_anew_with_another_id_is_looked_at_by_those_it_leaves_and_those_it_joins(two: SameKafka) -> None:
    two.met(cluster(("kafka", "dev"), cluster_id="xyz"))

    assert set(two.met(cluster(OLD, cluster_id="xyz", uid="another"))) == {YOUNG, ("kafka", "dev")}
    assert acts(two, YOUNG) is True
