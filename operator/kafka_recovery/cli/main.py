"""`kafka-recovery`: look, plan, explain, execute; or all of it as one.

A command imports what it alone needs: nobody who asks for help waits for the simulator.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_recovery.cli.fleet import commands as fleet
from kafka_recovery.cli.fleet import trying
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.options import (
    AllOffline,
    Attest,
    AttestFor,
    AttestReason,
    BootstrapController,
    BootstrapServer,
    CommandConfig,
    ControllerConfig,
    DriverOption,
    ExpectClusterId,
    JournalDirectory,
    OutputForm,
    PartitionFile,
    Partitions,
    PolicyFile,
    Quiet,
    ReplicaLogInfoKey,
    Topic,
    Verbose,
)
from kafka_recovery.cli.terminal.programs import Version, program
from kafka_recovery.cli.terminal.render import Output
from kafka_recovery.cli.terminal.running import leave, run
from kafka_recovery.cli.terminal.signals import Interrupts
from kafka_recovery.cluster.drivers import Driver, Kip1275

if TYPE_CHECKING:
    from kafka_recovery.cli.cluster.wiring import Target

_EXIT_CODES = """Exit codes: 0 done; 1 some partition not recovered; 2 bad input; 3 cluster unavailable; 4 approval
needed; 5 journal locked or not writable; 6 not let in; 70 a bug; 128+n stopped by signal n."""

app = program(
    "kafka-recovery",
    "Bring offline Kafka partitions back with the best replica that is left, and explain every choice.",
    _EXIT_CODES,
)


def _target(bootstrap: str, config: Path | None, cluster_id: str | None, driver: Driver, key: int | None) -> Target:
    from kafka_recovery.cli.cluster.wiring import Target

    return Target(bootstrap, config, cluster_id, kip_1275=Kip1275(driver, key))


@app.callback()
def root(version: Version = False) -> None:
    """What every command has before it."""


@app.command()
def inspect(
    context: typer.Context,
    bootstrap_server: BootstrapServer,
    command_config: CommandConfig = None,
    expect_cluster_id: ExpectClusterId = None,
    driver: DriverOption = Driver.AUTO,
    replica_log_info_api_key: ReplicaLogInfoKey = None,
    policy: PolicyFile = None,
    all_offline_partitions: AllOffline = False,
    topic: Topic = None,
    partition: Partitions = None,
    path_to_json_file: PartitionFile = None,
    output: OutputForm = Output.TABLE,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Show every replica's log. Changes nothing.

    Each log is measured by the replica's own broker. Without partitions: those that are offline.
    """
    from kafka_recovery.cli.cluster import looking

    target = _target(bootstrap_server, command_config, expect_cluster_id, driver, replica_log_info_api_key)
    which = looking.Which(all_offline_partitions, tuple(partition or ()), path_to_json_file, topic)
    run(lambda _: looking.inspect(context.obj, target, policy, which, output))


