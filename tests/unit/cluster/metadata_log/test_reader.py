"""The metadata log is followed at whichever controller leads, and what can't be had is said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.cluster.brokers import Address
from kafka_recovery.cluster.errors import BrokerTimeout, ClusterError
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.metadata_log.image import Image
from kafka_recovery.cluster.metadata_log.kept import KeptHistory
from kafka_recovery.cluster.metadata_log.messages import FetchSnapshotRequest
from kafka_recovery.cluster.metadata_log.reader import READING, MetadataLog
from kafka_recovery.cluster.threads import Threads
from kafka_recovery.domain.reason import Reason
from kafka_recovery.simulator.wire.exchange import Values
from kafka_recovery.simulator.wire.record_schemas import record
from unit.cluster.metadata_log.writing import (
    NO_LEADER,
    ORDERS,
    A,
    B,
    C,
    Written,
    batch,
    changed,
    created,
    cut_off,
    minimum_of,
    registered,
    snapshot,
    whole,
)
from unit.virtual import taking_no_time

ONE, TWO = Address("controller-1", 9093), Address("controller-2", 9093)
WITHIN = timedelta(seconds=10)


@dataclass
class Controllers:
    """A quorum of two, as `Brokers` would ask them. `leads`: who does; `committed` None: all that is written.

    `snapshots`: their bytes, by (end, epoch). `start`: where the log begins. `piece`: bytes of an answer. `held`: no
    answer before, of all or of the one that `holds`. `diverges`: where the log ends, by another epoch. `knows_after`:
    so many requests all that is written is committed; 0: `committed` stays.
    """

    log: Written
    epoch: int = 4
    leads: Address = ONE
    committed: int | None = None
    start: int = 0
    snapshots: dict[tuple[int, int], bytes] = field(default_factory=dict)
    refuses: dict[Address, int] = field(default_factory=dict)
    faults: dict[Address, ClusterError] = field(default_factory=dict)
    piece: int = 1 << 20
    asked: list[tuple[Address, Any]] = field(default_factory=list)
    held: asyncio.Event | None = None
    holds: Address | None = None
    diverges: int | None = None
    closed: bool = False
    under_way: int = 0
    most_at_once: int = 0
    knows_after: int = 0

    async def ask(self, address: Address, request: Any, versions: Any, deadline: timedelta, attempts: int = 3) -> Any:
        self.asked.append((address, request))
        if self.knows_after:
            self.knows_after -= 1
            self.committed = self.committed if self.knows_after else None
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        try:
            return await self._answer(address, request)
        finally:
            self.under_way -= 1

    async def _answer(self, address: Address, request: Any) -> Any:
        if self.held is not None and self.holds in (None, address):
            await self.held.wait()
        if address in self.faults:
            raise self.faults[address]
        if address in self.refuses:
            return Values(error_code=self.refuses[address], responses=[], topics=[])
        if isinstance(request, FetchSnapshotRequest):
            return self._snapshot(request.topics[0].partitions[0])
        return self._fetched(address, request.topics[0].partitions[0])

    def _fetched(self, address: Address, part: Any) -> Any:
        told: dict[str, Any] = {
            "error_code": 0, "high_watermark": self.end, "log_start_offset": self.start, "records": b"",
            "current_leader": Values(leader_id=1, leader_epoch=self.epoch), "diverging_epoch": None,
            "snapshot_id": None,
        }  # fmt: skip
        if part.current_leader_epoch != self.epoch:
            told["error_code"] = 74 if part.current_leader_epoch < self.epoch else 75
        elif address != self.leads:
            told["error_code"] = 6
        elif self.diverges is not None:
            told["diverging_epoch"] = Values(epoch=self.epoch, end_offset=self.diverges)
        elif self._is_cut_before(part.fetch_offset, part.last_fetched_epoch):
            newest = max(self.snapshots)
            told["snapshot_id"] = Values(end_offset=newest[0], epoch=newest[1])
        elif (ends := self._ends(part.last_fetched_epoch)) < part.fetch_offset:
            told["diverging_epoch"] = Values(epoch=part.last_fetched_epoch, end_offset=ends)
        else:
            told["records"] = self.log.data[self._at(part.fetch_offset) :][: self.piece]
        return Values(error_code=0, responses=[Values(partitions=[Values(**told)])])

    @property
    def end(self) -> int:
        return self.log.end if self.committed is None else self.committed

    def _is_cut_before(self, offset: int, epoch: int) -> bool:
        """Whether the log does not hold what comes before: at its start it has to be the snapshot there (KIP-630)."""
        return offset < self.start or (offset == self.start > 0 and (offset, epoch) not in self.snapshots)

    def _ends(self, epoch: int) -> int:
        """Where an epoch ends in the log, which has begun the quorum's own one (KIP-595); 0: it has none of it."""
        ends = {known: end for end, known in self.snapshots}
        for each in split(self.log):
            first, last = int.from_bytes(each[:8]), int.from_bytes(each[23:27])
            ends[int.from_bytes(each[12:16])] = first + last + 1
        return (ends | {self.epoch: self.log.end}).get(epoch, 0)

    def _at(self, offset: int) -> int:
        """Where the batch with this offset begins; batches of one record each, but for the ones of `created`."""
        begins, at = 0, 0
        for ends in self.log.firsts:
            first = int.from_bytes(self.log.data[begins : begins + 8])
            if first > offset:
                break
            at, begins = begins, ends
        else:
            at = begins if offset >= self.log.end else at
        return at

    def _snapshot(self, part: Any) -> Any:
        data = self.snapshots.get((part.snapshot_id.end_offset, part.snapshot_id.epoch))
        if data is None:
            gone = Values(error_code=98, size=0, position=0, unaligned_records=b"")
            return Values(error_code=0, topics=[Values(partitions=[gone])])
        told = Values(
            error_code=0, size=len(data), position=part.position, unaligned_records=data[part.position :][: self.piece]
        )
        return Values(error_code=0, topics=[Values(partitions=[told])])

    async def aclose(self) -> None:
        self.closed = True


