"""The journal on a real disk: durable, whole or not at all, one process at a time."""

from __future__ import annotations

import errno
import os
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import InvalidDocument, canonical, digest
from kafka_recovery.recovery.journal_files import FileJournal
from kafka_recovery.recovery.ports import JournalLocked, JournalUnwritable, PlanFinished
from unit.processes import Forked
from unit.recovery.brokers import CLUSTER
from unit.recovery.world import ORDERS, World


@pytest.fixture
async def plan(world: World) -> Plan:
    world.offline()
    return await world.plan()


async def another(world: World) -> Plan:
    world.clock.advance(world.clock.monotonic())
    return await world.plan()


async def test_a_run_reads_back_as_it_was_written(tmp_path: Path, plan: Plan) -> None:
    outcome = PartitionOutcome(ORDERS, Outcome.RECOVERED)
    with FileJournal(tmp_path, CLUSTER) as journal:
        name = await journal.record(plan)
        await journal.approved(name, "ann")
        await journal.wave_started(name, 1, (ORDERS,))
        await journal.wave_ended(name, 1, (outcome,))
        await journal.wave_started(name, 2, (ORDERS,))

    with FileJournal(tmp_path, CLUSTER) as journal:
        (run,) = await journal.unfinished()

    assert name == digest(plan)
    assert (run.digest, run.plan) == (name, plan)
    assert (run.waves, run.in_flight, run.outcomes) == (2, (2,), (outcome,))


async def test_a_plan_is_a_run_once_it_is_approved_and_until_it_is_finished(tmp_path: Path, plan: Plan) -> None:
    with FileJournal(tmp_path, CLUSTER) as journal:
        name = await journal.record(plan)
        assert await journal.unfinished() == []
        await journal.approved(name, None)
        assert (len(await journal.unfinished()), await journal.approver(name)) == (1, None)
        await journal.approved(name, "ann")
        assert await journal.approver(name) == "ann"
        await journal.approved(name, "bob")
        assert await journal.approver(name) == "ann", "the first approval stands"
        await journal.finished(name)
        assert await journal.unfinished() == []


async def test_every_record_may_be_made_twice(tmp_path: Path, plan: Plan) -> None:
    with FileJournal(tmp_path, CLUSTER) as journal:
        name = await journal.record(plan)
        for _ in range(2):
            assert await journal.record(plan) == name
            await journal.approved(name, "ann")
            await journal.wave_started(name, 1, (ORDERS,))
            await journal.wave_ended(name, 1, ())
        await journal.finished(name)
        await journal.finished(name)


async def test_a_plan_that_has_ended_is_not_recorded_again(tmp_path: Path, plan: Plan) -> None:
    with FileJournal(tmp_path, CLUSTER) as journal:
        await journal.finished(await journal.record(plan))

        with pytest.raises(PlanFinished):
            await journal.record(plan)


async def test_thousands_of_waves_keep_their_numbers(tmp_path: Path, plan: Plan) -> None:
    with FileJournal(tmp_path, CLUSTER) as journal:
        name = await journal.record(plan)
        await journal.approved(name, "ann")
        await journal.wave_started(name, 9_999, ())
        await journal.wave_started(name, 12_345, ())
        await journal.wave_ended(name, 9_999, ())

        (run,) = await journal.unfinished()

    assert (run.waves, run.in_flight) == (12_345, (12_345,))


async def test_runs_come_oldest_first(tmp_path: Path, world: World, plan: Plan) -> None:
    later = await another(world)
    with FileJournal(tmp_path, CLUSTER) as journal:
        for one in (plan, later):
            await journal.approved(await journal.record(one), "ann")

        assert [run.plan for run in await journal.unfinished()] == [plan, later]


async def test_what_was_being_written_when_the_process_was_killed_does_not_count(tmp_path: Path, plan: Plan) -> None:
    with FileJournal(tmp_path, CLUSTER) as journal:
        name = await journal.record(plan)
        run = tmp_path / CLUSTER / name[:16]
        for fact in ("begun.json", "approval.json", "wave-0001-started.json"):
            (run / f".{fact}.partial").write_bytes(b'{"by": "an')
        half = tmp_path / CLUSTER / "0123456789abcdef"
        half.mkdir()
        (half / ".plan.json.partial").write_bytes(b"{")

        assert await journal.unfinished() == []
        await journal.approved(name, "ann")
        assert [r.digest for r in await journal.unfinished()] == [name]


KILLED = """
    import asyncio, os, signal, sys
    from pathlib import Path
    from kafka_recovery.formats.documents import read
    from kafka_recovery.domain.plan import Plan
    from kafka_recovery.recovery.journal_files import FileJournal

    async def main():
        plan = read(Plan, Path(sys.argv[2]).read_bytes(), "plan")
        left = int(sys.argv[3])
        def kill(event, arguments):
            nonlocal left
            if event in ("open", "os.rename", "os.mkdir") and sys.argv[1] in str(arguments[0]):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        with FileJournal(Path(sys.argv[1]), sys.argv[4]) as journal:
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
        with FileJournal(directory, CLUSTER) as journal:
            runs = await journal.unfinished()
            assert [run.plan for run in runs] == [plan] * len(runs)
            states.add((len(runs), runs[0].in_flight if runs else None))
            assert await journal.record(plan) == digest(plan)
        if process.returncode == 0:
            break
        assert process.returncode == -9, said

    assert states == {(0, None), (1, ()), (1, (1,))}


HOLD = """
    import signal, sys
    from pathlib import Path
    from kafka_recovery.recovery.journal_files import FileJournal
    with FileJournal(Path(sys.argv[1]), sys.argv[2]):
        print("held", flush=True)
        signal.pause()
