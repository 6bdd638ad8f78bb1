"""`kafka-recovery rehearse`, `play`, `snapshot`: their options. What they do is imported when one of them runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafka_recovery.cli.terminal.options import (
    BootstrapServer,
    CommandConfig,
    DriverOption,
    ExpectClusterId,
    OutputForm,
    PolicyFile,
    Quiet,
    ReplicaLogInfoKey,
    Verbose,
)
from kafka_recovery.cli.terminal.render import Output
from kafka_recovery.cli.terminal.running import run
from kafka_recovery.cluster.drivers import Driver, Kip1275

app = typer.Typer()
"""Commands of `kafka-recovery` itself, without a name of their own before them."""


@app.command()
def rehearse(
    policy: Annotated[Path, typer.Option("--policy", metavar="FILE", help="A RecoveryPolicy, or its spec, in YAML.")],
    scenario: Annotated[
        list[Path] | None,
        typer.Option("--scenario", metavar="FILE", help="A scenario of the simulator, in YAML; may be repeated."),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            "--seeds", metavar="N|FIRST..END", help="Random histories to play. [default: 200, without --scenario]"
        ),
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
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Tell one history event by event; --scenario or --seeds names it.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=256, help="Processes to play histories in. [default: one a core]")
    ] = None,
    output: OutputForm = Output.TABLE,
    quiet: Quiet = False,
) -> None:
    """Try a policy on simulated failures.

    Kafka's own choice is shown beside it. Needs no Kafka. For pull requests: exit code 1 if the policy exceeds what a
    --max option allows.
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
    """Serve a simulated Kafka with an incident.

    On this machine, to try recoveries on. Needs no Kafka. Ctrl-C ends it.
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
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Keep evidence as a Parquet file.

    Evidence of every partition, for history and for questions about many clusters. Changes nothing in Kafka.
    Credentials of the store come from the environment.
    """
    from kafka_recovery.cli.cluster.wiring import Target
    from kafka_recovery.cli.fleet import snapshot as snapshots

    kip_1275 = Kip1275(driver, replica_log_info_api_key)
    target = Target(bootstrap_server, command_config, expect_cluster_id, kip_1275=kip_1275)
    run(lambda _: snapshots.snapshot(context.obj, target, policy, snapshots.Keeping(to, keep), output))
