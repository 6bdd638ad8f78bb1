"""`kubectl kafka-recovery`: the commands and their options. kubectl hands over everything behind the plugin's name.

A command imports what it alone needs: nobody who asks for help waits for the Kubernetes client.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, ParamSpec, TypeAlias

import typer

from kafka_recovery.cli.kubectl import suggested
from kafka_recovery.cli.kubectl.reach import PROGRAM, Reach
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.options import OutputForm, Quiet
from kafka_recovery.cli.terminal.programs import Version, program
from kafka_recovery.cli.terminal.render import Output
from kafka_recovery.cli.terminal.running import leave
from kafka_recovery.cli.terminal.text import complain

if TYPE_CHECKING:
    from kafka_recovery.cli.kubectl.troubles import Session

_EXIT_CODES = """Exit codes: 0 done; 1 assignment orders not restored yet; 2 bad input; 3 API server unavailable;
4 a person has to say yes first; 6 not let in; 70 a bug; 130 stopped by SIGINT."""

app = program(
    PROGRAM,
    "Inspect and approve Kafka partition recoveries, with your kubeconfig and your rights.",
    _EXIT_CODES,
    completes=False,  # kubectl completes its plugins, see `completion`
)


@app.callback()
def root(version: Version = False) -> None:
    """What every command has before it."""


class Listed(StrEnum):
    """The form of a list."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"

    @property
    def output(self) -> Output:
        """The same for what knows no columns."""
        return Output.TABLE if self is Listed.WIDE else Output(self)


Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the objects. [default: the context's]"),
]
Context = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="Context of the kubeconfig to use. [default: the current one]"),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig", metavar="FILE", help="The kubeconfig to use. [default: $KUBECONFIG, else ~/.kube/config]"
    ),
]
Recovery = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="A PartitionRecovery, as status shows it.", autocompletion=suggested.recoveries
    ),
]
AnyRecovery = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="A PartitionRecovery, as status shows it.",
        show_default=False,
        autocompletion=suggested.recoveries,
    ),
]
OneCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster", metavar="NAME", help="A WatchedCluster instead of a recovery.", autocompletion=suggested.clusters
    ),
]
AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces; --namespace says nothing then.")
]
Selector = Annotated[
    str | None,
    typer.Option(
        "--selector",
        "-l",
        metavar="LABELS",
        help="Only recoveries with these labels, such as kafka-recovery.dev/cluster=prod, and their clusters.",
    ),
]
OfCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        help="Only this WatchedCluster and its recoveries.",
        autocompletion=suggested.clusters,
    ),
]
Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="Show it again whenever it changes: until NAME has finished, or Ctrl-C.")
]
Everything = Annotated[
    bool, typer.Option("--operator", help="The whole operator; --namespace is then the one that it runs in.")
]
ListForm = Annotated[
    Listed, typer.Option("--output", "-o", help="The form of the result on stdout; wide: with more columns.")
]
EarlierPlan = Annotated[
    str | None,
    typer.Option("--plan", metavar="DIGEST", help="An earlier plan: 6 or more first digits, as plans lists them."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Yes: do it without asking.")]
ReadPlan = Annotated[
    str | None,
    typer.Option(
        "--plan", metavar="DIGEST", help="The plan that you have read, and no other: 12 or more first digits."
    ),
]
Why = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why, for those who read it later.")]
WhyNot = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why: the recovery ends with it.")]

_EXTRA = ("aiohttp", "kubernetes", "urllib3")

Act: TypeAlias = "Callable[[Session], ExitCode]"
P = ParamSpec("P")


def _reaching(
    click: typer.Context,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: OutputForm = Output.TABLE,
) -> Callable[[Act], NoReturn]:
    """Where every command acts and how it shows its result: these options come with each of them."""
    from kafka_recovery.cli.kubectl.troubles import run

    return lambda act: run(click.obj, Reach(kubeconfig, context, namespace), output, act)


@contextmanager
def _libraries() -> Iterator[None]:
    """They come with an extra that not everybody has installed: say so and leave."""
    try:
        yield
    except ModuleNotFoundError as missing:
        library = str(missing.name).partition(".")[0]
        if library not in _EXTRA:
            raise
        complain(f"{library} is not installed; pip install '.[operator]' in its checkout")
        raise typer.Exit(ExitCode.BAD_INPUT) from None


def command(meant: Callable[P, Act]) -> Callable[P, Act]:
    """Make a command of what only says, for its own words, what is to be done.

    An option of its own takes the place of the shared one of that name.
    """
    own, shared = (inspect.signature(each, eval_str=True).parameters for each in (meant, _reaching))

    @functools.wraps(meant)
    def whole(**given: Any) -> NoReturn:
        with _libraries():
            form = given["output"]
            where = given | {"output": form.output if isinstance(form, Listed) else form}
            reached = _reaching(**{name: where[name] for name in shared})
            act = meant(**{name: given[name] for name in own})  # type: ignore[call-arg]
        reached(act)

    options = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in ({**shared, **own}).values()]
    # typer reads both.
    whole.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    whole.__annotations__ = {each.name: each.annotation for each in options}
    app.command()(whole)
    return meant


@command
def status(
    name: AnyRecovery = None,
    all_namespaces: AllNamespaces = False,
    selector: Selector = None,
    cluster: OfCluster = None,
    watch: Watch = False,
    output: ListForm = Listed.TABLE,
) -> Act:
    """Show clusters, recoveries, who must act.

    With NAME: one recovery, with its plans, its approvals and what may be done.
    """
    from kafka_recovery.cli.kubectl import status as shown
    from kafka_recovery.cli.kubectl.overview import Part

    return lambda session: shown.status(
        session, name, Part(all_namespaces, selector, cluster, output is Listed.WIDE), watch
    )


@command
def plan(name: Recovery, digest: EarlierPlan = None) -> Act:
    """Show a recovery's plan.

    What the operator would do, until when that holds, and what to type next.
    """
    from kafka_recovery.cli.kubectl import plans as shown

    return lambda session: shown.plan(session, name, digest)


@command
def plans(name: Recovery) -> Act:
    """List a recovery's plans, the newest first.

    With what became of each.
    """
    from kafka_recovery.cli.kubectl import plans as shown

    return lambda session: shown.plans(session, name)


@command
def explain(
    words: Annotated[
        list[str], typer.Argument(metavar="[NAME] TOPIC-PARTITION", help="A partition such as orders-17.")
    ],
    digest: EarlierPlan = None,
) -> Act:
    """Explain the decision on one partition.

    Without NAME: in the open recovery that has the partition.
    """
    from kafka_recovery.cli.kubectl import plans as shown

    return lambda session: shown.explain(session, words, digest)


@command
def approve(name: Recovery, digest: ReadPlan = None, yes: Yes = False, reason: Why = None) -> Act:
    """Approve exactly one plan, in your name.

    Shows the plan of the recovery and asks first. If it is not the plan that was read, what changed is shown, and
    nothing is written. --yes asks nothing, and so wants --plan.
    """
    from kafka_recovery.cli.kubectl import saying

    return lambda session: saying.approve(session, name, digest, yes, reason)


@command
def refuse(name: Recovery, reason: WhyNot, yes: Yes = False) -> Act:
    """Refuse a plan, in your name: it ends.

    Asks first. A refusal ends the recovery, and can't be taken back.
    """
    from kafka_recovery.cli.kubectl import saying

    return lambda session: saying.refuse(session, name, reason, yes)


@command
def suspend(name: AnyRecovery = None, cluster: OneCluster = None, everything: Everything = False) -> Act:
    """Begin no further wave until unsuspend.

    Of one recovery, of one cluster, or of the whole operator. What was begun is brought to its end.
    """
    from kafka_recovery.cli.kubectl import steering

    return lambda session: steering.suspend(session, steering.Which(name, cluster, everything), True)


@command
def unsuspend(name: AnyRecovery = None, cluster: OneCluster = None, everything: Everything = False) -> Act:
    """Go on after suspend.

    With one recovery, one cluster, or the whole operator. Whatever else is suspended stays so.
    """
    from kafka_recovery.cli.kubectl import steering

    return lambda session: steering.suspend(session, steering.Which(name, cluster, everything), False)


@command
def abort(
    name: Recovery,
    yes: Yes = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until assignment orders are restored.")] = False,
    timeout: Annotated[int, typer.Option(min=1, metavar="SECONDS", help="How long --wait waits.")] = 600,
    quiet: Quiet = False,
) -> Act:
    """Stop a recovery for good.

    Asks first. Assignment orders are restored; new leaders stay: an election has no undo. Of a recovery that was
    deleted it shows what its journal tells.
    """
    from kafka_recovery.cli.kubectl import steering

    return lambda session: steering.abort(session, name, yes, timedelta(seconds=timeout) if wait else None)


@command
def attest(
    name: Recovery,
    broker: Annotated[int, typer.Option(min=0, max=2**31 - 1, metavar="ID", help="The broker whose disk it is.")],
    lost: Annotated[
        bool | None,
        typer.Option("--disk-lost/--withdraw", help="Its disk is lost for good; or take back what was attested."),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="How you know it. Needed with --disk-lost.")
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="DURATION", help="How long it holds, 1m to 24h. [default: 1h]"),
    ] = None,
    yes: Yes = False,
) -> Act:
    """Say that a broker's disk is lost.

    Asks first. In your name, for one recovery: nothing on that disk is waited for. It elects nobody by itself, and no
    loss class gets better. A sign of life of the broker voids it.
    """
    from kafka_recovery.cli.kubectl import attesting

    return lambda session: attesting.attest(session, name, attesting.Word(broker, lost, reason, expires), yes)


@command
def support_bundle(
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="A new file. [default: named after the time]")
    ] = None,
    operator_namespace: Annotated[
        str | None, typer.Option(metavar="NAME", help="Where the operator runs. [default: as --namespace]")
    ] = None,
) -> Act:
    """Pack objects, plans, events and logs.

    All that others need to understand an incident. No Secrets.
    """
    from kafka_recovery.cli.kubectl import bundle

    return lambda session: bundle.support_bundle(session, out, operator_namespace)


def main() -> NoReturn:
    """The program, under the name by which kubectl is asked for it."""
    sys.argv[0] = PROGRAM
    leave(app)


if __name__ == "__main__":
    main()
