"""`kafka-recovery`: look, plan, explain, execute; or all of it as one.

A command imports what it alone needs: nobody who asks for help waits for the simulator.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_recovery.cli.fleet import commands as fleet
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.options import (
    AllOffline,
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
    ReplicaLogInfoKey,
)
from kafka_recovery.cli.terminal.render import Output
from kafka_recovery.cli.terminal.running import leave, run
from kafka_recovery.cli.terminal.signals import Interrupts
from kafka_recovery.cluster.drivers import Driver, Kip1275

if TYPE_CHECKING:
    from kafka_recovery.cli.cluster.wiring import Target

_EXIT_CODES = """Exit codes: 0 done; 1 some partition not recovered; 2 bad input; 3 cluster unavailable, or it refuses
us; 4 approval needed or refused; 5 journal locked or not writable; 70 a bug; 128+n stopped by signal n."""

app = typer.Typer(
    name="kafka-recovery",
    help="Brings offline Kafka partitions back with the best replica that is left, and explains every choice.",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _target(bootstrap: str, config: Path | None, cluster_id: str | None, driver: Driver, key: int | None) -> Target:
    from kafka_recovery.cli.cluster.wiring import Target

    return Target(bootstrap, config, cluster_id, kip_1275=Kip1275(driver, key))


def _say_version(asked: bool) -> None:
    if asked:
        print(version("kafka-recovery-operator"))
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Say which release this is.")
    ] = False,
) -> None:
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
    partition: Partitions = None,
    path_to_json_file: PartitionFile = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Show every replica's log as its own broker measures it. Changes nothing.

    Without partitions: those that are offline.
    """
    from kafka_recovery.cli.cluster import looking

    target = _target(bootstrap_server, command_config, expect_cluster_id, driver, replica_log_info_api_key)
    which = looking.Which(all_offline_partitions, tuple(partition or ()), path_to_json_file)
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
    partition: Partitions = None,
    path_to_json_file: PartitionFile = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the plan to this new file, to be executed later."),
    ] = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Decide what would be done, and why. Changes nothing."""
    from kafka_recovery.cli.cluster import looking

    target = _target(bootstrap_server, command_config, expect_cluster_id, driver, replica_log_info_api_key)
    target = target.reading_at(bootstrap_controller, controller_config)
    which = looking.Which(all_offline_partitions, tuple(partition or ()), path_to_json_file)
    run(lambda _: looking.plan(context.obj, target, policy, which, out, output))


@app.command()
def explain(
    context: typer.Context,
    partition: Annotated[str, typer.Argument(metavar="PARTITION", help="Such as orders-17.")],
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
    journal: JournalDirectory = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Say why one partition is decided as it is: each replica, its rank, what it lacks, and what may be lost."""
    from kafka_recovery.cli.cluster import looking

    target = _target(bootstrap_server, command_config, expect_cluster_id, driver, replica_log_info_api_key)
    target = target.reading_at(bootstrap_controller, controller_config)
    run(lambda _: looking.explain(context.obj, target, policy, partition, plan, journal, output))


@app.command()
def plans(
    digest: Annotated[
        str | None, typer.Argument(metavar="DIGEST", help="Show this one: 6 or more first digits.", show_default=False)
    ] = None,
    journal: JournalDirectory = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """List the plans of the journal, the newest first, and what became of each; or show one. Changes nothing."""
    from kafka_recovery.cli.cluster import kept_plans

    run(lambda _: kept_plans.plans(journal, digest, output))


@app.command()
def execute(
    context: typer.Context,
    bootstrap_server: BootstrapServer,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="A plan, as plan --out writes it, or designated leaders in JSON, as kafka-unclean-recovery writes "
            "them. Without FILE: the plan of the journal that --approve names.",
        ),
    ] = None,
    approve: Annotated[
        str | None, typer.Option("--approve", metavar="DIGEST", help="The digest of the plan you have read.")
    ] = None,
    command_config: CommandConfig = None,
    bootstrap_controller: BootstrapController = None,
    controller_config: ControllerConfig = None,
    expect_cluster_id: ExpectClusterId = None,
    driver: DriverOption = Driver.AUTO,
    replica_log_info_api_key: ReplicaLogInfoKey = None,
    policy: PolicyFile = None,
    journal: JournalDirectory = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Carry out exactly what was planned. What changed since is refused, not planned anew.

    Designated leaders are no plan yet: one is made of them and approved as with recover.
    """
    from kafka_recovery.cli.cluster import changing
    from kafka_recovery.cli.cluster.changing import Site

    target = _target(bootstrap_server, command_config, expect_cluster_id, driver, replica_log_info_api_key)
    target = target.reading_at(bootstrap_controller, controller_config)
    run(lambda stop: changing.execute(Site(context.obj, target, journal, output, stop), file, approve, policy))


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
    partition: Partitions = None,
    path_to_json_file: PartitionFile = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Plan, ask for approval, elect and verify; plan anew what changed meanwhile."""
    from kafka_recovery.cli.cluster import changing, looking
    from kafka_recovery.cli.cluster.changing import Site

    target = _target(bootstrap_server, command_config, expect_cluster_id, driver, replica_log_info_api_key)
    target = target.reading_at(bootstrap_controller, controller_config)
    which = looking.Which(all_offline_partitions, tuple(partition or ()), path_to_json_file)

    async def recovered(stop: Interrupts) -> ExitCode:
        return await changing.recover(Site(context.obj, target, journal, output, stop), policy, which.wanted())

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
) -> None:
    """Go on with what an earlier run began and did not finish."""
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
) -> None:
    """Put back the assignment orders that an unfinished run left behind. Leaders stay: an election has no undo."""
    from kafka_recovery.cli.cluster import changing
    from kafka_recovery.cli.cluster.changing import Site

    target = _target(bootstrap_server, command_config, expect_cluster_id, driver, replica_log_info_api_key)
    run(lambda stop: changing.undo(Site(context.obj, target, journal, output, stop), records))


