"""Where a follower cuts its log, and by whose word: KAFKA-1211 and what came of it, KIP-279 and KIP-320."""

from __future__ import annotations

import pytest

from kafka_recovery.domain.ids import LeaderEpoch, Offset
from kafka_recovery.simulator.model.client_requests import EndsOfEpochs
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.requests import ElectionType, ReadFrom, ReadLogs
from kafka_recovery.simulator.model.settings import Settings
from kafka_recovery.simulator.model.timeline import What
from simulation.incidents import (
    cut_at_the_high_watermark,
    heard_from_a_former_term,
    led_by_turns,
    one_generation_is_kept,
)
from simulation.telling import ORDERS, A, B, C, Story, unless

switched = pytest.mark.parametrize("on", [True, False], ids=["on", "off"])


@pytest.mark.parametrize("records", [1, 2], ids=["equally long", "longer"])
@switched
def test_kip_279_without_the_epoch_of_the_answer_a_follower_keeps_what_the_leader_never_had(
    on: bool, records: int
) -> None:
    """The offset in the answer of B is behind the first s of A; with its epoch A goes back further."""
    story = led_by_turns(*unless(on, "truncate_to_common_epochs"), records=records)
    assert story.holds(A) == (["m", "r", "t"] if on else ["m", "s", "t"])
    story.kill(B)
    assert story.until_led() == A

    assert story.lost() == (set() if on else {"r"})
    assert not any(event.details["unclean"] for event in story.timeline.of(What.ELECTED))


@switched
def test_kip_320_a_fetch_of_a_former_term_does_not_count_for_what_was_cut_since(on: bool) -> None:
    """Otherwise r is acknowledged because C had it once, and C is the next to lead."""
    story = heard_from_a_former_term(*unless(on, "fetches_name_leader_epochs"))
    story.kill(A)
    story.kill(B)
    story.until_fenced(A)
    story.heal(A)
    assert story.until_led() == C
    story.start(A)
    story.start(B)
    story.run_for(20)

    assert story.lost() == (set() if on else {"r"})


@pytest.mark.parametrize(
    ("off", "on", "lost"),
    [
        ((), (), set()),
        (("truncate_by_epochs",), (), {"m"}),
        (("truncate_by_epochs",), ("acks_wait_for_replicas_watermark",), set()),
    ],
    ids=["by epochs", "at the high watermark", "at the high watermark, which acknowledgements have waited for"],
)
def test_kafka_1211_acknowledgements_that_wait_for_the_replicas_watermark_keep_a_message_as_well(
    off: tuple[str, ...], on: tuple[str, ...], lost: set[str]
) -> None:
    """The title's own proposal: then C may go back to its high watermark, for m is before it."""
    story = cut_at_the_high_watermark(off, on)
    story.kill(B)
    assert story.until_led() == C
    story.heal(B)
    story.start(A)
    story.start(B)
    story.until_isr(A, B, C)

    assert story.lost() == lost


def test_kafka_1211_acknowledgements_that_wait_cost_another_round_trip() -> None:
    """Why epochs were chosen instead."""
    usual, waiting = Story(A, B, C), Story(A, B, C, on=("acks_wait_for_replicas_watermark",))
    took = []
    for story in (usual, waiting):
        story.run_for(1)
        sent = [story.write(f"r{number}") for number in range(20)]
        took.append(sum(one.acknowledged_at - one.sent_at for one in sent if one.acknowledged_at is not None))

    assert 1.3 * took[0] < took[1] < 2 * took[0]


def test_kafka_1211_a_replica_that_was_killed_forgets_its_watermark_so_waiting_for_it_was_in_vain() -> None:
    """The weakness of the title's proposal: the mark that was waited for is in memory, its checkpoint is older."""
    off, on = ("truncate_by_epochs",), ("acks_wait_for_replicas_watermark",)
    story = Story(A, B, brokers=(A, B), off=off, on=on)
    story.write("m")
    story.kill(A)
    assert story.until_led() == B
    story.cut(A, B)
    story.bring_back(A)
    story.run_for(1)
    assert story.holds(A) == []
    story.kill_and_fence(B)
    story.elect(ORDERS, ElectionType.UNCLEAN)
    story.until_led()

    assert story.lost() == {"m"}


@switched
def test_kafka_1211_a_leader_that_has_forgotten_a_generation_does_not_say_where_it_ended(on: bool) -> None:
    """It would say: where those that it still knows begin. A then keeps m2 where the others have x, and joins the ISR.

    Refused, A stays outside until somebody gives it an empty disk.
    """
    story = one_generation_is_kept(*unless(on, "refuse_forgotten_epochs"))
    assert set(story.isr) == ({B, C} if on else {A, B, C})
    assert story.holds(A) == (["m1", "m2"] if on else ["m1", "m2", "y", "z"])
    story.replace_disk(A) if on else None
    story.start(A)
    story.until_isr(A, B, C)
    story.kill_and_fence(B)
    story.kill(C)
    assert story.until_led() == A

    assert story.lost() == (set() if on else {"x"})


@switched
def test_kafka_1211_a_follower_that_has_forgotten_a_generation_does_not_guess_where_to_cut(on: bool) -> None:
    """B says where the generation of its r ended, and A had generations before and after that one: it kept the newest.

    It would cut where that one begins, and keep s, where B has r.
    """
    one = Settings(elr=False, preferred_check=None, vector_limit=1)
    story = led_by_turns(*unless(on, "refuse_forgotten_epochs"), settings=one, turns=2)
    assert story.holds(A) == (["m", "s", "u1"] if on else ["m", "s", "t"])
    story.run_for(12)
    assert (A in story.isr) is not on
    story.kill_and_fence(B)
    story.start(A)
    story.start(B) if on else None
    story.until_led()

    assert story.lost() == (set() if on else {"r"})


