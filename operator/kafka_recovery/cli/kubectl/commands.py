"""`kubectl kafka-recovery`: the commands and their options. kubectl hands over everything behind the plugin's name."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, NoReturn, ParamSpec

import typer

from kafka_recovery.cli.kubectl import bundle, saying, standing, steering
from kafka_recovery.cli.kubectl import plans as shown
from kafka_recovery.cli.kubectl.access import PROGRAM, Reach
from kafka_recovery.cli.kubectl.steering import Which
from kafka_recovery.cli.kubectl.troubles import Session, run
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.options import OutputForm
from kafka_recovery.cli.terminal.render import Output
from kafka_recovery.cli.terminal.running import leave

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
AnyRecovery = Annotated[str | None, typer.Argument(metavar="[NAME]", help="A PartitionRecovery.")]
OneCluster = Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="A WatchedCluster instead.")]
Everything = Annotated[
    bool, typer.Option("--all", help="The whole operator; --namespace is then the one that it runs in.")
]
EarlierPlan = Annotated[
    str | None,
    typer.Option("--plan", metavar="DIGEST", help="An earlier plan: 6 or more first digits, as plans lists them."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]
YesToDigest = Annotated[
    str | None, typer.Option("--yes", "-y", metavar="DIGEST", help="Don't ask: this is the plan that was read.")
]
Why = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why, for those who read it later.")]
WhyNot = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why: the recovery ends with it.")]

Act = Callable[[Session], ExitCode]
P = ParamSpec("P")


def _reaching(
    click: typer.Context,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: OutputForm = Output.TABLE,
) -> Callable[[Act], NoReturn]:
    """Where every command acts and how it shows its result: these options come with each of them."""
    return lambda act: run(click.obj, Reach(kubeconfig, context, namespace), output, act)


def command(meant: Callable[P, Act]) -> Callable[P, Act]:
    """Make a command of what only says, for its own words, what is to be done."""
    own, shared = (inspect.signature(each, eval_str=True).parameters for each in (meant, _reaching))

    @functools.wraps(meant)
    def whole(**given: Any) -> NoReturn:
        _reaching(**{name: given.pop(name) for name in shared})(meant(**given))  # type: ignore[call-arg]

    options = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own.values(), *shared.values())]
    whole.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined] # it is what typer reads
    app.command()(whole)
    return meant


@command
def status(name: AnyRecovery = None) -> Act:
    """Show clusters and recoveries, and what waits for whom."""
    return lambda session: standing.status(session, name)


@command
def plan(name: Recovery, digest: EarlierPlan = None) -> Act:
    """Show what the operator would do about a recovery, until when that holds, and what to type next."""
    return lambda session: shown.plan(session, name, digest)


@command
def plans(name: Recovery) -> Act:
    """List the plans of a recovery, the newest first, and what became of each."""
    return lambda session: shown.plans(session, name)


@command
def explain(
    words: Annotated[
        list[str], typer.Argument(metavar="[NAME] TOPIC-PARTITION", help="A partition such as orders-17.")
    ],
    digest: EarlierPlan = None,
) -> Act:
    """Say why one partition is decided as it is; without NAME, in the open recovery that has it."""
    return lambda session: shown.explain(session, words, digest)


@command
def approve(name: Recovery, yes: YesToDigest = None, reason: Why = None) -> Act:
    """Show the plan of a recovery, ask, and approve exactly that plan in your own name."""
    return lambda session: saying.approve(session, name, yes, reason)


@command
def refuse(name: Recovery, reason: WhyNot, yes: Yes = False) -> Act:
    """Ask, and say no to the plan of a recovery in your own name, which ends it."""
    return lambda session: saying.refuse(session, name, reason, yes)


@command
def suspend(name: AnyRecovery = None, cluster: OneCluster = None, everything: Everything = False) -> Act:
    """Begin no further wave: of a recovery, a cluster, or at all."""
    return lambda session: steering.suspend(session, Which(name, cluster, everything), True)


@command
def resume(name: AnyRecovery = None, cluster: OneCluster = None, everything: Everything = False) -> Act:
    """Let go on what was suspended."""
    return lambda session: steering.suspend(session, Which(name, cluster, everything), False)


@command
def abort(name: Recovery, yes: Yes = False) -> Act:
    """Stop a recovery for good: assignment orders are restored, new leaders stay."""
    return lambda session: steering.abort(session, name, yes)


@command
def undo(
    name: Recovery,
    yes: Yes = False,
    timeout: Annotated[int, typer.Option(min=1, metavar="SECONDS", help="How long to wait.")] = 600,
) -> Act:
    """Abort a recovery and wait until its assignment orders are restored. An election has no undo."""
    return lambda session: steering.undo(session, name, yes, timedelta(seconds=timeout))


@command
def support_bundle(
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="A new file. [default: named after the time]")
    ] = None,
    operator_namespace: Annotated[
        str | None, typer.Option(metavar="NAME", help="Where the operator runs. [default: as --namespace]")
    ] = None,
) -> Act:
    """Pack what others need to understand an incident: objects, plans, events, logs. No Secrets."""
    return lambda session: bundle.support_bundle(session, out, operator_namespace)


def main() -> NoReturn:
    """The program, under the name by which kubectl is asked for it."""
    sys.argv[0] = PROGRAM
    leave(app)


if __name__ == "__main__":
    main()
