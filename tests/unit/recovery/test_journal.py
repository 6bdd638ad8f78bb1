"""The journal: durable, whole or not at all, one process at a time; on a real disk and on a simulated one."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import textwrap
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import pytest

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import InvalidDocument, canonical, digest, digest_of_canonical
from kafka_recovery.recovery.journal_files import FileJournal, Storage
from kafka_recovery.recovery.local_storage import LocalStorage, local_journal
from kafka_recovery.recovery.ports import DamagedRun, JournalLocked, JournalUnwritable, PlanFinished, Run
from kafka_recovery.simulator.host.disks import Disk, File, SimulatedStorage
from kafka_recovery.simulator.host.mortality import Killed, Process
from unit.processes import Forked
from unit.recovery.brokers import CLUSTER
from unit.recovery.world import ORDERS, World


class Place(Protocol):
    """Where journals lie."""

    def journal(self) -> FileJournal:
        """The journal, as another process opens it."""
        ...

    def storage(self) -> Storage:
        """The disk below it, for whoever writes there by hand."""
        ...

    def written(self, digest: str, at: datetime) -> None:
        """Let a plan's file be so old."""
        ...


@dataclass(frozen=True)
class Real:
    """A directory of this machine."""

    folder: Path

    def journal(self) -> FileJournal:
        return local_journal(self.folder, CLUSTER)

    def storage(self) -> Storage:
        return LocalStorage(self.folder, CLUSTER)

    def written(self, digest: str, at: datetime) -> None:
        os.utime(self.folder / CLUSTER / digest[:16] / "plan.json", (at.timestamp(), at.timestamp()))


@dataclass
class Simulated:
    """The disk of a machine in a history, whose clock goes on by a second at each look."""

    folder: Path
    disk: Disk = field(default_factory=lambda: Disk("machine-1"))
    clock: datetime = datetime(2026, 11, 21, tzinfo=UTC)

    def now(self) -> datetime:
        self.clock += timedelta(seconds=1)
        return self.clock

    def journal(self) -> FileJournal:
        return FileJournal(self.storage(), self.now)

    def storage(self) -> Storage:
        return SimulatedStorage(self.disk, Process("engine"), self.now)

    def written(self, digest: str, at: datetime) -> None:
        files = self.disk.directories[digest[:16]]
        files["plan.json"] = File(files["plan.json"].raw, at)


@pytest.fixture(params=[Real, Simulated])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    made: Place = request.param(tmp_path)
    return made


@pytest.fixture
async def plan(world: World) -> Plan:
    world.offline()
    return await world.plan()


async def whole_runs(journal: FileJournal) -> list[Run]:
    """Its unfinished runs, none of which is damaged."""
    entries = await journal.unfinished()
    runs = [entry for entry in entries if isinstance(entry, Run)]
    assert runs == entries
    return runs


async def another(world: World) -> Plan:
    world.clock.advance(world.clock.monotonic())
    return await world.plan()


async def test_a_run_reads_back_as_it_was_written(place: Place, plan: Plan) -> None:
    outcome = PartitionOutcome(ORDERS, Outcome.RECOVERED)
    with place.journal() as journal:
        name = await journal.record(plan)
        await journal.approved(name, "ann")
        await journal.wave_started(name, 1, (ORDERS,))
        await journal.in_doubt(name, 1, BrokerId(7))
        await journal.wave_ended(name, 1, (outcome,))
        await journal.wave_started(name, 2, (ORDERS,))
        await journal.in_doubt(name, 2, BrokerId(3))

    with place.journal() as journal:
        (run,) = await whole_runs(journal)

    assert name == digest(plan)
    assert (run.digest, run.plan) == (name, plan)
    assert (run.waves, run.in_flight, run.outcomes) == (2, (2,), (outcome,))
    assert run.relays == {3}, "of the wave that has not ended"


async def test_a_plan_is_a_run_once_it_is_approved_and_until_it_is_finished(place: Place, plan: Plan) -> None:
    with place.journal() as journal:
        name = await journal.record(plan)
        assert await whole_runs(journal) == []
        await journal.approved(name, None)
        assert (len(await whole_runs(journal)), await journal.approver(name)) == (1, None)
        await journal.approved(name, "ann")
        assert await journal.approver(name) == "ann"
        await journal.approved(name, "bob")
        assert await journal.approver(name) == "ann", "the first approval stands"
        await journal.finished(name)
        assert await whole_runs(journal) == []


