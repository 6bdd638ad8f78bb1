"""What ends the word of brokers that no longer answer: the cluster has gone on without it, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from kafka_recovery.cluster.floor import Floor
from kafka_recovery.cluster.membership import Membership
from kafka_recovery.cluster.pulse import Pulses
from kafka_recovery.cluster.standing import APPLIED_ON, COMMITTED_ON, Standing, standing
from kafka_recovery.domain.ids import BrokerId
from unit.cluster.play import PATIENCE, SOON, Play
from unit.cluster.stage import Heard
from unit.cluster.test_floor import AN_HOUR, LIE, ONE, offset, refused
from unit.cluster.test_membership import looking


def at(number: int) -> Standing:
    """All brokers and the controller."""
    return Standing({BrokerId(id): offset(number) for id in (1, 4, 5)}, offset(number))


def quorum(play: Play, heard: Heard, watermark: int) -> Any:
    """What DescribeQuorum says by this watermark."""
    answer = play.describe_quorum(heard)
    answer.topics[0].partitions[0].high_watermark = watermark
    return answer


def refuses(play: Play, error: int | None, heard: Heard) -> Any:
    """DescribeQuorum, with this error or without an answer."""
    answer = play.describe_quorum(heard)
    answer.topics[0].partitions[0].error_code = error
    return None if error is None else answer


def dies(play: Play, *brokers: int) -> None:
    for broker in brokers:
        play.members[broker].roles = dict.fromkeys(play.members[broker].roles, lambda heard: heard.cut())


@dataclass
class Rest:
    """Brokers 1, 4 and 5, which still answer; 2 and 3 claimed more, were fenced, and died."""

    members: Membership
    play: Play

    def go_on(self, *brokers: int, commits: bool = True) -> None:
        """These apply as much more as is committed meanwhile."""
        self.play.applied |= {id: self.play.applied[id] + 10 for id in brokers}
        if self.play.watermark is not None and commits:
            self.play.watermark += 10

    async def refused_for(self, lasts: timedelta, *going_on: int, commits: bool = True) -> None:
        """Nothing is shown all this time, while these go on."""
        for _ in range(12):
            await refused(self.members)
            self.go_on(*going_on, commits=commits)
            await asyncio.sleep(lasts.total_seconds() / 12)

    async def shown(self, *going_on: int) -> None:
        """Something is, from now on."""
        for _ in range(3):
            self.go_on(*going_on)
            await asyncio.sleep(5)
            assert (await self.members.look(SOON)).at.id in {1, 4, 5}


@asynccontextmanager
async def claimed(
    number: int,
    *,
    confirmed: bool,
    watermark: int | None = 101,
    lists_fenced: bool = True,
    dead: tuple[int, ...] = (2, 3),
) -> AsyncIterator[Rest]:
    """`confirmed`: the two relay that the controller has committed as much."""
    applied = {1: 100, 2: number, 3: number, 4: 100, 5: 100}
    play = Play(applied=applied, watermark=watermark, lists_fenced=lists_fenced)
    async with looking(play, 1, 2, 3, 4, 5) as members:
        for broker in (2, 3) if confirmed else ():
            play.members[broker].roles["DescribeQuorum"] = lambda heard: quorum(play, heard, number + 1)
        await members.current(PATIENCE)
        play.fenced |= {2, 3}
        await Pulses(members).take(PATIENCE)
        dies(play, *dead)
        yield Rest(members, play)


async def test_what_is_committed_ends_below_the_high_watermark() -> None:
    play = Play(applied={1: 100}, watermark=101)
    async with looking(play, 1) as members:
        assert await standing(members.brokers, play.address(1), {}, SOON) == Standing({}, offset(100))


class TestLiarsThatDied:
    """Nobody can be held any more to what they said."""

    @pytest.mark.parametrize("lists_fenced", [True, False])
    async def test_what_the_controller_seemed_to_confirm_ends_once_it_has_gone_on_without_it(
        self, lists_fenced: bool
    ) -> None:
        """Who is not listed (Kafka 3.9) is not asked, and so is not seen to be silent."""
        async with claimed(LIE, confirmed=True, lists_fenced=lists_fenced) as rest:
            await rest.refused_for(COMMITTED_ON, 1, 4, 5)
            await rest.shown(1, 4, 5)

    async def test_where_the_controller_may_not_be_asked_it_ends_when_most_have_gone_on_for_minutes(self) -> None:
        async with claimed(LIE, confirmed=False, watermark=None) as rest:
            await rest.refused_for(APPLIED_ON, 1, 4)
            await rest.shown(1, 4)

    async def test_it_ends_as_well_if_the_right_to_ask_is_taken_away_meanwhile(self) -> None:
        async with claimed(LIE, confirmed=True) as rest:
            await rest.refused_for(COMMITTED_ON / 2, 1, 4, 5)
            rest.play.watermark = None
            await rest.refused_for(APPLIED_ON, 1, 4, 5)
            await rest.shown(1, 4, 5)

    async def test_one_that_lives_and_claims_it_still_does_not_outweigh_the_others(self) -> None:
        async with claimed(LIE, confirmed=False, watermark=None, dead=(2,)) as rest:
            await rest.refused_for(APPLIED_ON, 1, 4, 5)
            await rest.shown(1, 4, 5)

    async def test_a_third_liar_is_not_vouched_for_by_the_dead(self) -> None:
        async with claimed(LIE, confirmed=True) as rest:
            await rest.refused_for(COMMITTED_ON, 1, 4, 5)
            await rest.shown(1, 4, 5)
            rest.play.applied |= {5: LIE}
            assert (await rest.members.look(SOON)).at.id in {1, 4}


class TestTruthOfTheDead:
    """Two brokers said what is so. Those that are left do not know it, and may be cut off from it."""

    async def test_is_no_less_true_after_an_hour_at_a_controller_that_was_deposed(self) -> None:
        """The brokers left are on the side of a controller that was deposed, and which says that there is no more."""
        async with claimed(900, confirmed=True) as rest:
            await rest.refused_for(AN_HOUR)
            assert "seen at offset 900 before" in await refused(rest.members)

    async def test_nor_after_an_hour_without_the_right_to_ask(self) -> None:
        async with claimed(900, confirmed=False, watermark=None) as rest:
            await rest.refused_for(AN_HOUR)

    async def test_nor_because_of_what_was_still_under_way_to_that_controller(self) -> None:
        async with claimed(900, confirmed=True) as rest:
            await rest.refused_for(COMMITTED_ON / 3, 1, 4, 5)
            await rest.refused_for(AN_HOUR)

    async def test_nor_if_it_was_told_of_but_twice(self) -> None:
        async with claimed(900, confirmed=True) as rest:
            await refused(rest.members)
            rest.go_on(1, 4, 5)
            await asyncio.sleep(AN_HOUR.total_seconds())
            await refused(rest.members)

    async def test_nor_because_a_few_brokers_go_on(self) -> None:
        async with claimed(900, confirmed=True) as rest:
            await rest.refused_for(5 * COMMITTED_ON, 1)

    @pytest.mark.parametrize("error", [None, 41])
    async def test_nor_because_brokers_go_on_whom_no_controller_answers(self, error: int | None) -> None:
        async with claimed(900, confirmed=True) as rest:
            for broker in (1, 4, 5):
                rest.play.members[broker].roles["DescribeQuorum"] = partial(refuses, rest.play, error)
            await rest.refused_for(2 * APPLIED_ON, 1, 4, 5)

    async def test_nor_if_the_controller_turns_out_to_have_as_much_while_they_are_away(self) -> None:
        async with claimed(900, confirmed=True) as rest:
            await rest.refused_for(COMMITTED_ON / 2, 1, 4, 5)
            rest.play.watermark = 1000
            await rest.refused_for(COMMITTED_ON, 1, 4, 5)

    async def test_nor_because_brokers_catch_up_that_were_away(self) -> None:
        async with claimed(900, confirmed=True) as rest:
            rest.play.watermark = 901
            await rest.refused_for(2 * COMMITTED_ON, 1, 4, 5, commits=False)
            rest.play.applied |= {1: 900}
            assert (await rest.members.look(SOON)).as_of == 900

    async def test_what_is_said_again_after_it_was_refuted_is_doubted_anew(self) -> None:
        """By then it may be so."""
        floor = Floor()
        floor.read(ONE, offset(900), offset(900))
        stood = at(200)
        floor.doubt(stood)
        await asyncio.sleep(COMMITTED_ON.total_seconds())
        floor.doubt(stood)
        floor.withdraw(ONE, offset(200))
        floor.read(ONE, offset(900), offset(900))
        await asyncio.sleep(COMMITTED_ON.total_seconds())
        floor.doubt(at(300))
        assert floor.shared == 900

    async def test_a_claim_that_is_newer_is_doubted_anew(self) -> None:
        """Others answer again for a moment, and say still more."""
        async with claimed(900, confirmed=True) as rest:
            await rest.refused_for(COMMITTED_ON - timedelta(seconds=5), 1, 4, 5)
            rest.members.floor.confirm(offset(901))
            await rest.refused_for(COMMITTED_ON, 1, 4, 5)
