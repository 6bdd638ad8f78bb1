"""Elections that the controller refuses, or has no need to hold: an earlier copy of the request may have been held."""

from __future__ import annotations

import pytest

from kafka_recovery.domain.election import Answer, Relay
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.outcome import Outcome
from unit.recovery.world import ORDERS, World, code

NO = (Answer.CHANGED, Answer.REFUSED, Answer.NOT_NEEDED)


@pytest.mark.parametrize("told", NO)
@pytest.mark.parametrize(
    ("led_by", "elr", "sent", "outcome"),
    [
        pytest.param(2, None, True, Outcome.FAILED, id="by the designated one"),
        pytest.param(2, None, False, Outcome.REFUSED, id="by the designated one, and nothing was sent"),
        pytest.param(1, None, True, Outcome.REFUSED, id="by a member of the ISR, which is what is left of it"),
        pytest.param(2, (1,), True, Outcome.IN_DOUBT, id="by somebody, whom an empty ISR does not tell"),
        pytest.param(None, None, True, Outcome.REFUSED, id="by nobody"),
    ],
)
async def test_what_may_have_been_elected_before_the_controller_said_no_is_not_called_refused(
    world: World, told: Answer, led_by: int | None, elr: tuple[int, ...] | None, *, sent: bool, outcome: Outcome
) -> None:
    """A broker that loses its way to the controller sends a request again: by then the first one's leader is dead."""

    def elect_and_lose_it() -> None:
        world.kafka.denied[ORDERS] = told
        world.kafka.nodes[2].alive = False
        if led_by is not None:
            world.kafka.nodes[led_by].alive = False
            world.kafka.elect_uncleanly(ORDERS, led_by)
            world.kafka.fence(led_by)
        world.kafka.fence(2)
        if elr:
            world.kafka.partitions[ORDERS].isr = ()

    world.offline({3: 15, 2: 27}, elr=elr)
    world.kafka.relay = Relay(BrokerId(3), "kafka-3", 9092) if sent else None
    plan = await world.plan()
    world.before("elect", elect_and_lose_it)

    report = await world.execute(plan)

    assert report[ORDERS].outcome is outcome
    assert outcome is Outcome.REFUSED or code(report) == "LeaderGone"
    assert world.kept_its_promises()


@pytest.mark.parametrize("told", NO)
@pytest.mark.parametrize("leaders", [(2, 1), (1, 2)])
async def test_where_several_led_before_the_controller_said_no_it_is_looked_at_again(
    world: World, told: Answer, leaders: tuple[int, int]
) -> None:
    """Four epochs later the last one is left alone in the ISR, and nothing tells who led first."""

    def elect_twice_and_lose_both() -> None:
        world.kafka.denied[ORDERS] = told
        for leader in leaders:
            world.kafka.nodes[leader].alive, world.kafka.nodes[leader].fenced = True, False
            world.kafka.elect_uncleanly(ORDERS, leader)
            world.kafka.nodes[leader].alive = False
            world.kafka.fence(leader)

    world.offline({3: 15, 2: 27})
    world.kafka.relay = Relay(BrokerId(3), "kafka-3", 9092)
    plan = await world.plan()
    world.before("elect", elect_twice_and_lose_both)

    report = await world.execute(plan)

    assert (report[ORDERS].outcome, code(report)) == (Outcome.IN_DOUBT, "LeaderGone")
    assert await world.open_runs() != []
    assert world.kept_its_promises()


@pytest.mark.parametrize("told", NO)
@pytest.mark.parametrize("logs", [{3: 15, 2: 27}, {3: 27, 2: 15}], ids=["order altered", "order left alone"])
@pytest.mark.parametrize("unseen", ["hidden", "mute"])
async def test_what_may_have_been_elected_before_the_controller_said_no_is_in_doubt_until_it_is_seen(
    world: World, told: Answer, logs: dict[int, int], unseen: str
) -> None:
    """By then its leader is dead, and nobody can be asked about it; later it is back, with all that it had."""
    planned = max(logs, key=lambda broker: logs[broker])

    def elect_and_lose_it() -> None:
        world.kafka.denied[ORDERS] = told
        world.kafka.elect_uncleanly(ORDERS, planned)
        world.kafka.nodes[planned].alive = False
        world.kafka.fence(planned)

    def see(nothing: bool) -> None:
        if unseen == "mute":
            for node in world.kafka.nodes.values():
                node.mute = nothing
        elif nothing:
            world.kafka.hidden.add(ORDERS)
        else:
            world.kafka.hidden.clear()

    world.offline(logs)
    world.kafka.relay = Relay(BrokerId(3), "kafka-3", 9092)
    plan = await world.plan()
    world.before("elect", elect_and_lose_it)
    world.after("elect", lambda: see(nothing=True))
    unknown = await world.execute(plan)
    left_open = await world.open_runs()
    see(nothing=False)
    world.kafka.denied.clear()
    world.kafka.nodes[planned].alive, world.kafka.nodes[planned].fenced = True, False
    world.kafka.elect_uncleanly(ORDERS, planned)
    known = await world.resume()

    assert unknown[ORDERS].outcome is Outcome.IN_DOUBT
    assert left_open != []
    assert (known[ORDERS].outcome, known[ORDERS].leader) == (Outcome.RECOVERED, planned)
    assert await world.open_runs() == []
    assert world.kept_its_promises()


@pytest.mark.parametrize("told", NO)
async def test_what_was_never_sent_is_refused_though_nothing_is_to_be_seen_afterwards(
    world: World, told: Answer
) -> None:
    world.offline({3: 27, 2: 15})
    world.kafka.denied[ORDERS] = told
    plan = await world.plan()
    world.after("elect", lambda: world.kafka.hidden.add(ORDERS))

    report = await world.execute(plan)

    assert report[ORDERS].outcome is Outcome.REFUSED
    assert await world.open_runs() == []


@pytest.mark.parametrize(
    ("leads", "told", "outcome"),
    [
        (2, Answer.CHANGED, Outcome.RECOVERED),
        (2, Answer.REFUSED, Outcome.RECOVERED),
        (1, Answer.CHANGED, Outcome.RECOVERED_CLEANLY),
    ],
)
async def test_who_leads_though_the_controller_said_no_is_ours_unless_a_member_of_the_isr_came_back(
    world: World, leads: int, told: Answer, outcome: Outcome
) -> None:
    def elect_and_refuse() -> None:
        world.kafka.denied[ORDERS] = told
        world.kafka.nodes[leads].alive, world.kafka.nodes[leads].fenced = True, False
        world.kafka.elect_uncleanly(ORDERS, leads)

    world.offline({3: 15, 2: 27})
    world.kafka.relay = Relay(BrokerId(3), "kafka-3", 9092)
    world.before("elect", elect_and_refuse)

    report = await world.recover()

    assert (report[ORDERS].outcome, report[ORDERS].leader) == (outcome, leads)
    assert world.kept_its_promises()