async def test_every_record_may_be_made_twice(place: Place, plan: Plan) -> None:
    with place.journal() as journal:
        name = await journal.record(plan)
        for _ in range(2):
            assert await journal.record(plan) == name
            await journal.approved(name, "ann")
            await journal.wave_started(name, 1, (ORDERS,))
            await journal.wave_ended(name, 1, ())
        await journal.finished(name)
        await journal.finished(name)


async def test_a_plan_that_has_ended_is_not_recorded_again(place: Place, plan: Plan) -> None:
    with place.journal() as journal:
        await journal.finished(await journal.record(plan))

        with pytest.raises(PlanFinished):
            await journal.record(plan)


async def test_thousands_of_waves_keep_their_numbers(place: Place, plan: Plan) -> None:
    with place.journal() as journal:
        name = await journal.record(plan)
        await journal.approved(name, "ann")
        await journal.wave_started(name, 9_999, ())
        await journal.wave_started(name, 12_345, ())
        await journal.wave_ended(name, 9_999, ())

        (run,) = await whole_runs(journal)

    assert (run.waves, run.in_flight) == (12_345, (12_345,))


async def test_runs_come_oldest_first(place: Place, world: World, plan: Plan) -> None:
    later = await another(world)
    with place.journal() as journal:
        for one in (plan, later):
            await journal.approved(await journal.record(one), "ann")

        assert [run.plan for run in await whole_runs(journal)] == [plan, later]


async def test_what_was_being_written_when_the_process_was_killed_does_not_count(place: Place, plan: Plan) -> None:
    with place.journal() as journal:
        name = await journal.record(plan)
        for fact in ("begun.json", "approval.json", "wave-0001-started.json"):
            place.storage().write(name[:16], f".{fact}.partial", b'{"by": "an')
        place.storage().make("0123456789abcdef")
        place.storage().write("0123456789abcdef", ".plan.json.partial", b"{")

        assert await whole_runs(journal) == []
        await journal.approved(name, "ann")
        assert [r.digest for r in await whole_runs(journal)] == [name]


def test_a_journal_has_one_holder(place: Place) -> None:
    with place.journal():
        with pytest.raises(JournalLocked, match=str(place.storage().root)), place.journal():
            pytest.fail("both hold it")
        with pytest.raises(JournalLocked), place.journal():
            pytest.fail("the refused one unlocked it")
    with place.journal():
        pass


async def test_a_fact_of_a_plan_that_is_not_there_is_not_kept(place: Place, plan: Plan) -> None:
    with place.journal() as journal, pytest.raises(JournalUnwritable, match=r"begun\.json"):
        await journal.approved(digest(plan), None)


KILLED = """
    import asyncio, os, signal, sys
    from pathlib import Path
    from kafka_recovery.formats.documents import read
    from kafka_recovery.domain.plan import Plan
    from kafka_recovery.recovery.local_storage import local_journal

    async def main():
        plan = read(Plan, Path(sys.argv[2]).read_bytes(), "plan")
        left = int(sys.argv[3])
        def kill(event, arguments):
            nonlocal left
            if event in ("open", "os.rename", "os.mkdir") and sys.argv[1] in str(arguments[0]):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        with local_journal(Path(sys.argv[1]), sys.argv[4]) as journal:
            sys.addaudithook(kill)
            digest = await journal.record(plan)
            await journal.approved(digest, "ann")
            await journal.wave_started(digest, 1, ())
            await journal.wave_ended(digest, 1, ())
    asyncio.run(main())
"""


async def test_a_process_killed_at_any_write_leaves_whole_records_or_none(tmp_path: Path, plan: Plan) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(canonical(plan))
    states = set()
    for writes in range(0, 40, 2):
        directory = tmp_path / str(writes)
        with Forked(textwrap.dedent(KILLED), directory, file, writes, CLUSTER) as process:
            _, said = process.communicate(timeout=60)
        with local_journal(directory, CLUSTER) as journal:
            runs = await whole_runs(journal)
            assert [run.plan for run in runs] == [plan] * len(runs)
            states.add((len(runs), runs[0].in_flight if runs else None))
            assert await journal.record(plan) == digest(plan)
        if process.returncode == 0:
            break
        assert process.returncode == -9, said

    assert states == {(0, None), (1, ()), (1, (1,))}


async def kept_everything(journal: FileJournal, plan: Plan) -> None:
    with journal:
        name = await journal.record(plan)
        await journal.approved(name, "ann")
        await journal.wave_started(name, 1, (ORDERS,))
        await journal.wave_ended(name, 1, (PartitionOutcome(ORDERS, Outcome.RECOVERED),))