@asynccontextmanager
async def reading(controllers: Controllers, *addresses: Address) -> AsyncIterator[MetadataLog]:
    log = MetadataLog(controllers, addresses or (ONE, TWO), Threads("test"))  # type: ignore[arg-type]
    try:
        yield log
    finally:
        await log.aclose()


async def caught_up(log: MetadataLog, within: timedelta = WITHIN) -> Image:
    image = await log.caught_up("cluster", within)
    assert isinstance(image, Image), image
    return image


async def refused(controllers: Controllers, *addresses: Address, within: timedelta = WITHIN) -> Reason:
    async with reading(controllers, *addresses) as log:
        why = await log.caught_up("cluster", within)
    assert isinstance(why, Reason)
    return why


def isr(image: Image) -> tuple[int, ...]:
    history = image.history(ORDERS, 0)
    assert history is not None
    return history.steps[-1].isr


async def test_it_is_read_from_the_first_record_and_then_goes_on_where_it_was() -> None:
    controllers = Controllers(created())
    async with reading(controllers) as log:
        assert isr(await caught_up(log)) == (A, B, C)
        asked = len(controllers.asked)
        controllers.log.add(changed(isr=[A]))
        image = await caught_up(log)
        assert isr(image) == (A,)
        assert image.upto == controllers.log.end

    offsets = [request.topics[0].partitions[0].fetch_offset for _, request in controllers.asked]
    assert min(offsets) == 1  # at 0 a controller answers with its newest snapshot, past all history
    assert offsets[asked] == image.upto - 1
    assert all(request.cluster_id == "cluster" for _, request in controllers.asked)
    assert controllers.closed


async def test_answers_of_any_size_add_up_to_the_same() -> None:
    log = created()
    for members in ([A, B], [A], [A, B]):
        log.add(changed(isr=members))
    async with reading(Controllers(log, piece=max(map(len, split(log))))) as reader:
        assert isr(await caught_up(reader)) == (A, B)


def split(log: Written) -> list[bytes]:
    return [log.data[begin:end] for begin, end in zip([0, *log.firsts], log.firsts, strict=False)]


async def test_what_is_not_committed_is_not_read() -> None:
    log = created()
    committed = log.end
    log.add(changed(isr=[A]))
    controllers = Controllers(log, committed=committed)
    async with reading(controllers) as reader:
        image = await caught_up(reader)
        assert (isr(image), image.upto) == ((A, B, C), committed)
        controllers.committed = None
        assert isr(await caught_up(reader)) == (A,)


