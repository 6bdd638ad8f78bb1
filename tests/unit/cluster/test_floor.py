"""Below the newest metadata ever read nothing is shown; one broker that tells a wrong number does not lift that."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from kafka_recovery.cluster import floor as floors
from kafka_recovery.cluster.errors import AheadOfController, ClusterUnavailable, StaleMetadata
from kafka_recovery.cluster.floor import Floor
from kafka_recovery.cluster.membership import Membership
from kafka_recovery.cluster.sockets import Address
from kafka_recovery.domain.election import ALL_OFFLINE
from kafka_recovery.domain.ids import BrokerId, MetadataOffset
from kafka_recovery.domain.policy import EvidenceRules
from unit.cluster.play import PATIENCE, SOON, Log, Play, offline
from unit.cluster.test_membership import looking

LIE = 2**62
AN_HOUR = timedelta(hours=1)
ONE, TWO = Address("one", 9092), Address("two", 9092)


def offset(number: int) -> MetadataOffset:
    return MetadataOffset(number)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one broker claims is forgotten at once."""
    monkeypatch.setattr(floors, "ALONE", timedelta(seconds=-1))


class TestFloor:
    async def test_what_one_broker_claims_counts_at_first(self) -> None:
        floor = Floor()
        floor.read(ONE, offset(100), None)
        assert floor.offset == 100

    @pytest.mark.usefixtures("brief")
    async def test_and_not_for_ever(self) -> None:
        floor = Floor()
        floor.read(ONE, offset(LIE), offset(90))
        assert floor.offset == 90

    async def test_it_counts_on_while_it_is_renewed(self) -> None:
        floor = Floor()
        floor.read(ONE, offset(100), None)
        await asyncio.sleep(0.9 * floors.ALONE.total_seconds())
        floor.read(TWO, offset(100), None)
        await asyncio.sleep(0.9 * floors.ALONE.total_seconds())
        assert floor.offset == 100

    async def test_older_metadata_renew_nothing(self) -> None:
        floor = Floor()
        floor.read(ONE, offset(100), None)
        await asyncio.sleep(0.9 * floors.ALONE.total_seconds())
        floor.read(TWO, offset(99), None)
        assert floor.offset == 100
        await asyncio.sleep(0.2 * floors.ALONE.total_seconds())
        assert floor.offset is None

    async def test_what_counts_no_more_gives_way_to_what_is_read_now(self) -> None:
        floor = Floor()
        floor.read(ONE, offset(LIE), offset(80))
        await asyncio.sleep(floors.ALONE.total_seconds() + 1)
        floor.read(TWO, offset(90), offset(80))
        assert floor.offset == 90
        await asyncio.sleep(floors.ALONE.total_seconds() + 1)
        assert floor.offset == 80

    async def test_no_time_ends_what_two_brokers_have_applied(self) -> None:
        floor = Floor()
        floor.read(ONE, offset(100), offset(100))
        await asyncio.sleep(AN_HOUR.total_seconds())
        floor.read(TWO, offset(100), offset(80))
        await asyncio.sleep(AN_HOUR.total_seconds())
        assert floor.offset == 100

    async def test_nor_does_what_is_said_later_end_what_the_controller_has_confirmed(self) -> None:
        floor = Floor()
        floor.read(ONE, offset(LIE), offset(LIE))
        floor.confirm(offset(100))
        floor.withdraw(ONE, offset(90))
        assert floor.offset == 100

    async def test_what_was_confirmed_is_not_taken_back_by_those_that_have_applied_less(self) -> None:
        """Whoever had applied the most has died; those that are left agree upon less, which the controller confirms."""
        floor = Floor()
        floor.read(ONE, offset(100), offset(100))
        floor.confirm(offset(100))
        floor.read(TWO, offset(LIE), offset(90))
        floor.confirm(offset(90))
        floor.withdraw(TWO, offset(90))
        assert floor.offset == 100

    async def test_two_claims_that_were_proven_wrong_count_no_more(self) -> None:
        floor = Floor()
        floor.read(ONE, offset(LIE), offset(LIE))
        floor.withdraw(ONE, offset(90))
        assert floor.offset is None

    async def test_a_claim_that_was_proven_wrong_counts_no_more(self) -> None:
        floor = Floor()
        floor.read(ONE, offset(LIE), offset(90))
        floor.withdraw(TWO, offset(90))
        assert floor.offset == LIE
        floor.withdraw(ONE, offset(90))
        assert floor.offset == 90


async def refused(members: Membership) -> str:
    """Why nothing is shown."""
    with pytest.raises(StaleMetadata) as stale:
        await members.look(SOON)
    return str(stale.value)


