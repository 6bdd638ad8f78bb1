"""`kafka-unclean-recovery`: the tool of KIP-1275, option for option.

What it does lies in `task`, which is imported when it runs: nobody who asks for help waits for it.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.options import AllOffline, BootstrapServer, CommandConfig, Quiet, Verbose
from kafka_recovery.cli.terminal.programs import HELP, Version
from kafka_recovery.cli.terminal.render import Output
from kafka_recovery.cli.terminal.running import leave, run
from kafka_recovery.cli.terminal.signals import Interrupts

_LONGEST_MS = 24 * 60 * 60 * 1000

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)

DurationMs = Annotated[
    int,
    typer.Option(
        "--recovery-duration-ms",
        metavar="MS",
        min=1,
        max=_LONGEST_MS,
        help="A broker has to answer within this time to be a candidate; elections may take as long again.",
    ),
]
ElectionAttempts = Annotated[
    int,
    typer.Option(
        "--recovery-election-attempts",
        metavar="N",
        min=0,
        max=100,
        help="Retries of an election request after a transient failure.",
    ),
]
ShowReplicaInfo = Annotated[
    bool, typer.Option("--show-replica-info", help="Print every replica's log. Goes with any other option.")
]
ManualFile = Annotated[
    Path | None,
    typer.Option(
        "--manual-recovery-output-file",
        metavar="FILE",
        help="Write the leaders that would be elected to this new file; elect nothing.",
    ),
]
Automated = Annotated[
    bool, typer.Option("--automated-recovery", help="Elect the best replica of each partition, without asking.")
]
InputFile = Annotated[
    Path | None,
    typer.Option(
        "--path-to-json-file",
        metavar="FILE",
        help='The partitions: {"partitions": [{"topic": "orders", "partitions": [0, 3]}]}.',
    ),
]


@app.command(context_settings=HELP)
def recover(
    context: typer.Context,
    bootstrap_server: BootstrapServer,
    command_config: CommandConfig = None,
    recovery_duration_ms: DurationMs = 30_000,
    recovery_election_attempts: ElectionAttempts = 3,
    show_replica_info: ShowReplicaInfo = False,
    manual_recovery_output_file: ManualFile = None,
    automated_recovery: Automated = False,
    path_to_json_file: InputFile = None,
    all_offline_partitions: AllOffline = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    version: Version = False,
) -> None:
    """Recover offline partitions by the logs their replicas have (KIP-1275).

    Safe to run again: a partition that is online by then is left alone. Exit code 0: every partition is online.

    Elections are journaled in ${XDG_STATE_HOME:-~/.local/state}/kafka-recovery, for kafka-recovery resume and undo.
    """
    from kafka_recovery.cli.cluster.changing import Site
    from kafka_recovery.cli.cluster.wiring import Target
    from kafka_recovery.cli.kip_1275.task import Task, carry_out

    duration = timedelta(milliseconds=recovery_duration_ms)
    task = Task(duration, show_replica_info, manual_recovery_output_file, automated_recovery, path_to_json_file)
    target = Target(bootstrap_server, command_config, election_attempts=recovery_election_attempts + 1)

    async def recovered(stop: Interrupts) -> ExitCode:
        task.check(all_offline_partitions)
        return await carry_out(Site(context.obj, target, None, Output.TABLE, stop), task)

    run(recovered)


def main() -> None:
    """The program."""
    leave(app)


if __name__ == "__main__":
    main()