@app.command()
def plan(
    context: typer.Context,
    bootstrap_server: BootstrapServer,
    command_config: CommandConfig = None,
    bootstrap_controller: BootstrapController = None,
    controller_config: ControllerConfig = None,
    expect_cluster_id: ExpectClusterId = None,
    driver: DriverOption = Driver.AUTO,
    replica_log_info_api_key: ReplicaLogInfoKey = None,
    policy: PolicyFile = None,
    all_offline_partitions: AllOffline = False,
    topic: Topic = None,
    partition: Partitions = None,
    path_to_json_file: PartitionFile = None,
    attest: Attest = None,
    attest_reason: AttestReason = None,
    attest_for: AttestFor = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the plan to this new file, to be executed later."),
    ] = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 if some partition stays without a leader by this plan.")
    ] = False,
    output: OutputForm = Output.TABLE,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Decide what to do, and why. Changes nothing.

    Without partitions: of those that are offline.
    """
    from kafka_recovery.cli.cluster import looking
    from kafka_recovery.cli.terminal.inputs import Attesting

    target = _target(bootstrap_server, command_config, expect_cluster_id, driver, replica_log_info_api_key)
    target = target.reading_at(bootstrap_controller, controller_config)
    attesting = Attesting(tuple(attest or ()), attest_reason, attest_for)
    which = looking.Which(all_offline_partitions, tuple(partition or ()), path_to_json_file, topic)
    run(lambda _: looking.plan(context.obj, target, policy, which, out, output, exit_code, attesting))


@app.command()
def explain(
    context: typer.Context,
    named: Annotated[
        str | None, typer.Argument(metavar="PARTITION", help="Such as orders-17.", show_default=False)
    ] = None,
    topic: Topic = None,
    partition: Partitions = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE|DIGEST",
            help="Explain this plan's decision instead of a fresh one; DIGEST: 6 or more first digits of a plan of the "
            "journal.",
        ),
    ] = None,
    bootstrap_server: Annotated[str, BootstrapServer.__metadata__[0]] = "",
    command_config: CommandConfig = None,
    bootstrap_controller: BootstrapController = None,
    controller_config: ControllerConfig = None,
    expect_cluster_id: ExpectClusterId = None,
    driver: DriverOption = Driver.AUTO,
    replica_log_info_api_key: ReplicaLogInfoKey = None,
    policy: PolicyFile = None,
    attest: Attest = None,
    attest_reason: AttestReason = None,
    attest_for: AttestFor = None,
    journal: JournalDirectory = None,
    output: OutputForm = Output.TABLE,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Explain the decision on one partition.

    Each replica, its rank, what it lacks, and what may be lost. Changes nothing.
    """
    from kafka_recovery.cli.cluster import looking
    from kafka_recovery.cli.terminal.inputs import Attesting

    target = _target(bootstrap_server, command_config, expect_cluster_id, driver, replica_log_info_api_key)
    target = target.reading_at(bootstrap_controller, controller_config)
    attesting = Attesting(tuple(attest or ()), attest_reason, attest_for)
    one = looking.Which(False, tuple(partition or ()), None, topic, named)
    run(lambda _: looking.explain(context.obj, target, policy, one, plan, journal, output, attesting))


