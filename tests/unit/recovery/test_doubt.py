"""Requests that were not answered, through brokers that may hold them back, and orders that could not be read."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from kafka_recovery.domain.election import Relay
from kafka_recovery.domain.ids import BrokerId, MetadataOffset
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.recovery.engine import Effort
from unit.recovery.brokers import APPLIED, Fate, Unavailable
from unit.recovery.world import AUTO, COARSE, ORDERS, World, code, crash, dies_in

QUARANTINE = timedelta(seconds=60)
STALL = timedelta(minutes=3)


def stand_still(world: World) -> None:
    """The broker that the requests go through stops in its tracks, with the last one in its queue."""
    world.kafka.nodes[4].mute = True


def go_on(world: World) -> None:
    world.kafka.nodes[4].mute = False


@pytest.fixture
def world(world: World) -> World:
    world.offline({3: 15, 2: 27})
    world.kafka.relay = Relay(BrokerId(4), "b4", 9092)
    return world


async def test_a_request_is_waited_out_from_when_its_relay_goes_on(world: World) -> None:
    """The election is held three minutes and fifty seconds after it was asked for, by the order it was asked under."""
    world.kafka.elect_fates = [Fate.LOST]
    held: list[tuple[tuple[int, ...], int]] = []

    def forward() -> None:
        go_on(world)
        world.clock.later(timedelta(seconds=50), take_effect)

    def take_effect() -> None:
        orders = world.kafka.partitions[ORDERS]
        held.append((orders.assignment, orders.epoch))
        world.kafka.elect_uncleanly(ORDERS, orders.assignment[0])

    world.before("elect", partial(stand_still, world))
    world.after("elect", lambda: world.clock.later(STALL, forward))

    report = await world.recover()

    assert held == [((2, 3, 1), 5)], "nothing was put back, and nobody else was elected, while it could take effect"
    assert (report[ORDERS].outcome, report[ORDERS].leader) == (Outcome.RECOVERED, 2)
    assert {why.code for why in world.waits} == {"RelaySilent", "InDoubt"}
    assert world.kept_its_promises()


async def test_what_a_relay_holds_that_stays_silent_stays_in_doubt_and_its_run_open(world: World) -> None:
    world.kafka.elect_fates = [Fate.LOST]
    world.before("elect", partial(stand_still, world))

    report = await world.recover()

    assert (report[ORDERS].outcome, report[ORDERS].order_restored) == (Outcome.IN_DOUBT, False)
    assert world.changed() == ["designate", "elect"], "its order stands until the request can't take effect any more"
    assert not world.waited_out()
    assert sum(world.clock.sleeps, timedelta(0)) >= COARSE.relay
    assert await world.open_runs() == list(report.plans)


async def test_whoever_goes_on_with_a_run_waits_for_the_relay_that_may_still_hold_its_request(world: World) -> None:
    """The process that asked is long gone when the broker in the middle goes on."""
    world.kafka.elect_fates = [Fate.LOST]
    world.before("elect", partial(stand_still, world))
    await world.recover()
    changed = world.changed()

    silent = await world.resume()

    assert (silent[ORDERS].outcome, code(silent)) == (Outcome.IN_DOUBT, "RelaySilent")
    assert world.changed() == changed
    assert len(await world.open_runs()) == 1

    go_on(world)
    world.clock.later(timedelta(seconds=50), partial(world.kafka.elect_uncleanly, ORDERS, 2))
    world.steps.calls.clear()
    resumed = await world.resume()

    assert (resumed[ORDERS].outcome, resumed[ORDERS].leader) == (Outcome.RECOVERED, 2)
    assert "elect" not in world.changed()
    assert world.kept_its_promises()
    assert await world.open_runs() == []


async def test_what_was_elected_as_its_order_stood_is_not_told_as_altered_and_is_held_for_whoever_holds_its_election(
    world: World,
) -> None:
    """Its order is its owner's, whatever the silent broker does; that it may still elect is why nobody else does."""
    world.kafka.designates = True
    world.kafka.elect_fates = [Fate.LOST]
    world.before("elect", partial(stand_still, world))

    reports = [await world.recover(), await world.resume(), await world.undo(), await world.recover()]

    assert world.kept_its_promises(), "no order was ever altered"
    assert [report[ORDERS].order_restored for report in reports] == [True] * 4
    assert [report[ORDERS].is_settled for report in reports] == [False, False, False, True]
    assert code(reports[-1]) == "RelaySilent"
    assert world.changed().count("elect") == 1
    assert await world.open_runs() == list(reports[0].plans), "whoever goes on waits for it as well"