"""


def test_two_processes_do_not_recover_one_cluster(tmp_path: Path) -> None:
    with Forked(textwrap.dedent(HOLD), tmp_path, CLUSTER) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(JournalLocked, match=rf"process {holder.pid}\b.*{tmp_path}"), FileJournal(tmp_path, CLUSTER):
            pytest.fail("both hold it")
        with FileJournal(tmp_path, "another-cluster"):
            pass

    with FileJournal(tmp_path, CLUSTER):
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


async def test_nothing_is_kept_before_it_is_synced(tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content before the name, the name before the answer, and the directories on the way to it as well."""
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
    )
    directory = tmp_path / "new" / "journal"

    with FileJournal(directory, CLUSTER) as journal:
        name = await journal.record(plan)

    root, run = directory / CLUSTER, directory / CLUSTER / name[:16]
    for made in (directory.parent, directory, root, run):
        assert str(made.parent) in synced
    assert synced[-2:] == [str(run / ".plan.json.partial"), str(run)]


async def test_a_plan_that_was_tampered_with_is_not_gone_on_with(world: World) -> None:
    world.offline()
    plan = await world.plan()
    with FileJournal(world.directory, CLUSTER) as journal:
        name = await journal.record(plan)
        await journal.approved(name, "ann")
    file = world.directory / CLUSTER / name[:16] / "plan.json"
    file.write_bytes(file.read_bytes().replace(b'"leader":2', b'"leader":3'))

    for act in (world.resume, world.undo, world.recover):
        with pytest.raises(InvalidDocument, match=r"plan\.json.*it was changed"):
            await act()
    with FileJournal(world.directory, CLUSTER) as journal, pytest.raises(InvalidDocument, match="it was changed"):
        await journal.record(plan)

    assert world.changed() == []


@pytest.mark.parametrize("fact", ["plan.json", "wave-0001-ended.json"])
async def test_a_record_that_can_not_be_read_is_named(tmp_path: Path, plan: Plan, fact: str) -> None:
    with FileJournal(tmp_path, CLUSTER) as journal:
        name = await journal.record(plan)
        await journal.approved(name, "ann")
        (tmp_path / CLUSTER / name[:16] / fact).write_bytes(b"{}\xff")

        with pytest.raises(InvalidDocument, match=fact):
            await journal.unfinished()


async def test_an_approval_that_can_not_be_read_is_named_to_whoever_asks_for_it(tmp_path: Path, plan: Plan) -> None:
    with FileJournal(tmp_path, CLUSTER) as journal:
        name = await journal.record(plan)
        await journal.approved(name, "ann")
        (tmp_path / CLUSTER / name[:16] / "approval.json").write_bytes(b"{}\xff")

        assert len(await journal.unfinished()) == 1
        with pytest.raises(InvalidDocument, match=r"approval\.json"):
            await journal.approver(name)


@pytest.mark.parametrize("id", ["", ".", "..", "../other", "a/b", "/etc", "a" * 65, "a\n", "a b", "ä"])
def test_a_cluster_id_that_is_no_name_makes_no_path(tmp_path: Path, id: str) -> None:
    with pytest.raises(InvalidDocument), FileJournal(tmp_path / "journal", id):
        pytest.fail("it was taken")

    assert list(tmp_path.iterdir()) == []


async def test_a_plan_is_found_by_the_beginning_of_its_digest(tmp_path: Path, plan: Plan) -> None:
    with FileJournal(tmp_path, CLUSTER) as journal:
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


async def test_a_beginning_that_two_plans_share_is_refused(tmp_path: Path, plan: Plan) -> None:
    with FileJournal(tmp_path, CLUSTER) as journal:
        name = await journal.record(plan)
        twin = tmp_path / CLUSTER / name[:15]
        twin.mkdir()
        (twin / "plan.json").write_bytes((tmp_path / CLUSTER / name[:16] / "plan.json").read_bytes())

        with pytest.raises(InvalidDocument, match="has 2 plans"):
            journal.plan(name[:4])


async def test_a_plan_says_where_it_lies_once_it_is_recorded(tmp_path: Path, plan: Plan) -> None:
    with FileJournal(tmp_path, CLUSTER) as journal:
        before = journal.plan_file(digest(plan))
        name = await journal.record(plan)
        file = journal.plan_file(name)

    assert before is None
    assert file
    assert file.read_bytes() == canonical(plan)


async def test_only_plans_that_never_began_are_removed_and_only_old_ones(
    tmp_path: Path, world: World, plan: Plan
) -> None:
    with FileJournal(tmp_path, CLUSTER) as journal:
        old, begun, young = [await journal.record(each) for each in (plan, await another(world), await another(world))]
        await journal.approved(begun, None)
        for digest_ in (old, begun):
            file = journal.plan_file(digest_)
            assert file
            os.utime(file, (0, 0))

        removed = journal.remove_unbegun(datetime(2000, 1, 1, tzinfo=UTC))

        assert removed == 1
        assert journal.plan_file(old) is None
        assert [run.digest for run in await journal.unfinished()] == [begun]
        assert journal.plan_file(young)