async def test_a_batch_that_is_committed_in_part_is_not_read() -> None:
    """Its records are one change to brokers, and may vanish yet. Kafka commits whole batches."""
    log = created()
    committed = log.end + 1
    log.add(changed(isr=[A, B]), changed(isr=[A]))

    assert "told nothing that is committed" in (await refused(Controllers(log, committed=committed))).message


async def test_another_controller_takes_over_and_a_silent_one_is_passed_by() -> None:
    controllers = Controllers(created())
    async with reading(controllers) as log:
        await caught_up(log)
        controllers.log.add(changed(isr=[A]))
        controllers.leads, controllers.epoch = TWO, 9
        controllers.faults[ONE] = BrokerTimeout(ONE, timedelta(seconds=5), "Fetch")
        assert isr(await caught_up(log)) == (A,)
        asked = len(controllers.asked)
        await caught_up(log)
    assert [address for address, _ in controllers.asked[asked:]] == [TWO]


async def test_it_goes_on_after_the_records_that_a_new_leader_wrote() -> None:
    """Whoever names a wrong epoch of the record before is told that the logs diverge, and could believe none."""
    controllers = Controllers(created())
    async with reading(controllers) as log:
        await caught_up(log)
        controllers.epoch = controllers.log.epoch = 9
        for members in ((A, B), (A,)):
            controllers.log.add(changed(isr=members))
            assert isr(await caught_up(log)) == members


async def test_controllers_that_came_back_with_an_older_log_and_went_on_are_not_believed() -> None:
    """Their disks were restored from a backup: what they committed since is not what follows on what was read."""
    controllers = Controllers(created())
    async with reading(controllers) as log:
        controllers.log.add(changed(isr=[A]))
        await caught_up(log)
        controllers.log = created()
        controllers.epoch = controllers.log.epoch = 9
        for _ in range(3):
            controllers.log.add(changed(isr=[A, B]))
        why = await log.caught_up("cluster", WITHIN)
    assert isinstance(why, Reason)
    assert "and was committed up to" in why.message


async def test_a_quorum_that_counts_its_epochs_from_an_earlier_one_is_asked_under_that() -> None:
    """Its voters were formatted anew, or restored from a backup."""
    controllers = Controllers(created())
    async with reading(controllers) as log:
        await caught_up(log)
        controllers.epoch = 2
        controllers.log.add(changed(isr=[A, B]))
        assert isr(await caught_up(log)) == (A, B)


async def test_where_nobody_leads_each_controllers_answer_is_told() -> None:
    controllers = Controllers(created(), leads=Address("controller-3", 9093))
    controllers.faults[TWO] = BrokerTimeout(TWO, timedelta(seconds=5), "Fetch")
    why = await refused(controllers)
    assert why.code == "MetadataLogUnavailable"
    assert "controller-1:9093 does not lead the quorum" in why.message
    assert "controller-2:9093 did not answer Fetch within 5s" in why.message


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (31, "CLUSTER_ACTION on the cluster"),
        (3, "is a broker's listener; name the controllers' own"),
        (100, "is a broker's listener; name the controllers' own"),
        (104, "belongs to another cluster than cluster: take it out of the controllers named"),
    ],
)
async def test_what_a_controller_refuses_is_said_with_what_to_do(code: int, told: str) -> None:
    why = await refused(Controllers(created(), refuses={ONE: code, TWO: code}))
    assert told in why.message


async def test_a_log_that_takes_longer_than_a_look_may_goes_on_being_read() -> None:
    controllers = Controllers(created())
    async with reading(controllers) as log:
        await caught_up(log)
        controllers.held = asyncio.Event()
        controllers.log.add(changed(isr=[A]))
        why = await log.caught_up("cluster", timedelta(seconds=0.01))
        assert isinstance(why, Reason)
        assert "no controller has answered in time" in why.message
        assert "it is known up to offset 8" in why.message
        controllers.held.set()
        assert isr(await caught_up(log)) == (A,)


