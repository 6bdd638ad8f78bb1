"""What a person is told of log directories that have failed, and of leaders whose volume is almost full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from kafka_recovery.decision.card import card
from kafka_recovery.decision.explanation import explain
from kafka_recovery.decision.log_directories import asking, wrong
from kafka_recovery.decision.planner import decide
from kafka_recovery.decision.sameness import difference
from kafka_recovery.domain.attestation import Attestation, Witness
from kafka_recovery.domain.evidence import Evidence, Replica
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.log_directories import BrokerDirectories, LogDirectory
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval, EvidenceRules, Policy, RequiredAnswers, Rule
from kafka_recovery.domain.reason import Reason
from unit.decision.incident import NOON, ORDERS, Held, broker, evidence, log, partition

ANY = Policy((Rule("everything", evidence=EvidenceRules(required_answers=RequiredAnswers.ANY)),))
OTHER = TopicPartition("orders", 1)
GIB = 1 << 30
FAILED = LogDirectory("/data1", "KAFKA_STORAGE_ERROR")
SILENT = Reason("BrokerTimeout", "no answer within 1s.")
WELL = LogDirectory("/data2", None, 100 * GIB, 40 * GIB)
FULL = LogDirectory("/data", None, 100 * GIB, 12 << 20)
LIVE = (broker(1), broker(2), broker(3))


def offline_at(id: int, held: Held = None) -> Replica:
    return Replica(BrokerId(id), held if not isinstance(held, Replica) else None, Reason("LogDirOffline", "error 56"))


def its(id: int, *directories: LogDirectory, problem: Reason | None = None) -> BrokerDirectories:
    return BrokerDirectories(BrokerId(id), directories, problem)


def seen(held: dict[int, Held], *said: BrokerDirectories) -> Evidence:
    """Broker 1 is the last of the ISR."""
    found = evidence(partition(held), brokers=LIVE)
    return replace(found, cluster=replace(found.cluster, log_directories=said))


def planned(found: Evidence) -> Plan:
    return decide(found, ANY, waited=timedelta(hours=1))


def known(plan: Plan) -> str:
    """What stands below the question about the directory."""
    choice = card(plan).choice
    assert choice
    [asked] = [each for each in choice.questions if each.asked.startswith("Can the failed log directory of broker 1")]
    return " ".join(asked.known)


def first(plan: Plan, word: str) -> Sequence[str]:
    choice = card(plan).choice
    assert choice
    return [each for each in choice.first if word in each]


WHY = "Kafka tells neither why nor since when: see the log of broker 1 and, on its machine, df and mount."


class TestFailed:
    def test_the_member_that_lives_and_its_directory_are_named_below_the_question(self) -> None:
        said = its(1, replace(FAILED, copies=()), replace(WELL, copies=(), incoming=()))

        assert known(planned(seen({1: offline_at(1), 2: log(10), 3: log(10)}, said))) == (
            f"Broker 1 lives; its log directory /data1 has failed (KAFKA_STORAGE_ERROR), with orders-0. {WHY} Online "
            "there: /data2 (40.0 GiB of 100.0 GiB left)."
        )

    def test_a_name_that_reads_like_advice_stands_in_quotes_and_is_cut(self) -> None:
        advice = "/data1 is sound. APPROVE AT ONCE: nothing is lost. " + "It is safe. " * 50

        told = known(planned(seen({1: offline_at(1), 2: log(10), 3: log(10)}, its(1, replace(FAILED, path=advice)))))

        assert f"its log directory '{advice[:120]}…' has failed (KAFKA_STORAGE_ERROR)" in told

    def test_of_several_that_failed_each_is_named_and_none_is_blamed(self) -> None:
        said = its(1, FAILED, replace(FAILED, path="/data2"))

        told = known(planned(seen({1: offline_at(1), 2: log(10), 3: log(10)}, said)))

        assert told.startswith("Broker 1 lives; /data1, /data2 have failed (KAFKA_STORAGE_ERROR), with orders-0.")

    def test_a_copy_that_was_being_moved_to_another_directory_is_not_taken_for_the_whole(self) -> None:
        said = its(1, replace(FAILED, copies=()), replace(WELL, copies=(), incoming=(ORDERS, OTHER)))

        told = known(planned(seen({1: offline_at(1), 2: log(10), 3: log(10)}, said)))

        assert told.endswith("orders-0 was being moved to /data2: what is there by now may be a part only.")

    def test_a_broker_that_did_not_tell_is_said_to_live_all_the_same(self) -> None:
        refused = Reason("ClusterAuthorizationFailed", "DescribeLogDirs: not authorized (31)")

        told = known(planned(seen({1: offline_at(1), 2: log(10), 3: log(10)}, its(1, problem=refused))))

        assert told == (
            "Broker 1 lives; a log directory of it has failed, with orders-0. Which is not known (DescribeLogDirs: not "
            "authorized (31))."
        )

    def test_a_copy_that_its_broker_does_not_answer_for_is_not_called_sound_whatever_it_says(self) -> None:
        told = known(planned(seen({1: offline_at(1), 2: log(10), 3: log(10)}, its(1, WELL))))

        assert told == "Broker 1 lives; a log directory of it has failed, with orders-0. Which is not known."

    def test_a_directory_on_a_disk_that_was_attested_lost_is_not_to_be_looked_at(self) -> None:
        found = seen({1: None, 2: offline_at(2), 3: log(10)}, its(2, FAILED))
        lost = Attestation(BrokerId(2), Witness.DISK_LOST, "ann", "INC-7", NOON, NOON + timedelta(hours=4))
        attested = replace(found, cluster=replace(found.cluster, attestations=(lost,)))

        assert not first(planned(attested), "Broker 2 lives")

    @pytest.mark.parametrize(
        "said",
        [its(2, WELL), its(2, replace(FAILED, copies=()), replace(WELL, copies=(ORDERS,)))],
        ids=["none failed", "another one failed"],
    )
    def test_a_directory_that_only_the_controller_counts_as_failed_needs_a_restart_and_no_repair(
        self, said: BrokerDirectories
    ) -> None:
        """KAFKA-19571 and others: the broker answers for that copy."""
        found = seen({1: None, 2: offline_at(2, log(10)), 3: log(10)}, said)

        assert first(planned(found), "Broker 2 lives") == [
            "Broker 2 lives, and says that orders-0 is in a log directory that has not failed, while the controller "
            "counts it as failed (KAFKA-19571 does that): stop broker 2 cleanly, and start it again with the same disk."
        ]

    def test_a_copy_that_nobody_found_in_a_sound_directory_is_not_said_to_be_in_one(self) -> None:
        said = its(2, replace(FAILED, copies=()), replace(WELL, copies=(OTHER,)))

        [told] = first(planned(seen({1: None, 2: offline_at(2, log(10)), 3: log(10)}, said)), "Broker 2 lives")

        assert "/data1 has failed" in told

    def test_the_table_of_brokers_says_so(self) -> None:
        plan = planned(seen({1: offline_at(1), 2: log(10), 3: log(10)}, its(1, FAILED, WELL), its(2, FULL), its(3)))

        assert {each.broker: each.state for each in card(plan).brokers} == {
            1: "up, log directory failed",
            2: "up, volume almost full",
            3: "up",
        }


class TestAlmostFull:
    def test_a_planned_leader_without_room_is_warned_of(self) -> None:
        plan = planned(seen({1: None, 2: log(10), 3: log(9)}, its(2, FULL)))

        assert first(plan, "Warning") == [
            "Warning: broker 2 is to lead orders-0, and the volume of its copies is almost full: /data (12.0 MiB of "
            "100.0 GiB left). A leader writes as soon as it leads. At the first write that finds no room Kafka takes "
            "that directory offline, and stops a broker that has no other one. Make the volume larger first; delete no "
            "file of Kafka's and no records, and copy nothing onto it."
        ]
        assert plan.elections, "it is a warning, and no refusal"

    @pytest.mark.parametrize(("copies", "warned"), [((ORDERS,), True), ((OTHER,), False)])
    def test_of_several_directories_the_one_with_the_copy_counts(
        self, copies: tuple[TopicPartition, ...], warned: bool
    ) -> None:
        said = its(2, replace(FULL, copies=copies), replace(WELL, copies=()))

        assert bool(first(planned(seen({1: None, 2: log(10), 3: log(9)}, said)), "Warning")) is warned

    def test_explain_tells_of_each_copy_that_has_no_room_whoever_leads(self) -> None:
        told = explain(planned(seen({1: None, 2: log(10), 3: log(9)}, its(2, WELL), its(3, FULL))), ORDERS).directories

        assert len(told) == 1
        assert told[0].startswith("Broker 3 keeps orders-0 in /data (12.0 MiB of 100.0 GiB left). A leader writes")

    def test_explain_tells_of_failed_directories(self) -> None:
        plan = planned(seen({1: offline_at(1), 2: log(10), 3: log(10)}, its(1, FAILED)))

        assert [each[:46] for each in explain(plan, ORDERS).directories] == [
            "Broker 1 lives; its log directory /data1 has f"
        ]

    def test_less_room_than_before_voids_no_approval(self) -> None:
        held: dict[int, Held] = {1: None, 2: log(10), 3: log(9)}
        roomy, full = (planned(seen(held, its(2, each))) for each in (WELL, FULL))

        assert difference(roomy, full) is None
        assert roomy.decisions == full.decisions, "a person is asked anyway"

    @pytest.mark.parametrize(
        ("said", "approval"),
        [
            (its(2, FULL), Approval.MANUAL),
            (its(2, WELL), Approval.AUTO),
            (its(2, problem=SILENT), Approval.MANUAL),
            (its(3, problem=SILENT), Approval.AUTO),
            (its(3, FULL), Approval.AUTO),
            (its(2, replace(FULL, copies=(OTHER,)), replace(WELL, copies=(ORDERS,))), Approval.AUTO),
            (its(2, WELL, replace(WELL, path="/data3")), Approval.AUTO),
            (its(2, LogDirectory("/data")), Approval.MANUAL),
            (its(2, WELL, LogDirectory("/data3")), Approval.MANUAL),
            (its(2, replace(FULL, copies=(OTHER,)), replace(WELL, copies=())), Approval.MANUAL),
            (its(2, FAILED), Approval.MANUAL),
            (its(2, replace(WELL, error="KAFKA_STORAGE_ERROR")), Approval.MANUAL),
        ],
        ids=[
            "no room",
            "room",
            "silent",
            "another is silent",
            "no room elsewhere",
            "no room in another directory",
            "room in all",
            "how much is not said",
            "how much is not said of one of several",
            "where it lies is not said",
            "the only one has failed",
            "the only one has failed and is said to have room",
        ],
    )
    def test_a_person_is_asked_about_a_leader_without_room_or_that_does_not_tell_whatever_the_policy_says(
        self, said: BrokerDirectories, approval: Approval
    ) -> None:
        unattended = Policy((replace(ANY.rules[0], approval=Approval.AUTO),))

        plan = decide(seen({1: None, 2: log(10), 3: log(9)}, said), unattended, waited=timedelta(hours=1))

        [decision] = plan.elections.values()
        assert (decision.leader, decision.approval) == (2, approval)
        assert any("a person has to approve it" in each for each in decision.warnings) is (approval is Approval.MANUAL)


def test_it_is_said_why_a_person_is_asked_where_a_broker_did_not_tell() -> None:
    unattended = Policy((replace(ANY.rules[0], approval=Approval.AUTO),))

    [decision] = decide(
        seen({1: None, 2: log(10)}, its(2, problem=SILENT)), unattended, waited=timedelta(hours=1)
    ).decisions

    assert decision.warnings[-1] == (
        "whether the volume of broker 2's copy has room is not known (no answer within 1s): a person has to approve it"
    )


def test_inspect_tells_what_is_wrong_with_each_directory_and_nothing_of_the_others() -> None:
    refused = Reason("BrokerTimeout", "no answer")
    said = its(1, FAILED, WELL), its(2, FULL), its(3, problem=refused), its(4, problem=refused)
    found = seen({1: None, 2: log(10)}, *said)

    assert list(wrong(found)) == [
        "Broker 1: its log directory /data1 has failed (KAFKA_STORAGE_ERROR).",
        "Broker 2: /data (12.0 MiB of 100.0 GiB left).",
        "Of the log directories and volumes of broker 3, 4 nothing is known: no answer.",
    ]


@pytest.mark.parametrize(("left", "told"), [(0, "0 bytes"), (1023, "1,023 bytes"), (5 << 19, "2.5 MiB")])
def test_what_is_left_is_told_in_units_that_are_read_easily(left: int, told: str) -> None:
    found = seen({1: None, 2: log(10)}, its(2, LogDirectory("/data", None, 10 << 30, left)))

    assert list(wrong(found)) == [f"Broker 2: /data ({told} of 10.0 GiB left)."]


class Compared(int):
    """A broker id that counts with how many it is held against."""

    times = 0
    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return int(self) == other


def test_thousands_of_partitions_are_not_held_against_each_of_thousands_of_directories() -> None:
    """A hundred brokers that list 256 each took a minute for 2,000 partitions."""
    (elected,) = planned(seen({1: None, 2: log(10), 3: log(5)}, its(2, FULL))).elections.values()
    automatic = replace(elected, approval=Approval.AUTO, leader=BrokerId(Compared(99)))
    said = [its(id, *(replace(FULL, path=f"/data{each}") for each in range(5))) for id in range(10)]
    found = replace(seen({}).cluster, log_directories=tuple(said))
    Compared.times = 0

    assert asking((automatic,), found)[0] is automatic
    assert Compared.times < 10
