"""Finds every reason that the code can give, and what is said with it, by reading the code: nothing of it is run.

A reason is the first argument of `Reason`, of a guard's `objects`, or of what else makes one (`SAYERS`). Where that
argument is not a word but a variable, `generate.py` has to say which words it can be: `Unexplained` names the place.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "operator" / "kafka_recovery"

SAYERS = {
    "Reason": (0, 1),
    "objects": (0, 1),
    "StrimziProblem": (0, 1),
    "StrimziPending": (0, 1),
    "_Unusable": (0, 1),
    "condition": (2, 3),
    "say": (2, 4),
}
"""Who is called with a code, as which argument, and which one is the sentence."""

ENUMERATIONS = {
    ("kube/fleet/steps.py", "Failure"),
    ("kube/fleet/runs.py", "State"),
    ("domain/outcome.py", "End"),
}
"""Whose values become reasons."""

FAULTS = {"ClusterError", "InvalidConfiguration", "JournalUnwritable"}
"""Exceptions with classes below them that are reasons by their `code`, or else by their name."""
FILLED_IN = "…"
HANDED_ON = re.compile(r"(\.code|\['reason'\])$")
"""What says again what somebody else said."""


class Unexplained(Exception):
    """A code that can't be read off the code."""


@dataclass(frozen=True, slots=True)
class Said:
    """One code in one file below operator/kafka_recovery; `sentence` with `…` for what is filled in, maybe empty."""

    code: str
    file: str
    sentence: str


def collected(elsewhere: Mapping[tuple[str, str], tuple[str, ...]]) -> list[Said]:
    """Every code of the package but the simulator's, in the order of files and lines. Raises Unexplained.

    `elsewhere`: by file and expression the words that a variable can be; none if it only hands on what others said.
    """
    used: set[tuple[str, str]] = set()
    found = [said for file in sources() for said in _of(file, elsewhere, used)]
    if idle := set(elsewhere) - used:
        raise Unexplained(f"nothing in the code is like this any more: {sorted(idle)}")
    return found


def sources() -> list[str]:
    """Files below operator/kafka_recovery, the simulator's left out: it says what the real ones say; checks too."""
    names = (path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
    return sorted(name for name in names if not name.startswith("simulator/") and name != "decision/checks.py")


@cache
def tree(file: str) -> ast.Module:
    """A file, parsed."""
    return ast.parse((PACKAGE / file).read_text())


@cache
def nodes(file: str) -> tuple[ast.AST, ...]:
    """All of them, as `ast.walk` finds them."""
    return tuple(ast.walk(tree(file)))


@cache
def _functions(file: str) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
    return tuple(node for node in nodes(file) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def calls(file: str, *names: str) -> Iterator[ast.Call]:
    """Calls of functions and methods of these names."""
    for node in nodes(file):
        if isinstance(node, ast.Call) and _called(node) in names:
            yield node


def members(file: str, name: str) -> list[tuple[str, str]]:
    """Values of an enumeration, each with the docstring below it, which may be empty."""
    (body,) = (node.body for node in nodes(file) if isinstance(node, ast.ClassDef) and node.name == name)
    found = []
    for node, below in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            said = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else ""
            found.append((str(node.value.value), first_sentence(str(said))))
    return found


def first_sentence(text: str | None) -> str:
    """Of a docstring, as one line."""
    paragraph = " ".join((text or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.:])\s(?=[A-Z`])", paragraph)[0] if len(paragraph) > 160 else paragraph


def _of(file: str, elsewhere: Mapping[tuple[str, str], tuple[str, ...]], used: set[tuple[str, str]]) -> Iterator[Said]:
    guards = {id(each): node for node, each in _decorators(file)}
    for call in calls(file, *SAYERS):
        place, sentence_place = SAYERS[_called(call)]
        if len(call.args) <= place or any(isinstance(each, ast.Starred) for each in call.args[: place + 1]):
            continue
        guard = guards.get(id(call))
        sentence = first_sentence(ast.get_docstring(guard)) if guard else _sentence(file, call, sentence_place)
        for code in _codes(file, call.args[place], elsewhere, used):
            yield Said(code, file, sentence)
    for node in nodes(file):
        if isinstance(node, ast.ClassDef):
            yield from _of_class(file, node)
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            yield from _of_pair(file, node.value)


def _of_class(file: str, node: ast.ClassDef) -> Iterator[Said]:
    if {ast.unparse(base) for base in node.bases} & FAULTS:
        own = (each.value for each in node.body if isinstance(each, ast.Assign) and _names(each) == ["code"])
        code = next(map(ast.literal_eval, own), node.name)
        yield Said(code, file, first_sentence(ast.get_docstring(node)))
    elif (file, node.name) in ENUMERATIONS:
        yield from (Said(value, file, said) for value, said in members(file, node.name))


def _of_pair(file: str, pair: ast.Tuple) -> Iterator[Said]:
    """`return "NoPlan", "no plan was made yet"`, maybe with whether it holds before it."""
    for one, other in zip(pair.elts, pair.elts[1:], strict=False):
        code = one.value if isinstance(one, ast.Constant) else None
        if isinstance(code, str) and code[:1].isupper() and isinstance(other, ast.Constant | ast.JoinedStr):
            yield Said(code, file, _text(file, other, None))


def _names(node: ast.stmt) -> list[str]:
    return [each.id for each in node.targets if isinstance(each, ast.Name)] if isinstance(node, ast.Assign) else []


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _decorators(file: str) -> Iterator[tuple[ast.FunctionDef, ast.expr]]:
    for node in _functions(file):
        if isinstance(node, ast.FunctionDef):
            yield from ((node, each) for each in node.decorator_list)


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
        question = f"which reasons can {where[1]} be? Say so in docs/generate.py"
        raise Unexplained(f"{file}:{code.lineno}: {question}") from None


def _value(file: str, name: ast.expr) -> object:
    """What a constant of the module stands for. AttributeError if it is none."""
    if isinstance(name, ast.Name):
        module = "kafka_recovery." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return getattr(importlib.import_module(module), name.id)
    if isinstance(name, ast.Attribute) and name.attr.isupper():
        return getattr(_value(file, name.value), name.attr)
    raise AttributeError


def _sentence(file: str, call: ast.Call, place: int) -> str:
    if len(call.args) <= place:
        return ""
    around = [node for node in _functions(file) if node.lineno <= call.lineno <= (node.end_lineno or 0)]
    text = _text(file, call.args[place], around[-1] if around else None)
    plain = re.sub(r"…(\s?…)+", FILLED_IN, " ".join(text.split()))
    return plain if re.search(r"[a-z]{2}", plain) else ""


def _text(file: str, node: ast.expr, around: ast.AST | None) -> str:
    """A message as it is written, `…` for what is filled in; names of the same function are looked up."""
    match node:
        case ast.Constant(value=str(said)):
            return said
        case ast.JoinedStr(values=parts):
            return "".join(_text(file, part, around) for part in parts)
        case ast.FormattedValue(value=ast.Name() as name):
            return _text(file, name, around)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(file, left, around) + _text(file, right, around)
        case ast.Name(id=name) if around is not None:
            given = [each for each in ast.walk(around) if isinstance(each, ast.Assign) and _names(each) == [name]]
            before = [each for each in given if each.lineno < node.lineno]
            if before and isinstance(before[-1].value, ast.Constant | ast.JoinedStr):
                return _text(file, before[-1].value, None)
    return FILLED_IN