async def test_what_was_committed_after_a_reading_began_is_read_by_who_asks_then() -> None:
    controllers = Controllers(created(), held=asyncio.Event())
    async with reading(controllers) as log:
        first = asyncio.create_task(log.caught_up("cluster", timedelta(seconds=0.01)))
        await first
        controllers.log.add(changed(isr=[A]))
        assert controllers.held is not None
        asyncio.get_running_loop().call_later(0.05, controllers.held.set)
        assert isr(await caught_up(log)) == (A,)
    assert controllers.most_at_once == 1


def as_snapshot() -> tuple[bytes, ...]:
    """What `created` wrote, as one state."""
    topic = record("Topic", 0, Values(name="orders", topic_id=ORDERS))
    return (topic, *(registered(id, 10 + id) for id in (A, B, C)), whole((A, B, C)), minimum_of("orders", "2"))


async def test_where_the_log_begins_later_the_snapshot_at_its_start_is_taken_not_the_newest() -> None:
    """Its epoch is told nowhere: it is looked for. History from there on is kept."""
    log = Written(end=100, epoch=3)
    log.add(changed(isr=[A, B]))
    log.add(changed(isr=[A]))
    oldest, newest = snapshot(*as_snapshot()), snapshot(*as_snapshot())
    controllers = Controllers(log, start=100, snapshots={(100, 2): oldest, (102, 3): newest}, piece=97)
    async with reading(controllers) as reader:
        controllers.piece = 1 << 20
        image = await caught_up(reader)
    history = image.history(ORDERS, 0)
    assert history is not None
    assert [step.isr for step in history.steps] == [(A, B, C), (A, B), (A,)]


async def test_a_snapshot_comes_in_pieces() -> None:
    controllers = Controllers(Written(end=100, epoch=3), start=100, snapshots={(100, 3): snapshot(*as_snapshot())})
    controllers.piece = 50
    async with reading(controllers) as reader:
        assert isr(await caught_up(reader)) == (A, B, C)


async def test_who_slept_until_the_log_was_cut_behind_him_begins_anew() -> None:
    controllers = Controllers(created())
    async with reading(controllers) as reader:
        await caught_up(reader)
        controllers.log = Written(end=100, epoch=3)
        controllers.start, controllers.snapshots = 100, {(100, 3): snapshot(*as_snapshot())}
        controllers.log.add(changed(isr=[A], leader=NO_LEADER))
        image = await caught_up(reader)
    assert (isr(image), image.upto) == ((A,), 101)


async def test_who_slept_until_the_log_was_cut_remembers_what_speaks_against_a_proof() -> None:
    """The leader had gone on as another process; by the snapshot all are in sync."""
    controllers = Controllers(created())
    controllers.log.add(registered(A, controllers.log.end))
    async with reading(controllers) as reader:
        await caught_up(reader)
        controllers.log = Written(end=100, epoch=3)
        controllers.start, controllers.snapshots = 100, {(100, 3): cut_off((A, B, C), 8, 3, 4)}
        controllers.log.add(changed(isr=[A]))
        image = await caught_up(reader)
    assert image.upto == 101
    assert image.history(ORDERS, 0) is None


def cut_off_behind_the_isr() -> tuple[Controllers, KeptHistory]:
    """B and C left the ISR before the snapshot at which the log begins; what a process kept that had read it all."""
    log = created()
    log.add(changed(isr=[A]))
    cut = log.end
    log.add(record("NoOp", 0, Values()))
    kept = log.image().kept()
    assert kept is not None
    log.add(changed(leader=NO_LEADER))
    return Controllers(log, start=cut, snapshots={(cut, 1): cut_off((A,))}), kept


async def test_what_an_earlier_process_kept_is_told_whether_it_comes_before_the_first_reading_or_after_it() -> None:
    controllers, kept = cut_off_behind_the_isr()
    async with reading(controllers) as log:
        assert (await caught_up(log)).history(ORDERS, 0) is None
        log.recall(kept)
        assert (await caught_up(log)).history(ORDERS, 0) == controllers.log.history()

    async with reading(controllers) as log:
        log.recall(kept)
        assert (await caught_up(log)).history(ORDERS, 0) == controllers.log.history()
        assert log.kept() == controllers.log.image().kept()