async def test_an_order_that_a_silent_relay_may_yet_alter_is_neither_told_as_altered_nor_as_the_original(
    world: World,
) -> None:
    world.kafka.designate_fates = [Fate.LOST]
    world.before("designate", partial(stand_still, world))

    reports = [await world.recover(), await world.resume(), await world.recover()]

    assert [report[ORDERS].order_restored for report in reports] == [None] * 3
    assert code(reports[-1]) == "OrderNotRestored"
    assert world.changed() == ["designate"]
    assert await world.open_runs() == list(reports[0].plans)


async def test_a_relay_whose_process_is_gone_forwards_nothing_more_than_it_did(world: World) -> None:
    world.kafka.elect_fates = [Fate.DONE]
    world.before("elect", partial(world.kafka.kill, 4))

    report = await world.recover()

    assert [why.code for why in world.waits] == ["InDoubt"]
    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert world.kept_its_promises()


async def test_an_order_whose_restore_a_silent_relay_holds_is_not_put_back_once_more(world: World) -> None:
    world.kafka.restore_fates = [Fate.LOST]
    world.before("restore", partial(stand_still, world))

    report = await world.recover()

    assert (report[ORDERS].outcome, report[ORDERS].order_restored) == (Outcome.RECOVERED, False)
    assert world.changed().count("restore") == 1
    assert await world.open_runs() == list(report.plans)

    go_on(world)
    await world.undo()

    assert world.kept_its_promises()
    assert await world.open_runs() == []


async def test_who_leads_after_a_relay_was_waited_for_in_vain_is_told(world: World) -> None:
    """The wait lasts minutes. The leader that was seen before it dies meanwhile, and another one follows."""
    world.kafka.restore_fates = [Fate.LOST]
    world.before("restore", partial(stand_still, world))
    world.clock.later(timedelta(seconds=90), partial(world.kafka.elect_uncleanly, ORDERS, 3))

    report = await world.recover()

    assert report[ORDERS].order_restored is False
    assert (report[ORDERS].leader, report[ORDERS].leader_epoch) == (3, world.kafka.partitions[ORDERS].epoch)


async def test_whoever_goes_on_with_a_run_waits_for_the_relay_that_its_process_knew(world: World) -> None:
    """The process dies while it waits. Another one that did not know whom to wait for would put the order back."""
    world.kafka.elect_fates = [Fate.LOST]
    world.before("elect", partial(stand_still, world))
    world.before("sleep", crash, nth=4)
    await dies_in(world.recover())

    report = await world.resume()

    assert (report[ORDERS].outcome, code(report), report[ORDERS].order_restored) == (
        Outcome.IN_DOUBT,
        "RelaySilent",
        None,
    )
    assert world.changed() == ["designate", "elect"]

    go_on(world)
    report = await world.resume()

    assert report.recovered
    assert world.kept_its_promises()
    assert await world.open_runs() == []


@pytest.mark.parametrize(
    ("release", "waits"),
    [
        pytest.param("3.9", ["RelaySilent", "InDoubt"], id="not listed for being fenced"),
        pytest.param("4.0", ["InDoubt"], id="not registered any more"),
    ],
)
async def test_a_relay_that_is_not_listed_is_waited_for_where_it_may_only_be_fenced(
    world: World, release: str, waits: list[str]
) -> None:
    """It stands still for longer than its session, and Kafka 3.9 lists nobody who is fenced."""
    world.kafka.release = release
    world.kafka.elect_fates = [Fate.LOST]
    world.before("elect", partial(stand_still, world))
    world.before("sleep", crash, nth=4)
    await dies_in(world.recover())
    if release == "3.9":
        world.kafka.fence(4)
    else:
        del world.kafka.nodes[4]
    world.waits.clear()
    world.clock.later(STALL, lambda: go_on(world) if 4 in world.kafka.nodes else None)

    report = await world.resume()

    assert list(dict.fromkeys(why.code for why in world.waits)) == waits
    assert report.recovered
    assert await world.open_runs() == []