@app.command()
def plans(
    digest: Annotated[
        str | None, typer.Argument(metavar="DIGEST", help="Show this one: 6 or more first digits.", show_default=False)
    ] = None,
    journal: JournalDirectory = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """List the journal's plans, or show one.

    The newest first, with how far the run of each came. Changes nothing.
    """
    from kafka_recovery.cli.cluster import kept_plans

    run(lambda _: kept_plans.plans(journal, digest, output))


@app.command()
def runs(
    journal: JournalDirectory = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """List the journal's runs, and how to go on.

    The newest first: finished, unfinished, with assignment orders altered, or damaged. Changes nothing.
    """
    from kafka_recovery.cli.cluster import kept_runs

    run(lambda _: kept_runs.runs(journal, output))


@app.command()
def execute(
    context: typer.Context,
    bootstrap_server: BootstrapServer,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="A plan, as plan --out writes it, or designated leaders in JSON, as kafka-unclean-recovery writes "
            "them. Without FILE: the plan of the journal that --plan names.",
        ),
    ] = None,
    plan: Annotated[
        str | None, typer.Option("--plan", metavar="DIGEST", help="The digest of the plan you have read.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Yes: approve the plan that --plan names.")] = False,
    command_config: CommandConfig = None,
    bootstrap_controller: BootstrapController = None,
    controller_config: ControllerConfig = None,
    expect_cluster_id: ExpectClusterId = None,
    driver: DriverOption = Driver.AUTO,
    replica_log_info_api_key: ReplicaLogInfoKey = None,
    policy: PolicyFile = None,
    attest: Attest = None,
    attest_reason: AttestReason = None,
    attest_for: AttestFor = None,
    journal: JournalDirectory = None,
    output: OutputForm = Output.TABLE,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Carry out exactly what was planned.

    What changed since is refused, not planned again.

    Designated leaders are no plan yet: one is made of them and approved as with recover.
    """
    from kafka_recovery.cli.cluster import changing
    from kafka_recovery.cli.cluster.changing import Site, Word
    from kafka_recovery.cli.terminal.inputs import Attesting

    target = _target(bootstrap_server, command_config, expect_cluster_id, driver, replica_log_info_api_key)
    target = target.reading_at(bootstrap_controller, controller_config)
    attesting = Attesting(tuple(attest or ()), attest_reason, attest_for)
    run(
        lambda stop: changing.execute(
            Site(context.obj, target, journal, output, stop), file, Word(plan, yes), policy, attesting
        )
    )


@app.command()
def recover(
    context: typer.Context,
    bootstrap_server: BootstrapServer,
    command_config: CommandConfig = None,
    bootstrap_controller: BootstrapController = None,
    controller_config: ControllerConfig = None,
    expect_cluster_id: ExpectClusterId = None,
    driver: DriverOption = Driver.AUTO,
    replica_log_info_api_key: ReplicaLogInfoKey = None,
    policy: PolicyFile = None,
    journal: JournalDirectory = None,
    all_offline_partitions: AllOffline = False,
    topic: Topic = None,
    partition: Partitions = None,
    path_to_json_file: PartitionFile = None,
    attest: Attest = None,
    attest_reason: AttestReason = None,
    attest_for: AttestFor = None,
    output: OutputForm = Output.TABLE,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Plan, ask for approval, elect, verify.

    What changes meanwhile is planned again, and asked about again.
    """
    from kafka_recovery.cli.cluster import changing, looking
    from kafka_recovery.cli.cluster.changing import Site
    from kafka_recovery.cli.terminal.inputs import Attesting

    target = _target(bootstrap_server, command_config, expect_cluster_id, driver, replica_log_info_api_key)
    target = target.reading_at(bootstrap_controller, controller_config)
    attesting = Attesting(tuple(attest or ()), attest_reason, attest_for)
    which = looking.Which(all_offline_partitions, tuple(partition or ()), path_to_json_file, topic)

    async def recovered(stop: Interrupts) -> ExitCode:
        return await changing.recover(
            Site(context.obj, target, journal, output, stop), policy, which.wanted(), attesting
        )

    run(recovered)


@app.command()
def resume(
    context: typer.Context,
    bootstrap_server: BootstrapServer,
    command_config: CommandConfig = None,
    bootstrap_controller: BootstrapController = None,
    controller_config: ControllerConfig = None,
    expect_cluster_id: ExpectClusterId = None,
    driver: DriverOption = Driver.AUTO,
    replica_log_info_api_key: ReplicaLogInfoKey = None,
    policy: PolicyFile = None,
    journal: JournalDirectory = None,
    output: OutputForm = Output.TABLE,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Go on with unfinished runs.

    Those of the journal on this machine; runs lists them.
    """
    from kafka_recovery.cli.cluster import changing
    from kafka_recovery.cli.cluster.changing import Site

    target = _target(bootstrap_server, command_config, expect_cluster_id, driver, replica_log_info_api_key)
    target = target.reading_at(bootstrap_controller, controller_config)
    run(lambda stop: changing.resume(Site(context.obj, target, journal, output, stop), policy))


@app.command()
def undo(
    context: typer.Context,
    bootstrap_server: BootstrapServer,
    command_config: CommandConfig = None,
    expect_cluster_id: ExpectClusterId = None,
    driver: DriverOption = Driver.AUTO,
    replica_log_info_api_key: ReplicaLogInfoKey = None,
    journal: JournalDirectory = None,
    records: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The journal of an operator that is gone: kubectl get recoveryrecords -o json."
        ),
    ] = None,
    output: OutputForm = Output.TABLE,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Restore orders that unfinished runs left.

    Assignment orders are put back. Leaders stay: an election has no undo.

    Runs of the journal on this machine; a recovery of the operator is ended by kubectl kafka-recovery abort.
    """
    from kafka_recovery.cli.cluster import changing
    from kafka_recovery.cli.cluster.changing import Site

    target = _target(bootstrap_server, command_config, expect_cluster_id, driver, replica_log_info_api_key)
    run(lambda stop: changing.undo(Site(context.obj, target, journal, output, stop), records))


app.add_typer(trying.app)
app.add_typer(fleet.app)


def main() -> None:
    """The program."""
    leave(app)


if __name__ == "__main__":
    main()