async def test_a_reading_that_begins_anew_goes_by_what_it_kept_itself() -> None:
    controllers, kept = cut_off_behind_the_isr()
    async with reading(controllers) as log:
        log.recall(kept)
        before = await caught_up(log)
        assert log.kept() is not None
        before.doubt = "a controller told what cannot be"
        assert (await caught_up(log)).history(ORDERS, 0) == controllers.log.history()


async def test_what_an_earlier_process_kept_is_not_forgotten_for_being_asked_too_early_what_is_to_be_kept() -> None:
    controllers, kept = cut_off_behind_the_isr()
    async with reading(controllers) as log:
        log.recall(kept)
        assert log.kept() is None
        assert (await caught_up(log)).history(ORDERS, 0) == controllers.log.history()


async def test_a_gap_leaves_no_history() -> None:
    controllers = Controllers(created())
    async with reading(controllers) as reader:
        await caught_up(reader)
        cut = Written(end=controllers.log.end + 5)
        cut.add(changed(isr=[A]))
        controllers.log.data += cut.data
        controllers.log.firsts.append(len(controllers.log.data))
        controllers.log.end = cut.end
        controllers._at = lambda offset: controllers.log.firsts[-2]  # type: ignore[method-assign]
        why = await reader.caught_up("cluster", WITHIN)
    assert isinstance(why, Reason)
    assert "has nothing from offset" in why.message


@pytest.mark.parametrize("committed", [-1, 3])
async def test_a_controller_that_has_just_begun_to_lead_is_asked_until_it_knows_what_is_committed(
    committed: int,
) -> None:
    """It tells nothing, or less than its predecessor: that is no other log, and is over in a moment."""
    controllers = Controllers(created())
    async with reading(controllers) as reader:
        await caught_up(reader)
        controllers.committed, controllers.knows_after = committed, 3
        controllers.log.add(changed(isr=[A]))
        assert isr(await caught_up(reader)) == (A,)