async def test_only_designations_that_were_never_answered_are_no_elections(world: World) -> None:
    """None of them was elected: that the partition has no leader is no failure of an election."""
    world.kafka.designate_fates = [Fate.LOST] * 9

    report = await world.recover(AUTO, effort=Effort(attempts=1))

    assert report[ORDERS].outcome is Outcome.REFUSED, report
    assert "elect" not in world.changed()
    assert world.kept_its_promises()


# An order that could not be read


@pytest.mark.parametrize("hidden_when", ["before restore", "after restore"])
async def test_an_order_that_could_not_be_read_is_not_called_restored(world: World, hidden_when: str) -> None:
    """The principal's right to describe the topic is taken back: deleted and made anew by whoever keeps the ACLs."""
    world.steps.hook(hidden_when, 1, lambda: world.kafka.hidden.add(ORDERS))

    report = await world.recover()

    assert (report[ORDERS].outcome, report[ORDERS].order_restored) == (Outcome.IN_DOUBT, None)
    assert code(report) == "InDoubt", "its leader answered, and may have died since"
    assert await world.open_runs() == list(report.plans)

    world.kafka.hidden.clear()
    undone = await world.undo()

    assert undone[ORDERS].outcome is Outcome.RECOVERED
    assert undone[ORDERS].order_restored
    assert world.kept_its_promises()
    assert await world.open_runs() == []


async def test_an_order_that_was_read_only_in_older_metadata_is_not_called_restored(world: World) -> None:
    world.after("restore", lambda: setattr(world.kafka, "applied", APPLIED - 10))

    report = await world.recover()

    assert not report[ORDERS].order_restored
    assert await world.open_runs() == list(report.plans)


async def test_an_order_that_could_not_be_read_is_asked_for_once_more(world: World) -> None:
    """Nobody knows whether it was restored: to restore it again is harmless."""
    world.after("restore", lambda: world.kafka.hidden.add(ORDERS))
    world.before("restore", world.kafka.hidden.clear, nth=2)

    report = await world.recover()

    assert world.changed().count("restore") == 2
    assert report[ORDERS].order_restored
    assert await world.open_runs() == []


async def test_a_topic_that_brokers_with_older_metadata_do_not_know_is_not_said_to_be_gone(world: World) -> None:
    """It was made after what they have applied. The brokers before did not say how new their metadata are."""
    plan = await world.plan()
    world.kafka.applied = None

    def older() -> None:
        world.kafka.applied = MetadataOffset(APPLIED - 10)
        world.kafka.partitions.pop(ORDERS)

    world.after("restore", older)

    report = await world.execute(plan)

    assert code(report) == "InDoubt"
    assert not report[ORDERS].order_restored
    assert await world.open_runs() == list(report.plans)


@pytest.mark.parametrize("designates", [True, False])
async def test_a_topic_that_can_not_be_seen_after_its_election_is_not_said_to_be_refused(
    world: World, designates: bool
) -> None:
    """Where elections name their leaders no order is to be read back, so nothing else tells that it is unknown."""
    world.kafka.designates = designates
    world.kafka.nodes[2].busy = True
    world.after("elect", lambda: world.kafka.hidden.add(ORDERS))

    report = await world.recover()

    assert (report[ORDERS].outcome, code(report)) == (Outcome.IN_DOUBT, "TopicAuthorizationFailed")
    assert report[ORDERS].order_restored is (True if designates else None)
    assert await world.open_runs() == list(report.plans)

    world.kafka.hidden.clear()
    world.kafka.nodes[2].busy = False
    assert (await world.resume())[ORDERS].outcome is Outcome.RECOVERED


