"""Finds every reason that the code can give, by reading the code: nothing of it is run.

A reason is the first argument of `Reason`, of a guard's `objects`, or of what else makes one (`SAYERS`). Where that
argument is not a word but a variable, `ELSEWHERE` has to say which words it can be: `Unexplained` names the place.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[3] / "operator" / "kafka_recovery"

SAYERS = {
    "Reason": 0,
    "objects": 0,
    "CantOpen": 0,
    "StrimziPending": 0,
    "_Unusable": 0,
    "condition": 2,
    "say": 2,
}
"""Who is called with a code, and as which argument."""

ENUMERATIONS = {
    ("kube/fleet/steps.py", "Failure"),
    ("domain/outcome.py", "End"),
    ("domain/outcome.py", "Outcome"),
}
"""Whose values are reasons."""

FAULTS = {"ClusterError", "InvalidConfiguration", "JournalUnwritable"}
"""Exceptions with classes below them that are reasons by their `code`, or else by their name."""
HANDED_ON = re.compile(r"(\.code|\['reason'\])$")
"""What says again what somebody else said."""

ELSEWHERE: dict[tuple[str, str], tuple[str, ...]] = {
    ("cluster/errors.py", "machine_code"): (),  # Kafka's own names
    ("decision/guards.py", "Told('replica.problem.code', otherwise='AnswerIncomplete')"): ("AnswerIncomplete",),
    ("domain/reason.py", "type(self).__name__"): (),  # of classes below ClusterFault, which are read
    ("domain/reason.py", "code_of(error)"): (),  # whatever ended a run: JournalUnwritable, or a defect
    ("kube/machinery/conditions.py", "reason"): (),
    ("kube/fleet/apache.py", "_CODES.get(word, word)"): ("ApplicationFailed",),  # or Spark's own word
    ("kube/fleet/kubeflow.py", "_CODES[word]"): ("ApplicationFailed", "Suspended"),
    ("kube/fleet/pods.py", "_word(each.get('reason'), 'DriverPending')"): ("DriverPending",),  # or Kubernetes' own
    ("kube/fleet/pods.py", "_word(waiting['reason'], 'DriverPending')"): ("DriverPending",),
    ("kube/fleet/rankings.py", "code"): ("InvalidSpec", "InvalidStatus"),  # or one of Failure
    ("kube/fleet/runs.py", "ending"): (),
    ("kube/fleet/status.py", "'DriverPending' if pending else 'Running'"): ("DriverPending", "Running"),
    ("kube/fleet/steps.py", "str(code)"): (),
    ("kube/recoveries/ranked_leaders.py", "code"): (),
    (
        "kube/recoveries/endings.py",
        "'ObjectsUnreadable' if isinstance(trouble, ApiError) else code_of(trouble)",
    ): (*("ObjectsUnreadable", "JournalUnwritable"),),
    ("kube/recoveries/endings.py", "str(End.FAILED)"): (),
    ("kube/recoveries/status.py", "str(outcome.outcome)"): (),
    ("kube/clusters/cant_open.py", "code"): (),
    ("kube/watching/watcher.py", "code"): (),
    ("recovery/execution.py", "str(decision.verdict)"): (),  # a verdict that has no reason of its own: there is none
}
"""Where the code says a reason by a variable: which words it can be; none where it hands on what others said."""


class Unexplained(Exception):
    """A code that can't be read off the code."""


@dataclass(frozen=True, slots=True)
class Said:
    """One code in one file below operator/kafka_recovery."""

    code: str
    file: str


def collected(elsewhere: Mapping[tuple[str, str], tuple[str, ...]] = ELSEWHERE) -> list[Said]:
    """Every code of the package but the simulator's, in the order of files and lines. Raises Unexplained.

    `elsewhere`: by file and expression the words that a variable can be; none if it only hands on what others said.
    """
    used: set[tuple[str, str]] = set()
    found = [Said(code, file) for file in sources() for code in _of(file, elsewhere, used)]
    if idle := set(elsewhere) - used:
        raise Unexplained(f"nothing in the code is like this any more: {sorted(idle)}")
    return found


def sources() -> list[str]:
    """Files below operator/kafka_recovery, the simulator's left out: it says what the real ones say; checks too."""
    names = (path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
    return sorted(name for name in names if not name.startswith("simulator/") and name != "decision/checks.py")


@cache
def nodes(file: str) -> tuple[ast.AST, ...]:
    """All of a file, as `ast.walk` finds them."""
    return tuple(ast.walk(ast.parse((PACKAGE / file).read_text())))


def calls(file: str, *names: str) -> Iterator[ast.Call]:
    """Calls of functions and methods of these names."""
    for node in nodes(file):
        if isinstance(node, ast.Call) and _called(node) in names:
            yield node


def _of(file: str, elsewhere: Mapping[tuple[str, str], tuple[str, ...]], used: set[tuple[str, str]]) -> Iterator[str]:
    for call in calls(file, *SAYERS):
        place = SAYERS[_called(call)]
        if len(call.args) > place and not any(isinstance(each, ast.Starred) for each in call.args[: place + 1]):
            yield from _codes(file, call.args[place], elsewhere, used)
    for node in nodes(file):
        if isinstance(node, ast.ClassDef):
            yield from _of_class(file, node)
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            yield from _of_pair(node.value)


def _of_class(file: str, node: ast.ClassDef) -> Iterator[str]:
    given = [each for each in node.body if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant)]
    if {ast.unparse(base) for base in node.bases} & FAULTS:
        own = (each.value for each in given if ast.unparse(each.targets[0]) == "code")
        yield str(next(map(ast.literal_eval, own), node.name))
    elif (file, node.name) in ENUMERATIONS:
        yield from (str(ast.literal_eval(each.value)) for each in given)


def _of_pair(pair: ast.Tuple) -> Iterator[str]:
    """`return "AsExpected", "it elects two leaders"`, maybe with whether it holds before it."""
    for one, other in zip(pair.elts, pair.elts[1:], strict=False):
        word = one.body if isinstance(one, ast.IfExp) else one
        code = word.value if isinstance(word, ast.Constant) else None
        if isinstance(code, str) and code[:1].isupper() and isinstance(other, ast.Constant | ast.JoinedStr):
            yield code


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _codes(
    file: str, code: ast.expr, elsewhere: Mapping[tuple[str, str], tuple[str, ...]], used: set[tuple[str, str]]
) -> tuple[str, ...]:
    where = (file, ast.unparse(code))
    if where in elsewhere:
        used.add(where)
        return elsewhere[where]
    if isinstance(code, ast.Constant):
        return (str(code.value),)
    if HANDED_ON.search(where[1]):
        return ()
    try:
        return (str(_value(file, code)),)
    except AttributeError:
        question = f"which reasons can {where[1]} be? Say so in tests/unit/docs/said_reasons.py"
        raise Unexplained(f"{file}:{code.lineno}: {question}") from None


def _value(file: str, name: ast.expr) -> object:
    """What a constant of the module stands for. AttributeError if it is none."""
    if isinstance(name, ast.Name):
        module = "kafka_recovery." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return getattr(importlib.import_module(module), name.id)
    if isinstance(name, ast.Attribute) and name.attr.isupper():
        return getattr(_value(file, name.value), name.attr)
    raise AttributeError
