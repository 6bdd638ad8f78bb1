"""A stand-in for Apache's Spark operator, which no package registry has: it walks through the states it is told to.

Like the real one it keeps the history of states, and ends with one that says nothing of how it came to that.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kubernetes.client import ApiClient, ApiException, CustomObjectsApi

DEFINITION = Path(__file__).with_name("apache.yaml")
GROUP, VERSION, PLURAL = "spark.apache.org", "v1", "sparkapplications"
SUCCEEDS = ("Submitted", "DriverRequested", "DriverStarted", "DriverReady", "RunningHealthy", "Succeeded")
ENDS = frozenset({"Succeeded", "Failed", "SchedulingFailure", "DriverEvicted", "DriverStartTimedOut"})

State = Mapping[str, Any]


class ApacheOperator:
    """For one namespace, for the length of a `with` block. `plan`: the states of each application, one a look.

    A state is a name, or a mapping as it stands in status. After the last one it stays as it is; after an end comes
    TerminatedWithoutReleaseResources.
    """

    def __init__(self, client: ApiClient, namespace: str, plan: Sequence[str | State] = SUCCEEDS) -> None:
        self._api = CustomObjectsApi(client)
        self._namespace = namespace
        self._plan = [{"currentStateSummary": each} if isinstance(each, str) else each for each in plan]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.2):
            found: Any = self._api.list_namespaced_custom_object(GROUP, VERSION, self._namespace, PLURAL)
            for application in found["items"]:
                self._walk(application)

    def _walk(self, application: dict[str, Any]) -> None:
        history: dict[str, Any] = (application.get("status") or {}).get("stateTransitionHistory") or {}
        after = _next(self._plan, len(history))
        if after is None:
            return
        status = {"currentState": after, "stateTransitionHistory": {**history, str(len(history)): after}}
        name = application["metadata"]["name"]
        try:
            self._api.patch_namespaced_custom_object_status(
                GROUP, VERSION, self._namespace, PLURAL, name, {"status": status}
            )
        except ApiException as error:
            if error.status != 404:  # deleted meanwhile
                raise


def _next(plan: Sequence[State], seen: int) -> State | None:
    if seen < len(plan):
        return plan[seen]
    if seen == len(plan) and plan[-1]["currentStateSummary"] in ENDS:
        return {"currentStateSummary": "TerminatedWithoutReleaseResources"}
    return None
