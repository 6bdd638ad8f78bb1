"""How Argo CD judges a custom resource: by the Lua script that argocd-cm has for its kind, in Lua 5.1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lupa import lua51

HIDDEN = ("coroutine", "debug", "dofile", "io", "jit", "loadfile", "math", "os", "package", "require", "string")
"""What Argo CD does not open to scripts, unless its administrator says so; without `string` a text has no methods."""


@dataclass(frozen=True, slots=True)
class Health:
    """Healthy, Progressing, Degraded or Suspended, and the sentence beside it."""

    status: str
    message: str


def health(scripts: Path, resource: Mapping[str, Any]) -> Health:
    """What the script for this kind in the folder says about an object as the API gave it."""
    runtime = lua51.LuaRuntime(unpack_returned_tuples=True, register_eval=False, register_builtins=False)
    runtime.execute('getmetatable("").__index = nil')
    names = runtime.globals()
    for hidden in HIDDEN:
        names[hidden] = None
    names["obj"] = runtime.table_from(resource, recursive=True)
    found = runtime.execute((scripts / f"{resource['kind'].lower()}.lua").read_text())
    return Health(str(found["status"]), str(found["message"]))