async def test_a_controller_that_never_learns_what_is_committed_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has lost its majority: to those whose time is up before, and to those who wait until it is given up."""
    controllers = Controllers(created())
    async with reading(controllers) as reader:
        await caught_up(reader)
        controllers.committed = -1
        monkeypatch.setattr("kafka_recovery.cluster.metadata_log.reader.EACH", 0.01)
        hurried = await reader.caught_up("cluster", timedelta(seconds=0.05))
        why = await reader.caught_up("cluster", WITHIN)
        for told in (hurried, why):
            assert isinstance(told, Reason)
            assert "knows the metadata log to be committed nowhere, and it was up to" in told.message
        controllers.committed = None
        controllers.log.add(changed(isr=[A]))
        assert isr(await caught_up(reader)) == (A,)


async def test_a_log_that_lacks_what_was_committed_before_is_not_believed() -> None:
    controllers = Controllers(created())
    async with reading(controllers) as reader:
        await caught_up(reader)
        controllers.diverges = 3
        for _ in range(2):
            why = await reader.caught_up("cluster", WITHIN)
            assert isinstance(why, Reason)
            assert "ends at 3, and was committed up to" in why.message


async def test_callers_at_once_share_readings_and_nobody_is_told_of_an_earlier_one() -> None:
    """Two readings side by side would fold the same records into one image, in threads."""
    controllers = Controllers(created(), held=asyncio.Event())
    async with reading(controllers) as log:
        await log.caught_up("cluster", timedelta(seconds=0.01))
        controllers.log.add(changed(isr=[A]))
        callers = [asyncio.create_task(caught_up(log)) for _ in range(5)]
        await asyncio.sleep(0)
        assert controllers.held is not None
        controllers.held.set()
        assert {isr(image) for image in await asyncio.gather(*callers)} == {(A,)}
    assert controllers.most_at_once == 1


async def test_who_waited_in_vain_hears_which_controllers_are_silent_and_the_leader_is_asked_first_from_then_on() -> (
    None
):
    controllers = Controllers(created(), leads=TWO, held=asyncio.Event(), holds=TWO)
    controllers.faults[ONE] = BrokerTimeout(ONE, timedelta(seconds=5), "Fetch")
    async with reading(controllers) as log:
        why = await log.caught_up("cluster", timedelta(seconds=0.01))
        assert isinstance(why, Reason)
        assert "no controller has answered in time" in why.message
        assert "controller-1:9093 did not answer Fetch within 5s" in why.message
        assert controllers.held is not None
        controllers.held.set()
        await caught_up(log)
    assert [address for address, _ in controllers.asked].count(ONE) == 1


@pytest.mark.parametrize(
    ("spoilt", "why"),
    [
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "checksum"),
        (lambda data: data[:16] + b"\x01" + data[17:], "another format"),
        (lambda data: data[:21] + b"\x00\x01" + data[23:], "another format"),
        (lambda data: data[:8] + b"\xff\xff\xff\xf4" + data[12:], "metadata log"),
    ],
    ids=["a bit", "an older format", "compressed", "a size below nothing"],
)
async def test_bytes_that_are_not_what_kafka_writes_are_not_believed(
    spoilt: Callable[[bytes], bytes], why: str
) -> None:
    log = created()
    served = log.firsts[0]
    log.data = log.data[:served] + spoilt(log.data[served:])
    told = await refused(Controllers(log))
    assert told.code == "MetadataLogUnreadable"
    assert why in told.message


async def test_an_answer_that_tells_nothing_new_is_an_error_not_a_loop() -> None:
    log = created()
    controllers = Controllers(log, committed=log.end + 10)
    why = await refused(controllers)
    assert "told nothing that is committed" in why.message
    assert len(controllers.asked) < 10


async def test_a_snapshot_that_leads_nowhere_is_an_error_not_a_loop() -> None:
    controllers = Controllers(created())
    async with reading(controllers) as reader:
        await caught_up(reader)
        controllers.log.add(changed(isr=[A]))
        controllers.start, controllers.snapshots = controllers.log.end, {(5, 4): snapshot(*as_snapshot())}
        why = await reader.caught_up("cluster", WITHIN)
    assert isinstance(why, Reason)
    assert "told nothing that is committed" in why.message


@pytest.mark.parametrize(("size", "position"), [(1 << 40, 0), (100, 7)], ids=["larger than any", "another piece"])
async def test_of_a_snapshot_only_what_was_asked_for_is_taken_in(size: int, position: int) -> None:
    class Boasting(Controllers):
        def _snapshot(self, part: Any) -> Any:
            told = Values(error_code=0, size=size, position=position, unaligned_records=b"x")
            return Values(error_code=0, topics=[Values(partitions=[told])])

    why = await refused(Boasting(Written(end=100, epoch=3), start=100, snapshots={(100, 3): b""}))
    assert "FetchSnapshot" in why.message


@taking_no_time
async def test_what_was_spoilt_by_one_controller_is_read_anew_later_and_ever_more_seldom() -> None:
    """Else one bad answer would be no proof until the process is started again."""
    log = created()
    whole_one = log.data
    log.data = whole_one[:-1] + bytes([whole_one[-1] ^ 1])
    controllers = Controllers(log)
    async with reading(controllers) as reader:
        anew: list[float] = []
        while loop_time() < 600:
            asked = len(controllers.asked)
            told = await reader.caught_up("cluster", WITHIN)
            assert isinstance(told, Reason)
            assert "checksum" in told.message
            anew += [loop_time()] * (len(controllers.asked) > asked)
            await asyncio.sleep(1)
        assert anew == [0, 60, 180, 420]
        log.data = whole_one
        await asyncio.sleep(3600)
        assert isr(await caught_up(reader)) == (A, B, C)

        log.add(changed(isr=[A]))
        whole_one, log.data = log.data, log.data[:-1] + bytes([log.data[-1] ^ 1])
        assert isinstance(await reader.caught_up("cluster", WITHIN), Reason)
        log.data = whole_one
        await asyncio.sleep(60)
        assert isr(await caught_up(reader)) == (A,), "no later than the first time"


async def test_an_address_of_another_cluster_is_named_and_passed_by() -> None:
    for other, own in ((ONE, TWO), (TWO, ONE)):
        controllers = Controllers(created(), leads=own, refuses={other: 104})
        async with reading(controllers) as log:
            assert isr(await caught_up(log)) == (A, B, C)


@pytest.mark.parametrize(
    "cut",
    [
        lambda data: data[:-1],
        lambda data: data[len(snapshot()) // 2 :],
        lambda data: data[: -len(snapshot()) // 2],
        lambda data: data + data,
        lambda data: data + data[-len(snapshot()) // 2 :],
        lambda data: data + data[:20],
    ],
    ids=["its last byte", "its header", "its footer", "told twice", "two footers", "a part of more"],
)
async def test_a_snapshot_that_is_not_one_whole_state_leaves_no_history(cut: Callable[[bytes], bytes]) -> None:
    spoilt = cut(snapshot(*as_snapshot()))
    why = await refused(Controllers(Written(end=100, epoch=3), start=100, snapshots={(100, 3): spoilt}))
    assert why.code == "MetadataLogUnreadable"
    assert "snapshot" in why.message


async def test_a_batch_that_stands_for_more_than_it_holds_is_a_gap() -> None:
    """The records that are missing in it may be the ones that count."""
    log = created()
    first = log.add(changed(isr=[A, B]), minimum_of("orders", "1"), changed(isr=[A]))
    begins = log.firsts[-2]
    held = batch(first, [changed(isr=[A])], log.now, log.epoch, stands_for=3)
    log.data = log.data[:begins] + held
    log.firsts[-1] = len(log.data)
    why = await refused(Controllers(log))
    assert "has not one record for each" in why.message


async def test_a_first_reading_that_takes_long_is_no_trouble_and_is_told_in_the_same_words_all_the_time() -> None:
    """Whoever writes it into a status would else write a new one with each question."""

    class Slow(Controllers):
        async def ask(self, *asked: Any, **how: Any) -> Any:
            for _ in range(20):
                await asyncio.sleep(0)
            return await super().ask(*asked, **how)

    log = created()
    for members in ([A, B], [A], [A, B]):
        log.add(changed(isr=members))
    told: list[Reason] = []

    async with reading(Slow(log, piece=max(map(len, split(log))))) as reader:
        for _ in range(1000):
            why = await reader.caught_up("cluster", timedelta(0))
            assert isinstance(why, Reason), "no look waits for it"
            told += [why] * (not told or told[-1] != why)
            await asyncio.sleep(0)
        assert isr(await caught_up(reader)) == (A, B)

    before = told[: told.index(READING)]
    assert {why.code for why in before} == {"MetadataLogUnavailable"}, "nobody has said yet how far it reaches"
    assert told.count(READING) == 1, "then it is the same all the time"


async def test_a_defect_in_reading_costs_proofs_and_ends_no_look(caplog: pytest.LogCaptureFixture) -> None:
    class Defective(Controllers):
        broken = True

        async def ask(self, *asked: Any, **how: Any) -> Any:
            if self.broken:
                raise RuntimeError("can't start new thread")
            return await super().ask(*asked, **how)

    controllers = Defective(created())
    async with reading(controllers) as log:
        why = await log.caught_up("cluster", WITHIN)
        assert isinstance(why, Reason)
        assert why.code == "InternalError"
        controllers.broken = False
        assert isr(await caught_up(log)) == (A, B, C)
    assert "can't start new thread" in caplog.text


async def test_what_a_defect_left_half_read_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    whole_step = Image._note_steps

    def broken(image: Image, last: int) -> None:
        whole_step(image, last)
        if image._partitions:
            raise RuntimeError("a defect")

    async with reading(Controllers(created())) as log:
        with monkeypatch.context() as spoilt:
            spoilt.setattr(Image, "_note_steps", broken)
            assert isinstance(await log.caught_up("cluster", WITHIN), Reason)
        assert isr(await caught_up(log)) == (A, B, C)


async def test_an_answer_about_several_partitions_is_none() -> None:
    class Several(Controllers):
        def _fetched(self, address: Address, part: Any) -> Any:
            told = super()._fetched(address, part)
            return Values(error_code=0, responses=told.responses * 2)

    assert "told of no partition, or of several" in (await refused(Several(created()))).message


async def test_closing_the_log_tells_a_look_under_way_and_does_not_cancel_it() -> None:
    controllers = Controllers(created(), held=asyncio.Event())
    async with reading(controllers) as log:
        look = asyncio.create_task(log.caught_up("cluster", WITHIN))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    why = await look
    assert isinstance(why, Reason)
    assert why.code == "InternalError"
