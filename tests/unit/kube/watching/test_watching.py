"""What pulses and scans mean: who is what since when, when to look at everything, and when not to trust one's eyes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_recovery.cluster.pulse import Pulse
from kafka_recovery.cluster.scan import OfflinePartition
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.watching import watch as watching
from kafka_recovery.kube.watching.incidents import Docket
from kafka_recovery.kube.watching.outages import Outage
from kafka_recovery.kube.watching.watch import GONE, BrokerState, Watch
from unit.kube.watching.bench import AT_ONCE, CALM
from unit.kube.watching.sights import offline, pulse, seconds

NOBODY = Reason("ClusterUnavailable", "none of 3 brokers answered")
DISAGREEMENT = Reason("BrokersDisagree", "they do not agree")


class Watching:
    """A watch on a cluster that goes on applying metadata, unless a test has it otherwise."""

    def __init__(self, rescan: float = 30) -> None:
        self.watch = Watch("prod", seconds(rescan))
        self._offset = 100

    def sees(self, at: float, seen: Pulse, *, applying: bool = True) -> bool:
        """Whether a scan is due then."""
        if applying:
            self._offset += 1
            brokers = {
                id: replace(b, applied=self._offset if b.reachable else b.applied) for id, b in seen.brokers.items()
            }
            seen = replace(seen, brokers=brokers)
        return self.watch.pulsed(seen, seconds(at))

    def scans(self, at: float, *found: OfflinePartition, took: float = 0) -> None:
        self.watch.scanning(seconds(at))
        self.watch.scanned(found, seconds(at + took))

    def settles(self, *found: OfflinePartition, seen: Pulse | None = None) -> None:
        """Three brokers, seen and scanned until all is quiet at 2 s."""
        for at in (0, 2):
            self.sees(at, seen or pulse(1, 2, 3))
            self.scans(at, *found)

    def opens_all(self) -> None:
        """A recovery for each incident of then."""
        for incident in self.incidents(2).incidents:
            self.watch.opened(incident)

    def states(self) -> dict[int, str]:
        return {int(id): broker.state.value for id, broker in self.watch.brokers.items()}

    def isolated(self) -> str | None:
        return self.watch.isolated.code if self.watch.isolated else None

    def incidents(self, at: float, policy: Policy | None = AT_ONCE, open: Iterable[TopicPartition] = ()) -> Docket:
        return self.watch.incidents(policy, dict.fromkeys(open, "prod-1"), seconds(at))

    def names(self, at: float, policy: Policy | None = AT_ONCE) -> list[list[str]]:
        return [[str(each.id) for each in found.partitions] for found in self.incidents(at, policy).incidents]


@pytest.fixture
def kafka() -> Watching:
    return Watching()


class TestBrokers:
    def test_each_has_a_state_and_the_time_since_when(self, kafka: Watching) -> None:
        kafka.sees(0, pulse(1, 2, 3))
        kafka.sees(1, pulse(1, 2, 3, silent=[3]))
        kafka.sees(2, pulse(1, 2, 3, fenced=[3], silent=[3]))
        kafka.sees(3, pulse(1, 2))

        assert kafka.states() == {1: "Online", 2: "Online", 3: "Unregistered"}
        assert [broker.since for broker in kafka.watch.brokers.values()] == [seconds(0), seconds(0), seconds(3)]

    def test_one_whose_answer_is_late_is_what_it_was(self, kafka: Watching) -> None:
        kafka.sees(0, pulse(1, 2, 3, silent=[3]))
        kafka.sees(1, pulse(1, 2, 3, late=[2, 3]))

        assert kafka.states() == {1: "Online", 2: "Online", 3: "Unreachable"}
        assert kafka.watch.brokers[BrokerId(3)].problem

    def test_before_kafka_4_who_is_not_listed_counts_as_fenced(self, kafka: Watching) -> None:
        kafka.sees(0, pulse(1, 2, 3, lists_fenced=False))
        kafka.sees(1, pulse(1, 2, lists_fenced=False))

        assert kafka.states()[3] == "Fenced"

    def test_one_that_was_killed_comes_back_as_another_process(self, kafka: Watching) -> None:
        kafka.sees(0, pulse(1, 2, 3))
        kafka.sees(1, pulse(1, 2, 3, refusing=[3]))
        kafka.sees(2, pulse(1, 2, fenced=[3], silent=[3]))
        kafka.sees(3, pulse(1, 2, fenced=[3]))
        assert kafka.watch.brokers[BrokerId(3)].incarnation == 0, "it is not back yet"
        kafka.sees(4, pulse(1, 2, 3))
        kafka.sees(5, pulse(1, 2, 3))

        assert kafka.watch.brokers[BrokerId(3)].incarnation == 1

    def test_one_that_was_only_frozen_comes_back_as_itself(self, kafka: Watching) -> None:
        kafka.sees(0, pulse(1, 2, 3))
        kafka.sees(1, pulse(1, 2, fenced=[3], silent=[3]))
        kafka.sees(2, pulse(1, 2, 3))

        assert kafka.watch.brokers[BrokerId(3)].incarnation == 0

    @pytest.mark.parametrize("between", [pulse(1, 2), pulse(1, 2, 3, moved=[3])])
    def test_so_does_one_that_was_unregistered_or_has_moved(self, kafka: Watching, between: Pulse) -> None:
        kafka.sees(0, pulse(1, 2, 3))
        kafka.sees(1, between)
        kafka.sees(2, pulse(1, 2, 3, moved=[3]))

        assert kafka.watch.brokers[BrokerId(3)].incarnation == 1

    def test_brokers_that_are_long_gone_are_forgotten_when_there_are_too_many(
        self, kafka: Watching, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(watching, "MOST_BROKERS", 3)
        for at, id in enumerate(range(10, 20)):
            kafka.sees(at, pulse(1, 2, id))

        assert set(kafka.states()) == {1, 2, 19}


class TestScansAreDue:
    @pytest.mark.parametrize(
        ("took", "times"), [(0, [0, 1, 6, 11, 16]), (0.05, [0, 2, 13, 24, 35]), (1, [0, 2, 33, 64, 95])]
    )
    def test_at_first_and_again_until_the_picture_is_quiet_and_then_as_often_as_is_easy(
        self, kafka: Watching, took: float, times: list[int]
    ) -> None:
        due = []
        for at in range(100):
            if kafka.sees(at, pulse(1, 2, 3)):
                due.append(at)
                kafka.scans(at, took=took)

        assert due[:5] == times

    @pytest.mark.parametrize(
        "change",
        [
            pulse(1, 2, fenced=[3]),
            pulse(1, 2),
            pulse(1, 2, 3, 4),
            pulse(1, 2, 3, silent=[3]),
            pulse(1, 2, 3, moved=[3]),
        ],
        ids=["fenced", "unregistered", "new", "silent", "moved"],
    )
    def test_at_once_when_a_broker_is_not_as_it_was(self, kafka: Watching, change: Pulse) -> None:
        kafka.settles()

        assert not kafka.sees(2.5, pulse(1, 2, 3))
        assert kafka.sees(2.75, change)

    def test_again_after_a_change_until_two_looks_show_the_same(self, kafka: Watching) -> None:
        """The controller needs a moment to move leaders."""
        kafka.settles()
        kafka.sees(5, pulse(1, 2, fenced=[3]))
        kafka.scans(5, offline())
        assert not kafka.sees(5.5, pulse(1, 2, fenced=[3]))
        assert kafka.sees(6, pulse(1, 2, fenced=[3]))
        kafka.scans(6)
        assert kafka.sees(7, pulse(1, 2, fenced=[3])), "it was not the same"
        kafka.scans(7)

        assert not kafka.sees(8, pulse(1, 2, fenced=[3]))

    def test_again_when_something_changed_while_one_was_going_on(self, kafka: Watching) -> None:
        kafka.settles()
        kafka.watch.scanning(seconds(10))
        kafka.sees(10.5, pulse(1, 2, fenced=[3]))
        kafka.watch.scanned((), seconds(11))

        assert kafka.watch.scan_due(seconds(11))

    def test_a_moment_after_one_failed(self, kafka: Watching) -> None:
        kafka.sees(0, pulse(1, 2, 3))
        kafka.watch.scanning(seconds(0))
        kafka.watch.scan_failed(seconds(0.1))

        assert not kafka.sees(0.5, pulse(1, 2, 3))
        assert kafka.sees(1.2, pulse(1, 2, 3))


class TestSelfSuspicion:
    def test_a_cluster_that_answers_and_goes_on_is_trusted(self, kafka: Watching) -> None:
        for at in range(10):
            kafka.sees(at / 4, pulse(1, 2, 3))

        assert kafka.isolated() is None

    def test_if_nobody_answers_it_is_us(self, kafka: Watching) -> None:
        kafka.sees(0, pulse(1, 2, 3))
        kafka.watch.failed(NOBODY, seconds(1))

        assert kafka.watch.isolated == NOBODY
        assert set(kafka.states().values()) == {"Unreachable"}

    def test_if_most_of_those_alive_do_not_answer_it_is_our_path(self, kafka: Watching) -> None:
        kafka.sees(0, pulse(1, 2, 3, silent=[2, 3]))
        assert kafka.isolated() == "OperatorCutOff"
        assert "2, 3" in str(kafka.watch.isolated)

        kafka.sees(1, pulse(1, fenced=[2, 3], silent=[2, 3]))

        assert kafka.isolated() is None, "the controller does not reach them either: two witnesses"

    def test_half_of_them_is_not_most(self, kafka: Watching) -> None:
        kafka.sees(0, pulse(1, 2, silent=[2]))

        assert kafka.isolated() is None

    def test_if_nobody_applies_metadata_they_are_cut_off_or_the_controller_is_gone(self, kafka: Watching) -> None:
        seen = pulse(1, 2, 3)
        suspicions = []
        for at in (0, 0.5, 1, 1.4, 1.5):
            kafka.sees(at, seen, applying=False)
            suspicions.append(kafka.isolated())
        kafka.sees(2, seen)

        assert suspicions == [None, None, None, None, "NoActiveController"]
        assert kafka.isolated() is None

    def test_one_that_goes_on_is_enough(self, kafka: Watching) -> None:
        for at in range(10):
            kafka.sees(at, pulse(1, 2, 3, applied={1: 50, 2: 100 + at, 3: 100}), applying=False)

        assert kafka.isolated() is None

    def test_a_silent_broker_that_had_the_newest_does_not_hide_a_standstill(self, kafka: Watching) -> None:
        kafka.sees(0, pulse(1, 2, 3, applied={1: 50, 2: 60, 3: 100}), applying=False)
        for at in (1, 2):
            kafka.sees(at, pulse(1, 2, 3, applied={1: 50, 2: 60, 3: 100 + at}, silent=[3]), applying=False)

        assert kafka.isolated() == "NoActiveController"

    def test_where_no_ops_are_switched_off_the_controller_is_asked_whether_there_was_anything(
        self, kafka: Watching
    ) -> None:
        """metadata.max.idle.interval.ms=0."""
        kafka.sees(0, pulse(1, 2, 3), applying=False)
        assert not kafka.watch.in_doubt(seconds(0.9))
        assert kafka.watch.in_doubt(seconds(1))
        for at in range(1, 20):
            kafka.sees(at, pulse(1, 2, 3, committed=101), applying=False)

        assert kafka.isolated() is None

    def test_a_controller_that_committed_what_nobody_applies_or_does_not_answer_clears_nothing(self) -> None:
        for committed in (120, Reason("ClusterAuthorizationFailed", "the principal lacks DESCRIBE on the cluster")):
            kafka = Watching()
            for at in range(3):
                kafka.sees(at, pulse(1, 2, 3, committed=committed), applying=False)

            assert kafka.isolated() == "NoActiveController"
            assert isinstance(committed, int) or "DESCRIBE" in str(kafka.watch.isolated)

    def test_brokers_that_do_not_agree_are_given_two_seconds_to_hear_the_news(self, kafka: Watching) -> None:
        suspicions = []
        for at in range(4):
            kafka.sees(at, pulse(1, 2, 3, disagreement=DISAGREEMENT if at else None))
            suspicions.append(kafka.isolated())
        kafka.sees(4, pulse(1, 2, 3))

        assert suspicions == [None, None, None, "BrokersDisagree"]
        assert kafka.isolated() is None

    def test_the_first_pulse_at_time_zero_is_no_exception(self, kafka: Watching) -> None:
        kafka.sees(0, pulse(1, 2, 3), applying=False)
        kafka.sees(5, pulse(1, 2, 3), applying=False)

        assert kafka.isolated() == "NoActiveController"


class TestOutages:
    @pytest.mark.parametrize("other", [offline(epoch=6), offline(topic_id="recreated")], ids=["epoch", "topic"])
    def test_another_epoch_or_topic_is_another_outage(self, kafka: Watching, other: OfflinePartition) -> None:
        kafka.scans(0, offline())
        kafka.scans(5, other)

        assert {outage: each.since for outage, each in kafka.watch.offline.items()} == {Outage.of(other): seconds(5)}

    def test_a_partition_that_comes_back_forgets_its_time(self, kafka: Watching) -> None:
        kafka.scans(0, offline())
        kafka.scans(5)
        kafka.scans(6, offline())

        assert [each.since for each in kafka.watch.offline.values()] == [seconds(6)]

    def test_time_goes_on_while_we_were_blind(self, kafka: Watching) -> None:
        """The same epoch without a leader: nobody led in between."""
        kafka.settles(offline())
        kafka.watch.failed(NOBODY, seconds(3))
        kafka.sees(60, pulse(1, 2, 3))
        kafka.scans(60, offline())

        assert kafka.names(60, CALM) == [["orders-0"]]


class TestIncidents:
    def test_without_patience_the_scan_that_finds_it_opens_it(self, kafka: Watching) -> None:
        kafka.settles()
        assert kafka.sees(5, pulse(1, 2, fenced=[3]))
        kafka.scans(5, offline())

        assert kafka.names(5) == [["orders-0"]]

    def test_before_one_is_opened_from_an_old_scan_everything_is_looked_at_again(self, kafka: Watching) -> None:
        kafka.settles(offline())
        kafka.sees(25, pulse(1, 2, 3))
        docket = kafka.incidents(25, CALM)
        assert (docket.incidents, docket.next_at) == ((), seconds(25))
        assert [reason.code for reason in docket.left.values()] == ["ScanPending"]
        assert kafka.watch.scan_due(seconds(25))
        kafka.scans(25, offline("pay"))

        assert kafka.names(25, CALM) == [], "orders came back in the meantime"

    def test_none_is_opened_while_we_are_isolated(self, kafka: Watching) -> None:
        kafka.settles(offline())
        kafka.watch.failed(NOBODY, seconds(2.5))
        docket = kafka.incidents(2.5)

        assert docket.incidents == ()
        assert list(docket.left.values()) == [NOBODY]

    def test_none_is_opened_before_the_cluster_was_ever_seen(self, kafka: Watching) -> None:
        assert kafka.incidents(0) == Docket()

    def test_what_was_opened_is_not_opened_again_though_nobody_knows_of_it_yet(self, kafka: Watching) -> None:
        kafka.settles(offline())
        kafka.opens_all()
        kafka.scans(3, offline(), offline(partition=1))

        assert kafka.names(3) == [["orders-1"]]

    def test_its_next_outage_is_another_matter(self, kafka: Watching) -> None:
        kafka.settles(offline())
        kafka.opens_all()
        kafka.scans(3)
        kafka.scans(4, offline(epoch=7))

        assert kafka.names(4) == [["orders-0"]]

    def test_one_scan_that_misses_it_does_not_open_it_again(self, kafka: Watching) -> None:
        """Who was asked is behind and shows the leader from before; a person may have refused it meanwhile."""
        kafka.settles(offline())
        kafka.opens_all()
        kafka.scans(3)
        kafka.scans(4, offline(), offline(partition=1))

        assert kafka.names(4) == [["orders-1"]]

    def test_what_is_long_over_is_forgotten(self, kafka: Watching) -> None:
        kafka.settles(offline())
        kafka.opens_all()
        for at in (3, 3 + GONE.total_seconds()):
            assert kafka.watch.holding_back()
            kafka.scans(at)

        assert not kafka.watch.holding_back()

    def test_deleting_its_recovery_asks_for_another_one(self, kafka: Watching) -> None:
        kafka.settles(offline())
        (incident,) = kafka.incidents(2).incidents
        kafka.watch.opened(incident)
        kafka.watch.forget(incident.name)

        assert kafka.names(2) == [["orders-0"]]

    def test_who_is_in_an_open_recovery_is_left_to_it(self, kafka: Watching) -> None:
        kafka.settles(offline(), offline("pay"))

        (incident,) = kafka.incidents(2, open=[TopicPartition("pay", 0)]).incidents

        assert [str(each.id) for each in incident.partitions] == ["orders-0"]


steps = st.lists(
    st.tuples(
        st.floats(0.01, 5),
        st.sampled_from(("pulse", "pulse", "fence", "silence", "fault", "scan", "slow scan", "failed scan")),
        st.frozensets(st.integers(0, 3)),
    ),
    max_size=30,
)


class TestWhateverHappens:
    @given(steps)
    def test_no_outage_gets_two_incidents_and_what_stays_offline_gets_one_when_all_is_quiet(
        self, steps: list[tuple[float, str, frozenset[int]]]
    ) -> None:
        kafka, at, opened = Watching(), timedelta(0), list[Outage]()

        def look(found: Iterable[OfflinePartition]) -> None:
            kafka.watch.scanned(found, at)
            for incident in kafka.watch.incidents(AT_ONCE, {}, at).incidents:
                assert kafka.watch.isolated is None
                kafka.watch.opened(incident)
                opened.extend(Outage.of(each) for each in incident.partitions)

        for number, (wait, what, parts) in enumerate(steps):
            at += seconds(wait)
            found = [offline(partition=index, epoch=number // 3) for index in parts]
            if what == "fault":
                kafka.watch.failed(NOBODY, at)
            elif "scan" in what and kafka.watch.scan_due(at):
                kafka.watch.scanning(at)
                at += seconds(2) if what == "slow scan" else timedelta(0)
                kafka.watch.scan_failed(at) if what == "failed scan" else look(found)
            elif "scan" not in what:
                fenced = [3] if what == "fence" else []
                kafka.sees(at.total_seconds(), pulse(1, 2, 3, fenced=fenced, silent=[3] if what == "silence" else []))
        last = [offline(partition=p, epoch=999) for p in range(3)]
        for _ in range(70):
            at += seconds(0.5)
            if kafka.sees(at.total_seconds(), pulse(1, 2, 3)):
                kafka.watch.scanning(at)
                look(last)

        assert len(opened) == len(set(opened))
        assert {Outage.of(each) for each in last} <= set(opened)
        assert all(broker.state is BrokerState.ONLINE for broker in kafka.watch.brokers.values())
