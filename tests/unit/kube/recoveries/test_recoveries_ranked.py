"""A recovery that names a FleetRanking: a person approves, what was ranked is elected, and no guard is beaten."""

from __future__ import annotations

from kafka_recovery.domain.election import Ranked
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicId
from kafka_recovery.kube.fleet.leaders import packed
from kafka_recovery.kube.resources.kinds import POLICIES, RANKINGS, RECOVERIES, read_policy
from unit.kube.fleet.asked import run_of
from unit.kube.journal.journals import NAME
from unit.kube.office import Office
from unit.kube.specs import RANKING
from unit.recovery.brokers import CLUSTER
from unit.recovery.world import ORDERS

BEST, BEHIND = 2, 3
"""Of the brokers that live."""


def ranked(office: Office, leader: int) -> None:
    """The recovery names a ranking that chose this leader for the outage that lasts."""
    office.api.change(RECOVERIES, NAME, rankingRef={"name": "nightly"})
    chose(office, leader)
    office.open()


def chose(office: Office, leader: int) -> None:
    """There is a ranking that has chosen this leader for the outage that lasts."""
    held = office.world.kafka.partitions[ORDERS]
    digest = read_policy(office.api.objects[POLICIES.path("kafka", "rules")]).digest
    leaders = packed({CLUSTER: {ORDERS: Ranked(BrokerId(leader), LeaderEpoch(held.epoch), held.topic_id)}})
    office.api.put(RANKINGS, "nightly", RANKING)
    run = run_of("s3://fleet/results/nightly-1", "cd" * 32, policyDigest=digest, leaders=leaders)
    office.api.objects[RANKINGS.path("kafka", "nightly")]["status"] = {"runs": [run]}


async def test_what_was_ranked_is_elected_once_a_person_says_yes(office: Office) -> None:
    ranked(office, BEHIND)
    office.see()
    waiting = await office.until("AwaitingApproval")
    office.answer(waiting["plan"]["digest"])
    status = await office.until("Recovered")

    assert office.world.kafka.partitions[ORDERS].leader == BEHIND
    assert status["ranking"] == {"run": "nightly-1", "checksum": status["ranking"]["checksum"], "leaders": 1}


async def test_what_was_ranked_is_not_elected_in_a_topic_that_was_made_anew(office: Office) -> None:
    """It has the same name, and its epochs begin anew: by them alone it could be the topic that was ranked."""
    ranked(office, BEHIND)
    held = office.world.kafka.partitions[ORDERS]
    held.topic_id = TopicId("id-of-another-one")
    office.see()
    waiting = await office.until("AwaitingApproval")
    office.answer(waiting["plan"]["digest"])
    status = await office.until("Recovered")

    assert held.leader == BEST, "as the policy orders"
    assert status["ranking"]["leaders"] == 0


async def test_a_ranked_leader_beats_no_guard(office: Office) -> None:
    ranked(office, BEHIND)
    office.world.kafka.nodes[BEHIND].fenced = True
    office.see()
    status = await office.until("DesignatedLeaderRejected")

    assert status["refusals"][0]["message"].startswith(
        f"broker {BEHIND} was chosen by the fleet's ranking but may not lead"
    )
    assert status["refusals"][0]["message"].endswith("; without rankingRef the policy chooses"), "the way out"
    assert office.world.kafka.partitions[ORDERS].leader is None


async def test_it_waits_for_a_ranking_that_is_not_there_yet(office: Office) -> None:
    office.api.change(RECOVERIES, NAME, rankingRef={"name": "nightly"})
    office.takes_up()
    await office.until("InvalidReference")
    assert office.message().startswith("there is no FleetRanking nightly")
    stalled = office.condition("Stalled")[0]
    ranked(office, BEST)
    await office.until("AwaitingApproval")

    assert stalled == "True", "somebody has to create it"


async def test_a_choice_for_an_outage_that_is_over_is_none(office: Office) -> None:
    ranked(office, BEHIND)
    office.world.kafka.partitions[ORDERS].epoch += 2  # somebody led in between
    office.see()
    waiting = await office.until("AwaitingApproval")
    office.answer(waiting["plan"]["digest"])
    status = await office.until("Recovered")

    assert office.world.kafka.partitions[ORDERS].leader == BEST
    assert status["ranking"]["leaders"] == 0