async def test_a_simulated_process_dies_at_any_step_and_leaves_whole_records_or_none(
    tmp_path: Path, plan: Plan
) -> None:
    states, left, deaths = set(), set[str](), 0
    for step in itertools.count(1):
        place, process = Simulated(tmp_path), Process("engine", kill_at=step)
        with suppress(Killed):
            await kept_everything(FileJournal(SimulatedStorage(place.disk, process, place.now), place.now), plan)
        left |= place.storage().names(digest(plan)[:16])
        with place.journal() as journal:
            runs = await whole_runs(journal)
            assert [run.plan for run in runs] == [plan] * len(runs)
            states.add((len(runs), runs[0].in_flight if runs else None))
        await kept_everything(place.journal(), plan)
        assert not [name for name in place.storage().names(digest(plan)[:16]) if name.endswith(".partial")]
        if not process.dead:
            break
        deaths += 1

    assert states == {(0, None), (1, ()), (1, (1,))}
    facts = ("plan", "approval", "begun", "wave-0001-started", "wave-0001-ended")
    assert deaths == 3 * len(facts)
    assert {f".{fact}.json.partial" for fact in facts} < left, "whoever dies while writing leaves half a file"


async def test_a_simulated_disk_that_is_full_keeps_nothing_more(tmp_path: Path, plan: Plan) -> None:
    place = Simulated(tmp_path)
    with place.journal() as journal:
        place.disk.full = True
        with pytest.raises(JournalUnwritable, match="free some space"):
            await journal.record(plan)
        assert place.disk.directories == {}
        place.disk.full = False
        name = await journal.record(plan)
        place.disk.full = True
        assert await journal.record(plan) == name, "what is there needs no space"
        with pytest.raises(JournalUnwritable, match=r"begun\.json.*free some space"):
            await journal.approved(name, None)
        assert await whole_runs(journal) == []


async def test_records_bear_the_time_of_the_clock_that_the_journal_was_given(tmp_path: Path, plan: Plan) -> None:
    disks = []
    for _ in range(2):
        place = Simulated(tmp_path)
        await kept_everything(place.journal(), plan)
        await place.journal().finished(digest(plan))
        disks.append(place.disk.directories)

    assert len(disks[0][digest(plan)[:16]]) == 6
    assert disks[0] == disks[1]


HOLD = """
    import signal, sys
    from pathlib import Path
    from kafka_recovery.recovery.local_storage import local_journal
    with local_journal(Path(sys.argv[1]), sys.argv[2]):
        print("held", flush=True)
        signal.pause()
"""


def test_two_processes_do_not_recover_one_cluster(tmp_path: Path) -> None:
    with Forked(textwrap.dedent(HOLD), tmp_path, CLUSTER) as holder:
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(JournalLocked, match=rf"process {holder.pid}\b.*{tmp_path}"),
            local_journal(tmp_path, CLUSTER),
        ):
            pytest.fail("both hold it")
        with local_journal(tmp_path, "another-cluster"):
            pass

    with local_journal(tmp_path, CLUSTER):
        pass


Break = Callable[[pytest.MonkeyPatch, Path], None]


