"""`kubectl kafka-recovery`: the commands and their options. kubectl hands over everything behind the plugin's name."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from kafka_recovery.cli.kubectl import bundle, plans, saying, standing, steering
from kafka_recovery.cli.kubectl.access import PROGRAM, Reach
from kafka_recovery.cli.kubectl.steering import Which
from kafka_recovery.cli.kubectl.troubles import run
from kafka_recovery.cli.options import OutputForm
from kafka_recovery.cli.render import Output
from kafka_recovery.cli.running import leave

_EXIT_CODES = """Exit codes: 0 done; 1 assignment orders not restored yet; 2 bad input; 3 API server unavailable, or it
refuses us; 4 a person has to say yes first, to this very plan; 70 a bug; 130 stopped by SIGINT."""

app = typer.Typer(
    name=PROGRAM,
    help="What waits for whom in Kafka recoveries, and what you say to it. Works with your kubeconfig and your rights.",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Where. [default: the context's namespace]")
]
Context = Annotated[str | None, typer.Option("--context", metavar="NAME", help="Of the kubeconfig.")]
Kubeconfig = Annotated[
    Path | None, typer.Option("--kubeconfig", metavar="FILE", help="[default: $KUBECONFIG, else ~/.kube/config]")
]
Recovery = Annotated[str, typer.Argument(metavar="NAME", help="A PartitionRecovery, as status shows it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]
AnyRecovery = Annotated[str | None, typer.Argument(metavar="[NAME]", help="A PartitionRecovery.")]
OneCluster = Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="A WatchedCluster instead.")]
Everything = Annotated[
    bool, typer.Option("--all", help="The whole operator; --namespace is then the one that it runs in.")
]


@app.command()
def status(
    click: typer.Context,
    name: AnyRecovery = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Show clusters and recoveries, and what waits for whom."""
    run(click.obj, Reach(kubeconfig, context, namespace), output, lambda session: standing.status(session, name))


@app.command()
def plan(
    click: typer.Context,
    name: Recovery,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Show what the operator would do about a recovery, until when that holds, and what to type next."""
    run(click.obj, Reach(kubeconfig, context, namespace), output, lambda session: plans.plan(session, name))


@app.command()
def explain(
    click: typer.Context,
    words: Annotated[
        list[str], typer.Argument(metavar="[NAME] TOPIC-PARTITION", help="A partition such as orders-17.")
    ],
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Say why one partition is decided as it is; without NAME, in the open recovery that has it."""
    run(click.obj, Reach(kubeconfig, context, namespace), output, lambda session: plans.explain(session, words))


@app.command()
def approve(
    click: typer.Context,
    name: Recovery,
    yes: Annotated[
        str | None, typer.Option("--yes", metavar="DIGEST", help="Don't ask: this is the plan that was read.")
    ] = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for those who read it later.")] = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Show the plan of a recovery, ask, and approve exactly that plan in your own name."""
    reach = Reach(kubeconfig, context, namespace)
    run(click.obj, reach, output, lambda session: saying.approve(session, name, yes, reason))


@app.command()
def refuse(
    click: typer.Context,
    name: Recovery,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why: the recovery ends with it.")],
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Say no to the plan of a recovery, which ends it."""
    reach = Reach(kubeconfig, context, namespace)
    run(click.obj, reach, output, lambda session: saying.refuse(session, name, reason))


@app.command()
def suspend(
    click: typer.Context,
    name: AnyRecovery = None,
    cluster: OneCluster = None,
    everything: Everything = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Begin no further wave: of a recovery, a cluster, or at all."""
    which, reach = Which(name, cluster, everything), Reach(kubeconfig, context, namespace)
    run(click.obj, reach, output, lambda session: steering.suspend(session, which, True))


@app.command()
def resume(
    click: typer.Context,
    name: AnyRecovery = None,
    cluster: OneCluster = None,
    everything: Everything = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Let go on what was suspended."""
    which, reach = Which(name, cluster, everything), Reach(kubeconfig, context, namespace)
    run(click.obj, reach, output, lambda session: steering.suspend(session, which, False))


@app.command()
def abort(
    click: typer.Context,
    name: Recovery,
    yes: Yes = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Stop a recovery for good: assignment orders are restored, new leaders stay."""
    run(click.obj, Reach(kubeconfig, context, namespace), output, lambda session: steering.abort(session, name, yes))


@app.command()
def undo(
    click: typer.Context,
    name: Recovery,
    yes: Yes = False,
    timeout: Annotated[int, typer.Option(min=1, metavar="SECONDS", help="How long to wait.")] = 600,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Abort a recovery and wait until its assignment orders are restored. An election has no undo."""
    reach, patience = Reach(kubeconfig, context, namespace), timedelta(seconds=timeout)
    run(click.obj, reach, output, lambda session: steering.undo(session, name, yes, patience))


@app.command()
def support_bundle(
    click: typer.Context,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="A new file. [default: named after the time]")
    ] = None,
    operator_namespace: Annotated[
        str | None, typer.Option(metavar="NAME", help="Where the operator runs. [default: as --namespace]")
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Pack what others need to understand an incident: objects, plans, events, logs. No Secrets."""
    reach = Reach(kubeconfig, context, namespace)
    run(click.obj, reach, output, lambda session: bundle.support_bundle(session, out, operator_namespace))


def main() -> NoReturn:
    """The program, under the name by which kubectl is asked for it."""
    sys.argv[0] = PROGRAM
    leave(app)


if __name__ == "__main__":
    main()
