"""What is better than electing: which broker to look at first, and where nothing better can come back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from kafka_recovery.decision.card import at_the_prompt, waited_for
from kafka_recovery.decision.planner import decide
from kafka_recovery.decision.waiting import asked_about_all, elect_or_wait
from kafka_recovery.domain.attestation import Attestation, Witness
from kafka_recovery.domain.evidence import MinInsyncReplicas, Replica, ReplicaLog
from kafka_recovery.domain.history import HistoryStep, PartitionHistory
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Loss, Plan, Verdict
from kafka_recovery.domain.policy import Approval, EvidenceRules, Policy, RequiredAnswers, Rule, TopicSelector
from kafka_recovery.domain.reason import Reason
from unit.decision.incident import NOON, ORDERS, Held, broker, evidence, history, log, partition, step
from unit.decision.incident import dead as away_from_all

ANY = Policy((Rule("any", evidence=EvidenceRules(required_answers=RequiredAnswers.ANY)),))


def dead(broker: int) -> Replica:
    return Replica(BrokerId(broker), None, Reason("BrokerUnreachable", "connection refused"))


def planned(*isrs: tuple[int, ...], away: tuple[int, ...] = (1,), proven: int = 0, **facts: Any) -> Plan:
    """A plan for one partition of each ISR on brokers 1 to 5; the first ones are `proven` Lossless."""
    names = [TopicPartition("orders", number) for number in range(len(isrs))]
    elected = {broker: dead(broker) if broker == 1 else log(10) for broker in range(1, 6)}
    plan = decide(evidence(*(partition(elected, id=id) for id in names)), ANY)
    assert len(plan.elections) == len(isrs), plan.decisions
    held = {broker: dead(broker) if broker in away else log(10) for broker in range(1, 6)}
    seen = [partition(held, id=id, isr=isr, **facts) for id, isr in zip(names, isrs, strict=True)]
    lossless = Loss(LossClass.LOSSLESS, at_most=0, proof="it was read so")
    decisions = [
        replace(each, loss=lossless) if number < proven else each for number, each in enumerate(plan.decisions)
    ]
    return replace(plan, evidence=evidence(*seen), decisions=tuple(decisions))


def without_disk(id: int, plan: Plan) -> Plan:
    """Somebody attested that the disk of this broker is lost."""
    gone = Attestation(BrokerId(id), Witness.DISK_LOST, "ann", "INC-7", NOON, NOON + timedelta(hours=1))
    cluster = replace(plan.evidence.cluster, attestations=(gone,))
    return replace(plan, evidence=replace(plan.evidence, cluster=cluster))


NEVER = (
    "NEVER start a broker of these partitions, or let anything start it, on an empty or replaced disk while they have "
    "no leader: Kafka can elect it, and the others then delete ALL that they hold."
)
LATER = (
    "Once another broker leads, and before you start one that was away, copy its directories: on joining, it deletes "
    "what the leader lacks."
)
DOUBTFUL = "Yes, but its machine may have crashed, or is dead, or its volume was detached by force or restored: "
CRASHED = (
    f"{DOUBTFUL}first copy the directories FROM broker 2, 3, 4 and 5: they delete what it lost. Then start it "
    "on its disk, anywhere."
)
UNREACHED = (
    "It runs, but can't be reached: repair its network, and wait. Approve nothing: clients may still write to it."
)
LOOK = "look at that disk (how: docs/how-to/silent-broker.md)."
UNKNOWN = f"Nobody knows yet: start nothing, approve nothing: {LOOK}"
WHOLE = "Yes, its machine did not crash (a killed process is no crash): "
LOST = "No, its disk is lost for good, not only detached: "
APPROVE = "do BEFORE YOU APPROVE, then approve this plan."


def told(plan: Plan) -> list[str]:
    """What is said, in running text, but for what holds whatever is answered."""
    return list(replace(elect_or_wait(plan), never=()).sentences())


def test_what_must_never_be_done_is_said_before_anything_that_may_be() -> None:
    said = list(elect_or_wait(planned((1,))).sentences())
    assert said[:3] == [NEVER, LATER, "Can broker 1 be started with its own, intact disk?"]


def test_where_the_disks_of_all_that_are_away_are_lost_nobody_is_told_to_copy_them() -> None:
    assert elect_or_wait(without_disk(1, planned((1,)))).never == (NEVER,)


def test_what_must_never_be_done_is_said_where_it_is_so_of_one_partition_only() -> None:
    assert elect_or_wait(planned((1,), (3,))).never == (NEVER, LATER)


def test_a_dead_member_that_kafka_would_elect_is_to_be_looked_at_before_anybody_elects() -> None:
    assert told(planned((1,))) == [
        "Can broker 1 be started with its own, intact disk?",
        UNKNOWN,
        f"{WHOLE}start it, wait. Kafka can elect it; nothing acknowledged with acks=all is lost.",
        CRASHED,
        UNREACHED,
        f"{LOST}{APPROVE}",
    ]


def test_what_another_broker_leads_already_is_copied_before_the_dead_one_is_started() -> None:
    """It left that partition with records of its own, perhaps; on joining it deletes them."""
    plan = planned((1,))
    led = partition({1: dead(1), 2: log(10)}, id=TopicPartition("payments", 0), leader=BrokerId(2))
    plan = replace(plan, evidence=replace(plan.evidence, partitions=(*plan.evidence.partitions, led)))

    _, _, yes, crashed, unreached, _ = told(plan)

    assert yes.startswith(f"{WHOLE}first copy its directories of payments-0 (another one leads there by now), then st")
    assert crashed == CRASHED.replace("the directories FROM", "the same, and those FROM")
    joins = "it joins that leader as soon as it is reached again"
    assert unreached == UNREACHED.replace("repair", "first copy the same, then repair"), joins


def test_what_is_elected_unasked_is_led_by_another_before_anybody_has_answered() -> None:
    """It is proven to lose nothing, and begins at once."""
    plan = planned((1,), (1,), proven=1)
    first, asked = plan.decisions
    plan = replace(plan, decisions=(replace(first, approval=Approval.AUTO_LOSSLESS), asked))

    said = told(plan)
    assert any(
        f"{WHOLE}first copy its directories of orders-0 (UNASKED: another one leads there by now)" in s for s in said
    )
    assert not any(each.startswith("Waiting saves no") for each in said), "nobody is asked to wait"


def test_whom_everybody_is_asked_about_is_asked_about_whatever_is_proven() -> None:
    asked = asked_about_all(planned((1,), (1,), proven=1))
    assert all(each.needs_approval for each in asked.elections.values())


def test_of_a_plan_that_asks_nobody_no_approval_is_spoken_of() -> None:
    plan = planned((1,))
    plan = replace(plan, decisions=tuple(replace(each, approval=Approval.AUTO) for each in plan.decisions))
    assert f"{LOST}see what the plan says of each partition." in told(plan)
    assert f"Nobody knows yet: start nothing: {LOOK}" in told(plan)


def test_a_leader_that_a_person_named_is_to_be_named_no_more_before_anybody_approves() -> None:
    brokers = (away_from_all(1), broker(2), broker(3))
    seen = evidence(partition({1: dead(1), 2: log(20), 3: log(10)}), brokers=brokers)
    plan = decide(seen, ANY, waited=timedelta(hours=1), designated={ORDERS: BrokerId(3)})
    assert [each.leader for each in plan.elections.values()] == [BrokerId(3)]

    assert f"{LOST}plan again without naming broker 3, and read that plan" in " ".join(told(plan))


def test_an_empty_leader_is_approved_only_if_no_other_copy_is_left() -> None:
    brokers = (away_from_all(1), away_from_all(2), broker(3))
    plan = decide(
        evidence(partition({1: dead(1), 2: dead(2), 3: log(0)}), brokers=brokers), ANY, waited=timedelta(hours=1)
    )
    assert plan.elections

    said = " ".join(told(plan))
    assert (
        f"{LOST}start broker 2 with its own disk (Kafka does not elect it by itself), and read the next plan; approve "
        "only if both are lost."
    ) in said
    assert (
        f"{DOUBTFUL}first copy the directories off the disk of broker 2, before that one starts or is reached again: "
        "that one deletes what broker 1 lost. Then start broker 1 on its disk, anywhere."
    ) in said


def test_of_several_dead_brokers_the_one_comes_first_that_brings_back_most() -> None:
    _, question, _, yes, *_, no = told(planned((1,), (2,), (1, 2), (2,), (3,), away=(1, 2, 3)))
    assert question == "Can broker 2 be started with its own, intact disk?"
    assert "Kafka can elect it on 3 of 5 partitions; nothing" in yes
    assert yes.endswith(" Then ask the same of broker 1 and broker 3."), "they may have whole disks as well"
    assert no == (
        f"{LOST}approve nothing yet; ask the same of broker 1 (Kafka can elect it on 2 of 5 partitions) and broker 3 "
        "(Kafka can elect it on 1 of 5 partitions), then read the next plan. Only if all these disks are lost: "
        f"{APPROVE}"
    )


def test_where_one_disk_is_lost_a_broker_that_has_the_same_partitions_is_asked_about_before_anybody_approves() -> None:
    """Both were in sync on all of them, so that each alone brings all of them back."""
    _, _, _, _, crashed, *_, no = told(planned((1, 2), (1, 2), away=(1, 2)))
    assert crashed == (
        f"{DOUBTFUL}ask the same of broker 2 before you start either; first copy the directories FROM broker 3, 4 and "
        "5, and off the disk of broker 2, before that one starts or is reached again: they delete what broker 1 lost. "
        "Then start broker 1 on its disk, anywhere."
    )
    assert no.startswith(
        f"{LOST}approve nothing yet; ask the same of broker 2 (Kafka can elect it), then read the next plan. Only if "
        "both disks are lost: "
    )


def test_of_a_disk_that_was_attested_lost_nothing_is_asked_and_nothing_copied() -> None:
    assert told(without_disk(2, planned((1, 2), (1, 2), away=(1, 2)))) == [
        "Can broker 1 be started with its own, intact disk?",
        UNKNOWN,
        f"{WHOLE}start it, wait. Kafka can elect it; nothing acknowledged with acks=all is lost.",
        CRASHED.replace("broker 2, 3", "broker 3"),
        UNREACHED,
        f"{LOST}{APPROVE}",
    ], "nor are two brokers silent at once"


def test_brokers_that_are_not_named_are_counted() -> None:
    *_, no = told(planned((1,), (2,), (3,), (4,), away=(1, 2, 3, 4)))
    assert (
        "broker 3 (Kafka can elect it on 1 of 4 partitions) and 1 more broker, then read the next plan. Only if all"
    ) in no


def test_where_several_brokers_are_silent_the_network_is_looked_at_from_their_own_machines() -> None:
    first, question, *answers = told(planned((1,), (2,), away=(1, 2)))
    assert first == (
        "Broker 1 and broker 2 are silent at once: perhaps only the network is broken. Look on the machine or in the "
        "Pod of each: where Kafka runs, repair the network, wait, and approve nothing: clients may still write there."
    )
    assert question.startswith("Can broker 1 be started")
    assert UNREACHED not in answers, "it is said already"


FAILED = Replica(BrokerId(1), None, Reason("LogDirOffline", "the log directory of orders-0 is offline"))


def test_a_broker_whose_log_directory_failed_is_not_silent() -> None:
    seen = partition({1: FAILED, 2: dead(2), 3: log(10)}, isr=(1, 2))
    plan = decide(evidence(seen, brokers=(broker(1), away_from_all(2), broker(3))), ANY, waited=timedelta(hours=1))
    assert not any("are silent at once" in each for each in told(plan))


def test_of_a_broker_that_lives_the_failed_directory_is_asked_about_also_where_another_copy_of_it_is_silent() -> None:
    other = partition({1: dead(1), 2: log(10), 3: log(10)}, id=TopicPartition("payments", 0))
    seen = evidence(partition({1: FAILED, 2: log(10), 3: log(10)}), other, brokers=(broker(1), broker(2), broker(3)))
    said = told(decide(seen, ANY, waited=timedelta(hours=1)))
    assert "Can the failed log directory of broker 1 be repaired with what is on it?" in said


def test_a_failed_directory_is_told_of_also_where_the_election_is_proven_to_lose_nothing() -> None:
    plan = planned((1,), proven=1)
    failed = replace(plan.evidence.partitions[0], replicas=(FAILED, *plan.evidence.partitions[0].replicas[1:]))
    plan = replace(plan, evidence=replace(plan.evidence, partitions=(failed,)))
    assert any(each.startswith("Broker 1 lives; a log directory of it has failed") for each in told(plan))


def test_where_the_election_is_proven_to_lose_nothing_waiting_gains_nothing() -> None:
    assert told(planned((1,), proven=1)) == [
        "Waiting saves no record of orders-0 that was acknowledged with acks=all: the election is proven Lossless. "
        "What only a broker that is away holds was sent with acks=1 or acks=0. To save that, copy its directories "
        "before it starts again; or, only if its machine did not crash, start it with its own, intact disk in place of "
        "this election.",
    ]


def test_what_is_proven_is_told_apart_from_what_is_not() -> None:
    gains_nothing, _, question, _, yes, *_ = told(planned((1,), (1,), (2,), away=(1, 2), proven=2))
    assert gains_nothing.startswith("Waiting saves no record of orders-0, orders-1 that was acknowledged with acks=all")
    assert question.startswith("Can broker 2 be started")
    assert "Kafka can elect it; nothing" in yes, "the one that is left"


def test_where_nobody_is_elected_nothing_is_said() -> None:
    assert not told(decide(evidence(), ANY))


def test_where_no_broker_hears_of_a_controller_they_are_mended_first_and_no_broker_is_to_be_started() -> None:
    away, *cut_off = away_from_all(1), broker(2, metadata_advances=False), broker(3, metadata_advances=False)
    copies: dict[int, Held] = {1: dead(1), 2: log(27), 3: log(15)}
    plan = decide(evidence(partition(copies), brokers=(away, *cut_off)), ANY)

    first, *then = waited_for(plan).sentences()

    assert first.startswith("REPAIR THE CONTROLLERS FIRST: no broker hears of one.")
    assert "format none. Until then Kafka elects nobody, whoever is started: leave the brokers alone." in first
    assert then == [NEVER, LATER]
    heard = decide(evidence(partition(copies), brokers=(away, broker(2), cut_off[1])), ANY)
    assert any("Can broker 1 be started" in each for each in waited_for(heard).sentences())


def test_an_election_that_is_known_to_lose_a_few_records_is_not_better_than_waiting() -> None:
    plan = planned((1,))
    bounded = Loss(LossClass.BOUNDED, at_most=3, proof="it was read so")
    plan = replace(plan, decisions=tuple(replace(each, loss=bounded) for each in plan.decisions))

    question, *_ = told(plan)

    assert question.startswith("Can broker 1 be started")


def test_of_a_living_broker_whose_log_directory_failed_the_disk_is_asked_about_not_the_broker() -> None:
    """KIP-858: Strimzi and others see such directories come back by a restart; an election would give up their data."""
    seen = partition({1: FAILED, 2: log(10), 3: log(10)}, min_isr=MinInsyncReplicas(2, "TOPIC_CONFIG"))
    plan = decide(evidence(seen), ANY, waited=timedelta(hours=1))
    assert plan.elections

    known_bug, question, lives, _, yes, doubtful, no, *_ = told(plan)

    assert known_bug.startswith("KAFKA-19571 "), "a healthy directory may look failed"
    assert question == "Can the failed log directory of broker 1 be repaired with what is on it?"
    assert lives == "Broker 1 lives; a log directory of it has failed, with orders-0. Which is not known."
    assert yes.startswith(
        "Yes: repair it (mount, permissions, room; delete no file; keep it in log.dirs), see its directories are "
        "there, restart broker 1, wait. Kafka can elect"
    )
    assert "first copy the directories FROM broker 2 and 3: they delete what it lost. Then restart it." in doubtful
    assert no == f"{LOST}{APPROVE}"
    assert f"Nobody knows yet: do not restart it, approve nothing: {LOOK}" in told(plan)
    prompt = " ".join(at_the_prompt(plan))
    assert "silent is not off" not in prompt, "it runs, and serves other partitions"
    assert "do not restart broker 1 until another leads" in prompt, "Kafka would elect it on what is left there"


def answering(member: ReplicaLog, *, fenced: bool = True, **facts: Any) -> Plan:
    """Broker 1 is the last of the ISR; it answers, and the others hold 27 and 15 records."""
    brokers = (broker(1, fenced=fenced), broker(2), broker(3))
    seen = partition({1: member, 2: log(27), 3: log(15)}, **facts)
    return decide(evidence(seen, brokers=brokers), ANY, waited=timedelta(hours=1))


def test_a_member_that_runs_and_is_fenced_is_to_be_heard_by_the_controllers_before_anybody_else_leads() -> None:
    assert told(answering(log(30))) == [
        "DO NOT APPROVE YET. Broker 1 RUNS, and answers: Kafka can elect it by itself as soon as its heartbeats reach "
        "the controllers.",
        "Can the heartbeats of broker 1 reach the controllers again?",
        "Nobody knows yet: approve nothing: look from its machine or Pod.",
        "Yes: repair that, WITHOUT a restart (it may not come back), and wait. It runs, and answers: Kafka can elect "
        "it by itself, and it holds every record that was read of another replica.",
        "No: stop broker 1 for now (docs/how-to/silent-broker.md), KEEP its volume, copy its directories of these "
        "partitions, then read the plan again: it may be another one. This is worse than Yes: what it alone holds is "
        "then in that copy only.",
    ]


def test_where_its_heartbeats_stay_lost_every_copy_that_may_hold_more_is_named() -> None:
    """Broker 2 has what broker 3, which a person named, lacks; nobody could read broker 4."""
    held: dict[int, Held] = {1: log(30), 2: log(27), 3: log(15), 4: dead(4)}
    brokers = (broker(1, fenced=True), broker(2), broker(3), away_from_all(4))
    seen = evidence(partition(held), brokers=brokers)
    plan = decide(seen, ANY, waited=timedelta(hours=1), designated={ORDERS: BrokerId(3)})
    assert [each.leader for each in plan.elections.values()] == [BrokerId(3)]

    (no,) = [each for each in told(plan) if each.startswith("No: ")]

    assert no.startswith(
        "No: stop broker 1 for now (docs/how-to/silent-broker.md), KEEP its volume, copy its directories of these "
        "partitions and those of broker 2 and broker 4, which may hold more than the new leader as well, then "
    )
    assert no.endswith("This is worse than Yes: what each of them alone holds is then in that copy only.")
    assert any("and those of broker 2, which may hold more" in each for each in told(without_disk(4, plan)))


STOP_IT = (
    "DANGER: STOP BROKER 1 NOW: first what would start it again, then the broker. A Pod that is only deleted comes "
    "back at once (docs/how-to/silent-broker.md)."
)


def test_a_member_that_runs_with_less_than_others_hold_is_to_be_stopped() -> None:
    """Its disk was replaced. Kafka asks nobody what is on it."""
    assert told(answering(log(0))) == [
        f"{STOP_IT} Do not approve yet. Kafka can elect it by itself on 1 partition at any moment. It is EMPTY there, "
        "and lacks up to 27 records of another replica, and the others delete these once it leads: copy their "
        "directories meanwhile. Is its own volume only not mounted? Once they are copied, start it with that one. "
        "Approve another leader only if that volume is lost: nobody has read it."
    ]
    assert "at any moment. It lacks up to 20 records" in " ".join(told(answering(log(7))))


def test_a_member_with_less_is_a_danger_also_where_the_election_of_another_is_proven() -> None:
    plan = answering(log(0))
    lossless = Loss(LossClass.LOSSLESS, at_most=0, proof="it was read so")
    plan = replace(plan, decisions=tuple(replace(each, loss=lossless) for each in plan.decisions))

    danger, gains_nothing = told(plan)

    assert danger.startswith(STOP_IT)
    assert gains_nothing.startswith("Waiting saves no record")


def test_a_member_that_is_whole_on_one_partition_and_short_on_another_is_helped_nowhere() -> None:
    """Its heartbeats count for all its partitions: where it is short, the others delete what it lacks."""
    whole, short = (
        partition({1: Replica(BrokerId(1), held), 2: log(27), 3: log(15)}, id=TopicPartition("orders", number))
        for number, held in enumerate((log(30), log(7)))
    )
    brokers = (broker(1, fenced=True), broker(2), broker(3))
    said = " ".join(told(decide(evidence(whole, short, brokers=brokers), ANY, waited=timedelta(hours=1))))

    assert "DANGER: STOP BROKER 1 NOW" in said
    assert "heartbeats" not in said


def test_of_a_member_that_is_to_be_stopped_nobody_reads_that_nothing_is_to_be_done_yet() -> None:
    """It is short where the rule has no patience, and whole where it is still given time."""
    brokers = (broker(1, fenced=True), broker(2), broker(3))
    short, whole = (
        partition({1: Replica(BrokerId(1), held), 2: log(27), 3: log(15)}, id=TopicPartition(topic, 0))
        for topic, held in (("payments", log(0)), ("orders", log(30)))
    )
    at_once = replace(ANY.rules[0], topics=TopicSelector(names=("payments",)), patience=timedelta(0))
    plan = decide(evidence(short, whole, brokers=brokers), Policy((at_once, *ANY.rules)), waited=timedelta(seconds=3))
    assert [each.verdict for each in plan.decisions] == [Verdict.WAIT, Verdict.ELECT]

    said = " ".join(told(plan))

    assert "DANGER: STOP BROKER 1 NOW" in said
    assert "Do nothing yet" not in said


def test_of_a_plan_that_asks_nobody_nothing_is_to_be_done_before_an_approval() -> None:
    plan = answering(log(30))
    unasked = replace(plan, decisions=tuple(replace(each, approval=Approval.AUTO) for each in plan.decisions))

    assert "Before you approve:" in waited_for(plan).sentences()
    assert "Before you approve:" not in waited_for(unasked).sentences()


def test_a_plan_that_asks_nobody_is_to_be_stopped_where_a_member_runs_that_lacks_nothing() -> None:
    plan = answering(log(30))
    unasked = replace(plan, decisions=tuple(replace(each, approval=Approval.AUTO) for each in plan.decisions))

    assert told(unasked)[0].startswith("STOP THIS PLAN. Broker 1 RUNS, and answers")


def test_nothing_is_said_of_a_replica_that_kafka_does_not_elect_or_need_not_wait_for() -> None:
    assert not told(answering(log(30), isr=()))
    assert not told(answering(log(30), fenced=False))
    assert not told(answering(log(30), leader=BrokerId(2)))


def test_where_nobody_can_be_elected_whom_to_repair_first_is_told_all_the_same() -> None:
    held = {1: dead(1), 2: dead(2), 3: dead(3)}
    plan = decide(evidence(partition(held, isr=(2,)), brokers=(*map(away_from_all, (1, 2, 3)), broker(4))), ANY)
    assert not plan.elections

    _, question, *_, no = told(plan)

    assert question == "Can broker 2 be started with its own, intact disk?"
    assert no == (
        f"{LOST}start broker 1 and broker 3 with their own disks (Kafka does not elect them by itself), and read the "
        "next plan."
    )
    assert elect_or_wait(plan).never == (NEVER, LATER)


def test_where_nobody_can_be_elected_nobody_is_sent_to_start_a_broker_whose_disk_was_attested_lost() -> None:
    held = {1: dead(1), 2: dead(2), 3: dead(3)}
    gone = Attestation(BrokerId(3), Witness.DISK_LOST, "ann", "INC-7", NOON, NOON + timedelta(hours=1))
    away = (*map(away_from_all, (1, 2, 3)), broker(4))
    plan = decide(evidence(partition(held, isr=(2,)), brokers=away, attestations=(gone,)), ANY)
    assert not plan.elections

    assert told(plan)[-1].startswith(f"{LOST}start broker 1 with its own disk (Kafka does not elect it by itself), ")


WITHOUT_ISR: dict[str, Any] = {"isr": (), "elr": (BrokerId(1), BrokerId(2)), "last_known_elr": ()}


def in_the_elr(known: PartitionHistory | None = None) -> Plan:
    """Brokers 1 and 2 are dead, and stayed behind in the ELR, broker 2 as the last one that led."""
    held: dict[int, Held] = {1: dead(1), 2: dead(2), 3: log(10)}
    seen = partition(held, history=known, **WITHOUT_ISR)
    brokers = (away_from_all(1), away_from_all(2), broker(3))
    return decide(evidence(seen, brokers=brokers, elr_enabled=True), ANY, waited=timedelta(hours=1))


def led_by_2(*isr: int, min_isr: int, **changes: Any) -> HistoryStep:
    return step(*isr, min_isr=min_isr, leader=BrokerId(2), **changes)


def test_of_a_member_that_stayed_behind_in_the_elr_less_is_promised() -> None:
    """Kafka itself loses acknowledged records by electing one, where min.insync.replicas was raised just before."""
    _, _, _, yes, *_ = told(in_the_elr())
    assert yes.endswith(
        "is lost, unless min.insync.replicas was raised shortly before it left the ISR, or is set for all brokers: "
        "then another member may hold more."
    )


def test_less_is_promised_where_it_stayed_behind_on_some_of_its_partitions_only() -> None:
    plan = planned((1,), (1,))
    first, second = plan.evidence.partitions
    stayed = replace(second, isr=(), elr=(BrokerId(1),))
    _, _, yes, *_ = told(replace(plan, evidence=replace(plan.evidence, partitions=(first, stayed))))
    assert yes.endswith("then another member may hold more.")


def test_who_surely_lacks_nothing_comes_first_among_those_that_stayed_behind() -> None:
    """By a history in which the leader went on alone with a minimum of 1, broker 1 left too early."""
    alone = history(led_by_2(1, 2, 3, min_isr=1), led_by_2(1, 2, min_isr=1), led_by_2(2, min_isr=1), intact=(3,))
    _, question, _, yes, *_ = told(in_the_elr(alone))
    assert question.startswith("Can broker 2 be started")
    assert yes.endswith("is lost.")


def test_beside_an_empty_copy_the_only_one_with_records_is_saved_before_anything_is_started() -> None:
    """What emptied broker 3 may have emptied broker 1 as well."""
    brokers = (away_from_all(1), broker(2), broker(3))
    held: dict[int, Held] = {1: dead(1), 2: log(20), 3: log(0)}
    plan = decide(evidence(partition(held), brokers=brokers), ANY, waited=timedelta(hours=1))

    first, *_ = told(plan)

    assert first == (
        "Broker 2 holds the only copy of orders-0 that answers with records, broker 3 is EMPTY there: copy its "
        "directories FROM broker 2 to a place outside log.dirs before you start a broker."
    )
    held[3] = log(5)
    two = decide(evidence(partition(held), brokers=brokers), ANY, waited=timedelta(hours=1))
    assert not any("only copy" in each for each in told(two))
