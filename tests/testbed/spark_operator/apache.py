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
KEPT, RELEASED = "TerminatedWithoutReleaseResources", "ResourceReleased"
ENDS = frozenset({"Succeeded", "Failed", "SchedulingFailure", "DriverEvicted", "DriverStartTimedOut"})

State = Mapping[str, Any]


class ApacheOperator:
    """For one namespace, for the length of a `with` block. `plan`: the states of each application, one a look.

    A state is a name, or a mapping as it stands in status. After the last one it stays as it is; together with an end
    comes `last`, so that nobody who looks sees the end as the current state.
    """

    def __init__(
        self, client: ApiClient, namespace: str, plan: Sequence[str | State] = SUCCEEDS, last: str = KEPT
    ) -> None:
        self._api = CustomObjectsApi(client)
        self._namespace = namespace
        self._plan: list[State] = [{"currentStateSummary": each} if isinstance(each, str) else each for each in plan]
        self._last: State = {"currentStateSummary": last}
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
        entered = self._entered(len(history))
        if not entered:
            return
        numbered = {str(number): state for number, state in enumerate(entered, len(history))}
        status = {"currentState": entered[-1], "stateTransitionHistory": {**history, **numbered}}
        name = application["metadata"]["name"]
        try:
            self._api.patch_namespaced_custom_object_status(
                GROUP, VERSION, self._namespace, PLURAL, name, {"status": status}
            )
        except ApiException as error:
            if error.status != 404:  # deleted meanwhile
                raise

    def _entered(self, before: int) -> list[State]:
        """What an application that was in so many states enters at the next look."""
        states = self._plan[before : before + 1]
        return [*states, self._last] if states and states[-1]["currentStateSummary"] in ENDS else states