class TestOneBrokerLies:
    async def test_what_is_more_than_was_committed_is_its_fault_and_blocks_nobody(self) -> None:
        play = Play(applied={1: 100, 2: 100, 3: LIE})
        async with looking(play, 1, 2, 3) as members:
            first = await members.look(PATIENCE)
            play.applied |= {3: 100}
            again = await members.look(SOON)

        assert (first.at.id, first.as_of) == (1, 100)
        assert first.faults[BrokerId(3)].code == AheadOfController.code
        assert again.as_of == 100
        assert set(again.versions) == {1, 2, 3}

    async def test_it_is_not_the_one_that_current_metadata_are_read_from(self) -> None:
        """So small a lie costs no question of its own: it shows when the controller is asked anyway."""
        play = Play(applied={1: 100, 2: 100, 3: 150})
        async with looking(play, 1, 2, 3) as members:
            assert (await members.current(PATIENCE)).address != play.address(3)
            assert (await members.look(SOON)).as_of == 100

    async def test_evidence_is_read_elsewhere(self) -> None:
        play = Play(applied={1: 100, 2: 100, 3: 150})
        play.add(offline(), b2=Log(27), b3=Log(15))
        async with play.staged(1, 2, 3), play.cluster() as cluster:
            evidence = await cluster.gather(ALL_OFFLINE, EvidenceRules(deadline=PATIENCE))

        assert evidence.cluster.view_from != 3
        problems = {
            replica.broker: replica.problem.code for replica in evidence.partitions[0].replicas if replica.problem
        }
        assert problems[BrokerId(3)] == AheadOfController.code

    async def test_a_cluster_of_liars_is_unavailable_and_says_why(self) -> None:
        play = Play(applied={1: 150})
        async with looking(play, 1) as members:
            with pytest.raises(ClusterUnavailable, match="has committed 100 only"):
                await members.current(PATIENCE)

    async def test_where_the_controller_may_not_be_asked_its_word_counts_for_a_while_and_it_is_named(self) -> None:
        play = Play(applied={1: 100, 2: 100, 3: LIE}, watermark=None)
        async with looking(play, 1, 2, 3) as members:
            assert (await members.look(PATIENCE)).at.id == 3
            play.applied |= {3: 100}
            assert f"Only {play.address(3)} ever said" in await refused(members)

    @pytest.mark.usefixtures("brief")
    async def test_and_then_no_more(self) -> None:
        play = Play(applied={1: 100, 2: 100, 3: LIE}, watermark=None)
        async with looking(play, 1, 2, 3) as members:
            await members.look(PATIENCE)
            play.applied |= {3: 100}
            assert (await members.look(SOON)).as_of == 100


class TestBrokersLieAlike:
    async def test_of_two_neither_is_believed_and_nobody_is_blocked(self) -> None:
        play = Play(applied={1: 100, 2: LIE, 3: LIE})
        async with looking(play, 1, 2, 3) as members:
            assert (await members.look(PATIENCE)).at.id == 1
            play.applied |= {2: 100, 3: 100}
            assert (await members.look(SOON)).as_of == 100

    async def test_of_three_none_is_believed_once_the_controller_is_asked(self) -> None:
        play = Play(applied={1: 100, 2: 150, 3: 150, 4: 150})
        async with looking(play, 1, 2, 3, 4) as members:
            assert (await members.current(PATIENCE)).address == play.address(1)
            play.applied |= {2: 100, 3: 100, 4: 100}
            assert (await members.look(SOON)).as_of == 100

    async def test_nor_is_one_behind_two_addresses(self) -> None:
        play = Play(applied={1: 100, 3: LIE})
        async with looking(play, 1, 2, 3) as members, play.second_way_to(3) as door:
            play.elsewhere[2] = door
            assert (await members.look(PATIENCE)).at.id == 1
            play.applied |= {3: 100}
            assert (await members.look(SOON)).as_of == 100

    async def test_so_small_a_lie_shows_when_the_controller_is_asked_anyway(self) -> None:
        play = Play(applied={1: 100, 2: 150, 3: 150})
        async with looking(play, 1, 2, 3) as members:
            await members.look(PATIENCE)
            assert (await members.current(PATIENCE)).address == play.address(1)
            play.applied |= {2: 100, 3: 100}
            assert (await members.look(SOON)).as_of == 100


class TestFarAhead:
    async def test_who_is_only_well_informed_costs_no_question(self) -> None:
        play = Play(applied={1: 100, 2: 900}, watermark=901)
        async with looking(play, 1, 2) as members:
            assert (await members.look(PATIENCE)).at.id == 2
        assert not play.asked("DescribeQuorum")

    async def test_who_is_far_ahead_and_right_is_believed(self) -> None:
        play = Play(applied={1: 100, 2: 9000}, watermark=9001)
        async with looking(play, 1, 2) as members:
            assert (await members.look(PATIENCE)).at.id == 2

    async def test_a_pulse_through_a_liar_is_the_last_one(self) -> None:
        play = Play(applied={1: 100, 2: LIE})
        async with play.staged(1, 2), play.cluster() as cluster:
            await cluster.pulse(PATIENCE, ask_controller=True)
            await cluster.pulse(PATIENCE, ask_controller=True)
            assert (await cluster.pulse(PATIENCE)).view_from == play.address(1)
            assert await cluster.route(SOON) == play.address(1)