@app.command()
def rehearse(
    policy: Annotated[Path, typer.Option("--policy", metavar="FILE", help="A RecoveryPolicy, or its spec, in YAML.")],
    scenario: Annotated[
        list[Path] | None,
        typer.Option("--scenario", metavar="FILE", help="A scenario of the simulator, in YAML; may be repeated."),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", metavar="N|FIRST..END", help="Random histories. [default: 200, without --scenario]"),
    ] = None,
    max_lost: Annotated[
        int | None, typer.Option(min=0, help="Exit code 1 if its elections lose more acknowledged records than this.")
    ] = None,
    max_refused: Annotated[
        int | None, typer.Option(min=0, help="Exit code 1 if more partitions than this stay refused to the end.")
    ] = None,
    max_failed: Annotated[
        int | None, typer.Option(min=0, help="Exit code 1 if more partitions than this stay failed to the end.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.png|.svg", help="Draw the result into this new file.")
    ] = None,
    timeline: Annotated[bool, typer.Option("--timeline", help="Tell the one history that is asked for.")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, max=256, help="Processes. [default: one a core]")] = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Try a policy on simulated failures, beside Kafka's own choice. Needs no Kafka.

    For pull requests: exit code 1 if the policy exceeds what a --max option allows.
    """
    from kafka_recovery.cli.fleet import rehearse as rehearsing
    from kafka_recovery.simulator.rehearsal.sums import Allowed

    call = rehearsing.Call(
        policy, tuple(scenario or ()), seeds, Allowed(max_lost, max_refused, max_failed), plot, jobs, output
    )
    run(lambda _: rehearsing.tell(call) if timeline else rehearsing.rehearse(call))


@app.command()
def play(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A scenario of the simulator, in YAML.", show_default=False)
    ] = None,
    incident: Annotated[
        str | None,
        typer.Option("--incident", metavar="NAME", help="One that comes with the program. [default: divergent]"),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_435, help="The first broker's port; 0: any that are free.")
    ] = 19_092,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Let it happen before your eyes, instead of showing what is left.")
    ] = False,
    stepped: Annotated[
        bool, typer.Option("--stepped", help="Let time pass only when told to: Enter for a second, or a number.")
    ] = False,
    user: Annotated[
        str | None,
        typer.Option(
            "--user", metavar="NAME:PASSWORD", help="Let in this one only, by SASL_PLAINTEXT with PLAIN or SCRAM."
        ),
    ] = None,
    deny: Annotated[
        list[str] | None,
        typer.Option(
            "--deny",
            metavar="OPERATION:RESOURCE",
            help="Take a right from that user: ALTER:cluster, READ:orders. Repeat.",
        ),
    ] = None,
) -> None:
    """Serve a simulated Kafka on this machine, with an incident in it, to try recoveries on. Needs no Kafka.

    Ctrl-C ends it.
    """
    from kafka_recovery.cli.fleet import play as playing

    call = playing.Call(file, incident, port, from_start, stepped, deny or (), user)
    run(lambda interrupts: playing.play(call, interrupts))


@app.command()
def snapshot(
    context: typer.Context,
    bootstrap_server: BootstrapServer,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="URL", help="A directory, or a URL such as s3://bucket/folder, for many snapshots."
        ),
    ],
    keep: Annotated[
        str | None,
        typer.Option("--keep", metavar="DURATION", help="Then remove this cluster's older ones, such as 720h."),
    ] = None,
    command_config: CommandConfig = None,
    expect_cluster_id: ExpectClusterId = None,
    driver: DriverOption = Driver.AUTO,
    replica_log_info_api_key: ReplicaLogInfoKey = None,
    policy: PolicyFile = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Keep evidence of every partition as a Parquet file, for history and for questions about many clusters.

    Changes nothing in Kafka. Credentials of the store come from the environment.
    """
    from kafka_recovery.cli.fleet import snapshot as snapshots

    target = _target(bootstrap_server, command_config, expect_cluster_id, driver, replica_log_info_api_key)
    run(lambda _: snapshots.snapshot(context.obj, target, policy, snapshots.Keeping(to, keep), output))


app.add_typer(fleet.app)


def main() -> None:
    """The program."""
    leave(app)


if __name__ == "__main__":
    main()