async def test_a_topic_that_can_not_be_seen_when_its_run_is_gone_on_with_stays_unknown(world: World) -> None:
    world.kafka.designates = True
    world.after("elect", crash)
    await dies_in(world.recover())
    world.calm_down()
    world.kafka.hidden.add(ORDERS)

    report = await world.resume()

    assert report[ORDERS].outcome is Outcome.IN_DOUBT
    assert await world.open_runs() == list(report.plans)
    world.kafka.hidden.clear()
    assert (await world.resume())[ORDERS].outcome is Outcome.RECOVERED


@pytest.mark.parametrize(("gone", "outcome"), [(False, Outcome.IN_DOUBT), (True, Outcome.REFUSED)])
async def test_a_topic_that_is_hidden_when_it_is_to_be_decided_again_is_not_known_and_one_that_is_gone_is_refused(
    world: World, gone: bool, outcome: Outcome
) -> None:
    """Its leader was elected and died: an election was held, so nobody can say that nothing was changed."""

    def hide() -> None:
        if gone:
            world.kafka.partitions.pop(ORDERS)
        else:
            world.kafka.hidden.add(ORDERS)

    world.before("answering", lambda: world.kafka.fence(2))
    world.after("wave_ended", hide)

    report = await world.recover()

    assert report[ORDERS].outcome is outcome
    assert report[ORDERS].order_restored


# The last look


async def test_a_last_look_that_takes_too_long_elects_nobody(world: World) -> None:
    """What it saw first may not hold any more when it is over: it is taken anew, from the beginning."""
    world.after("designate", lambda: world.clock.advance(timedelta(seconds=5)))
    world.before("gather", lambda: world.clock.advance(timedelta(seconds=30)), nth=3)
    elected_after: list[int] = []
    world.before("elect", lambda: elected_after.append(world.steps.calls.count("gather")))

    report = await world.recover()

    assert elected_after[0] > 3
    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert world.kept_its_promises()


async def test_a_last_look_through_which_nobody_is_to_be_seen_elects_nobody(world: World) -> None:
    world.after("designate", lambda: world.clock.advance(timedelta(seconds=5)))
    world.before("gather", lambda: setattr(world.kafka, "applied", APPLIED - 10), nth=3)
    world.after("restore", lambda: setattr(world.kafka, "applied", APPLIED))

    report = await world.recover(AUTO, effort=Effort(attempts=0))

    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, "StaleMetadata")
    assert world.changed() == ["designate", "restore"]
    assert world.kept_its_promises()


# What an election that was held makes of other leaders


async def test_a_member_that_leads_after_an_election_of_this_run_is_not_called_clean(world: World) -> None:
    """It was back, followed the new leader and joined the ISR; then the new leader was shut down."""

    def hand_over() -> None:
        world.kafka.boot(1)
        world.kafka.nodes[1].fenced = False
        orders = world.kafka.partitions[ORDERS]
        orders.ends[1] = orders.ends[2]
        world.kafka.elect_uncleanly(ORDERS, 1)

    world.after("elect", hand_over)

    report = await world.recover()

    assert world.kafka.elected == [(ORDERS, 2)]
    assert (report[ORDERS].outcome, report[ORDERS].leader) == (Outcome.RECOVERED, 1)
    assert code(report) == "MemberLeads"


async def test_an_answer_that_no_election_was_needed_is_no_election(world: World) -> None:
    """The clean member came back between the last look and the request: nobody else was elected."""
    world.before("elect", lambda: world.kafka.start(1))

    report = await world.recover()

    assert world.kafka.elected == []
    assert report[ORDERS].outcome is Outcome.RECOVERED_CLEANLY


@pytest.mark.parametrize("call", ["designate", "elect", "restore"])
async def test_a_driver_that_fails_instead_of_answering_leaves_a_request_in_doubt(world: World, call: str) -> None:
    """Whether anything was sent is not known: it is waited out like one that was not answered."""

    def fail() -> None:
        raise Unavailable

    world.after(call, fail)

    report = await world.recover()

    assert world.waited_out()
    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert world.kept_its_promises()
    assert await world.open_runs() == []


async def test_what_stays_in_doubt_says_which_answer_is_missing(world: World) -> None:
    world.kafka.elect_fates = [Fate.LOST]
    stand_still(world)

    report = await world.recover()

    assert (report[ORDERS].outcome, code(report)) == (Outcome.IN_DOUBT, "BrokerTimeout")