def full(patch: pytest.MonkeyPatch, journal: Path) -> None:
    def fsync(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    patch.setattr(os, "fsync", fsync)


def read_only(patch: pytest.MonkeyPatch, journal: Path) -> None:
    really = os.open

    def opened(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if str(path).startswith(str(journal)) and flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, "read-only file system", str(path))
        return really(path, flags, mode, dir_fd=dir_fd)

    patch.setattr(os, "open", opened)


def a_file_in_its_place(patch: pytest.MonkeyPatch, journal: Path) -> None:
    journal.parent.mkdir(parents=True, exist_ok=True)
    journal.write_text("not a directory")


@pytest.mark.parametrize("broken", [full, read_only, a_file_in_its_place])
async def test_a_journal_that_can_not_be_written_is_named_and_nothing_is_changed(
    world: World, broken: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.offline()
    broken(monkeypatch, world.directory)

    with pytest.raises(JournalUnwritable, match=str(world.directory)):
        await world.recover()

    assert world.changed() == []


@pytest.mark.parametrize("moment", ["record", "approved", "wave_started"])
async def test_a_disk_that_fills_up_ends_the_run_before_the_next_change(
    world: World, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.offline()
    world.before(moment, lambda: full(monkeypatch, world.directory))

    with pytest.raises(JournalUnwritable, match="free some space"):
        await world.recover()

    assert world.changed() == []


async def test_a_disk_that_fills_up_after_the_election_leaves_a_run_to_resume(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.offline()
    with monkeypatch.context() as patch:
        world.before("wave_ended", lambda: full(patch, world.directory))
        with pytest.raises(JournalUnwritable):
            await world.recover()

    assert world.unrestored() == [], "orders first, paper work later"
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    assert (await world.resume()).recovered
    assert await world.open_runs() == []


HANGS = """
    import asyncio, sys
    from datetime import timedelta
    from pathlib import Path
    from kafka_recovery.recovery.clock import SystemClock
    from kafka_recovery.recovery.journal_files import FileJournal
    from kafka_recovery.recovery.local_storage import LocalStorage
    storage = LocalStorage(Path(sys.argv[1]), sys.argv[2])
    with FileJournal(storage, SystemClock().now, timedelta(milliseconds=50)) as journal:
        asyncio.run(journal.unfinished())
"""


def test_a_disk_that_hangs_does_not_hold_the_process(tmp_path: Path) -> None:
    """Whoever opens a pipe that nobody writes to waits in the kernel, as one does for a dead file server."""
    run = tmp_path / CLUSTER / "0123456789abcdef"
    run.mkdir(parents=True)
    (run / "begun.json").touch()
    os.mkfifo(run / "plan.json")
    with Forked(textwrap.dedent(HANGS), tmp_path, CLUSTER) as process:
        process.wait(timeout=20)
        _, said = process.communicate(timeout=1)

    assert "JournalUnwritable" in said
    assert "gave no answer within 0.05 s (read the journal)" in said


async def test_nothing_is_kept_before_it_is_synced(tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content before the name, the name before the answer, and the directories on the way to it as well."""
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
    )
    directory = tmp_path / "new" / "journal"

    with local_journal(directory, CLUSTER) as journal:
        name = await journal.record(plan)

    root, run = directory / CLUSTER, directory / CLUSTER / name[:16]
    for made in (directory.parent, directory, root, run):
        assert str(made.parent) in synced
    assert synced[-2:] == [str(run / ".plan.json.partial"), str(run)]


async def test_a_plan_that_was_tampered_with_is_not_gone_on_with(world: World) -> None:
    world.offline()
    plan = await world.plan()
    with local_journal(world.directory, CLUSTER) as journal:
        name = await journal.record(plan)
        await journal.approved(name, "ann")
    file = world.directory / CLUSTER / name[:16] / "plan.json"
    file.write_bytes(file.read_bytes().replace(b'"leader":2', b'"leader":3'))

    for act in (world.resume, world.undo, world.recover):
        (why,) = (await act()).damaged
        assert re.search(r"plan\.json.*it was changed", why.message)
    with local_journal(world.directory, CLUSTER) as journal, pytest.raises(InvalidDocument, match="it was changed"):
        await journal.record(plan)

    assert world.changed() == []


async def test_a_plan_of_an_earlier_release_that_lacks_a_field_is_gone_on_with(place: Place, plan: Plan) -> None:
    """Its digest is that of the bytes that were kept, not of what this release would write in their place."""
    kept = json.loads(canonical(plan))
    del kept["evidence"]["cluster"]["designated_elections"]
    raw = json.dumps(kept, separators=(",", ":"), ensure_ascii=False).encode()
    earlier = digest_of_canonical(raw)
    with place.journal() as journal:
        storage = place.storage()
        storage.make(earlier[:16])
        storage.write(earlier[:16], "plan.json", raw)
        await journal.approved(earlier, "ann")

        (run,) = await whole_runs(journal)

    assert (run.digest, run.plan) == (earlier, plan)


@pytest.mark.parametrize("written_by", [None, 1, 3])
async def test_a_plan_in_another_format_is_refused_and_not_guessed_at(
    place: Place, plan: Plan, written_by: int | None
) -> None:
    kept = json.loads(canonical(plan))
    assert kept.pop("format") == 2
    raw = json.dumps(kept if written_by is None else {"format": written_by} | kept).encode()
    with place.journal() as journal:
        storage = place.storage()
        storage.make(digest_of_canonical(raw)[:16])
        storage.write(digest_of_canonical(raw)[:16], "plan.json", raw)
        await journal.approved(digest_of_canonical(raw), "ann")

        (damaged,) = await journal.unfinished()

    assert isinstance(damaged, DamagedRun)
    assert "plan.json: format: " in damaged.why.message


@pytest.mark.parametrize("fact", ["plan.json", "wave-0001-ended.json"])
async def test_a_record_that_can_not_be_read_is_named(place: Place, plan: Plan, fact: str) -> None:
    with place.journal() as journal:
        name = await journal.record(plan)
        await journal.approved(name, "ann")
        place.storage().write(name[:16], fact, b"{}\xff")

        (damaged,) = await journal.unfinished()

    assert isinstance(damaged, DamagedRun)
    assert (damaged.name, damaged.why.code) == (name[:16], "JournalDamaged")
    assert f"{fact}: " in damaged.why.message


async def test_a_copy_that_somebody_made_of_a_record_is_none(place: Place, plan: Plan) -> None:
    with place.journal() as journal:
        name = await journal.record(plan)
        await journal.approved(name, "ann")
        await journal.wave_started(name, 1, ())
        await journal.in_doubt(name, 1, BrokerId(4))
        for copy in ("wave-0001-started.json~", "wave-0001-doubt-7.json.bak", "wave-0001-ended.json.orig"):
            place.storage().write(name[:16], copy, b"{")

        (run,) = await whole_runs(journal)

    assert (run.in_flight, run.relays) == ((1,), frozenset({4}))


async def test_an_approval_that_can_not_be_read_is_named_to_whoever_asks_for_it(place: Place, plan: Plan) -> None:
    with place.journal() as journal:
        name = await journal.record(plan)
        await journal.approved(name, "ann")
        place.storage().write(name[:16], "approval.json", b"{}\xff")

        assert len(await whole_runs(journal)) == 1
        with pytest.raises(InvalidDocument, match=r"approval\.json"):
            await journal.approver(name)


@pytest.mark.parametrize("id", ["", ".", "..", "../other", "a/b", "/etc", "a" * 65, "a\n", "a b", "ä"])
def test_a_cluster_id_that_is_no_name_makes_no_path(tmp_path: Path, id: str) -> None:
    with pytest.raises(InvalidDocument), local_journal(tmp_path / "journal", id):
        pytest.fail("it was taken")

    assert list(tmp_path.iterdir()) == []


async def test_a_plan_is_found_by_the_beginning_of_its_digest(place: Place, plan: Plan) -> None:
    with place.journal() as journal:
        name = await journal.record(plan)

        for length in (4, 12, 16, 17, 64):
            assert journal.plan(name[:length]) == plan
        other = "0" if name[-1] != "0" else "1"
        for wrong in (name[:-1] + other, name[:16] + other * 4 if name[16] != other else name[:16] + "f", "0000ffff"):
            with pytest.raises(InvalidDocument, match="has 0 plans"):
                journal.plan(wrong)
        for nonsense in ("", "abc", "../../etc", name.upper(), name + "0", "*" * 8):
            with pytest.raises(InvalidDocument):
                journal.plan(nonsense)


async def test_a_beginning_that_two_plans_share_is_refused(place: Place, plan: Plan) -> None:
    with place.journal() as journal:
        name = await journal.record(plan)
        storage = place.storage()
        storage.make(name[:15])
        storage.write(name[:15], "plan.json", storage.read(name[:16], "plan.json"))

        with pytest.raises(InvalidDocument, match="has 2 plans"):
            journal.plan(name[:4])


async def test_a_plan_says_where_it_lies_once_it_is_recorded(place: Place, plan: Plan) -> None:
    with place.journal() as journal:
        before = journal.plan_file(digest(plan))
        name = await journal.record(plan)
        file = journal.plan_file(name)

    assert before is None
    assert file == place.storage().root / name[:16] / "plan.json"
    assert place.storage().read(name[:16], "plan.json") == canonical(plan)


async def test_only_plans_that_never_began_are_removed_and_only_old_ones(
    place: Place, world: World, plan: Plan
) -> None:
    with place.journal() as journal:
        old, begun, young = [await journal.record(each) for each in (plan, await another(world), await another(world))]
        await journal.approved(begun, None)
        for digest_ in (old, begun):
            place.written(digest_, datetime(1970, 1, 1, tzinfo=UTC))

        removed = journal.remove_unbegun(datetime(2000, 1, 1, tzinfo=UTC))

        assert removed == 1
        assert journal.plan_file(old) is None
        assert [run.digest for run in await whole_runs(journal)] == [begun]
        assert journal.plan_file(young)