def test_kafka_1211_who_keeps_one_generation_and_cuts_all_of_it_still_knows_the_one_before() -> None:
    """B's answer is exact there, and A finds the common end with it. Before that nobody can tell any more."""
    one = Settings(elr=False, preferred_check=None, vector_limit=1)
    story = led_by_turns(settings=one)

    assert story.holds(A) == ["m"]
    assert story.truth.epochs(A, ORDERS) == ()
    assert story.brokers[A].copies[ORDERS].log.forgotten == 0


@switched
def test_kafka_1211_clients_are_not_told_either_where_a_forgotten_generation_ended(on: bool) -> None:
    """They would think that what they have read is still there."""
    story = one_generation_is_kept(*unless(on, "refuse_forgotten_epochs"))
    leader, current = story.until_led(), story.state.leader_epoch
    read_m2 = ReadFrom(None, current, Offset(2), LeaderEpoch(0))
    asked = story.ask(leader, EndsOfEpochs({ORDERS: (current, LeaderEpoch(0))})).partitions[ORDERS]
    read = story.ask(leader, ReadLogs({ORDERS: read_m2})).partitions[ORDERS]

    assert asked[0] is read.error is (Error.OFFSET_NOT_AVAILABLE if on else Error.NONE)
    assert story.holds(leader)[:2] == ["m1", "x"]
    assert read.diverging is None


def test_kip_320_a_consumer_learns_that_what_it_read_was_cut_and_a_stale_one_that_it_is_stale() -> None:
    """OffsetsForLeaderEpoch: it read m2, which A had alone. Leader epochs fence it as they fence followers."""
    story = Story(A, B, brokers=(A, B))
    story.write("m1")
    story.cut(A, B)
    story.begin_to_write("m2", acks="1")
    story.run_for(0.1)
    read = (LeaderEpoch(0), len(story.holds(A)))
    story.kill(A)
    assert story.until_led() == B
    story.write("x")
    current = story.state.leader_epoch
    answers = [
        story.ask(B, EndsOfEpochs({ORDERS: (LeaderEpoch(named), read[0])})).partitions[ORDERS]
        for named in (current - 1, current, current + 1)
    ]

    assert [answer[0] for answer in answers] == [Error.FENCED_LEADER_EPOCH, Error.NONE, Error.UNKNOWN_LEADER_EPOCH]
    assert answers[1][1:] == (0, 1)
    assert read[1] > answers[1][2]


@pytest.mark.parametrize("limit", [2, 3, None])
def test_kafka_1211_enough_kept_generations_are_as_good_as_all(limit: int | None) -> None:
    story = Story(A, B, C, settings=Settings(elr=False, preferred_check=None, vector_limit=limit))
    story.write("m1")
    story.cut(A, B)
    story.cut(A, C)
    story.begin_to_write("m2", acks="1")
    story.run_for(0.1)
    story.kill(A)
    story.heal(A)
    story.until_led()
    story.write("x")
    story.start(A)
    story.until_isr(A, B, C)

    assert story.holds(A) == story.holds(B) == story.holds(C) == ["m1", "x"]


@switched
def test_a_follower_that_has_more_than_its_leader_goes_back_to_where_that_ends(on: bool) -> None:
    """A lost its disk and leads all the same, as the last member of the ISR. Without epochs its log's range says so."""
    story = Story(A, B, brokers=(A, B), off=unless(on, "truncate_by_epochs"))
    story.write("r")
    story.run_for(6)
    story.kill(B)
    story.until_isr(A)
    story.replace_disk(A)
    story.until_fenced(A)
    story.start(A)
    assert story.until_led() == A
    story.start(B)
    story.until_isr(A, B)

    assert story.holds(A) == story.holds(B) == []


def test_a_follower_whose_next_record_its_leader_has_deleted_begins_where_the_leader_does() -> None:
    """In the middle of a batch: the leader still has all of it, and the follower takes the rest."""
    story = Story(A, B, brokers=(A, B))
    story.write("first")
    story.run_for(1)
    story.kill(B)
    story.until_isr(A)
    story.write("second", records=4)
    story.delete_records(ORDERS, 3)
    story.start(B)
    story.until_isr(A, B)

    assert story.holds(B) == ["second", "second"]
    assert (story.truth.log_end(B, ORDERS), story.truth.log_end(A, ORDERS)) == (5, 5)
    assert story.lost() == set()


def test_a_fetch_that_was_under_way_when_its_leaders_host_died_meets_a_process_that_does_not_know_it() -> None:
    """The follower is told to begin anew, and need not wait until it gives that fetch up."""
    story = Story(A, B, brokers=(A, B), settings=Settings(elr=False, preferred_check=None, fetch_timeout=120.0))
    story.write("r")
    story.run_for(6)
    story.isolate(B)
    story.until_isr(A)
    fetch = story.hold(B, A, "Fetch")
    assert not story.run_while(lambda: fetch.held == 0)
    story.host_crash(A)
    story.until_fenced(A)
    story.heal(B)
    story.until_unfenced(B)
    story.start(A)
    assert story.until_led() == A
    story.run_for(10)
    assert story.isr == (A,)
    fetch.release()
    story.run_for(2)

    assert set(story.isr) == {A, B}
    assert story.lost() == set()
