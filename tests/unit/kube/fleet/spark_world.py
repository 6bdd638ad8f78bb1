"""A namespace with FleetRankings, a policy, a Spark operator that does what a test says, and a storage in memory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, cast

from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet.manifest import Expected, written
from kafka_recovery.kube.fleet.dialect import PLURAL, Adapter
from kafka_recovery.kube.fleet.rankings import Rankings
from kafka_recovery.kube.fleet.resource import FleetRanking, read_ranking
from kafka_recovery.kube.fleet.results import understood
from kafka_recovery.kube.fleet.runs import Active, remembered
from kafka_recovery.kube.fleet.spark_operators import DIALECTS
from kafka_recovery.kube.fleet.steps import NoResult, Result
from kafka_recovery.kube.machinery.api import Api, ApiError, NotFound, NotServed, Object
from kafka_recovery.kube.machinery.events import Events
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.resources.kinds import POLICIES, RANKINGS
from unit.kube.fleet.asked import NOON, manifest
from unit.kube.fleet.schema import refusals, status_schema
from unit.kube.journal.journals import NAMESPACE
from unit.kube.our_objects import OurObjects
from unit.kube.specs import POLICY, RANKING

KEY = (NAMESPACE, "prod")
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
RUNNING_POD = {"phase": "Running", "containerStatuses": [{"state": {"running": {"startedAt": "2026-11-21T12:00:00Z"}}}]}


class Cluster(OurObjects):
    """The API server, with the kinds of the Spark operators that are installed."""

    def __init__(self) -> None:
        super().__init__()
        self.installed: set[Adapter] = {Adapter.KUBEFLOW}
        self.kinds = [PLURAL, f"{PLURAL}/status"]

    async def get(self, path: str, *, deadline: timedelta | None = None) -> Object:
        self._served(path)
        for adapter in self.installed:
            if path == f"/apis/{DIALECTS[adapter].api}":
                return {"resources": [{"name": name} for name in self.kinds]}
        return await super().get(path)

    async def list_all(
        self, path: str, *, params: Mapping[str, str] | None = None, deadline: timedelta | None = None
    ) -> list[Object]:
        self._served(path)
        if path.endswith("/events"):
            about, _, kind = (params or {})["fieldSelector"].partition(",")
            assert kind == "type=Warning"  # the API in memory knows one term
            params = {"fieldSelector": about}
        return await super().list_all(path, params=params)

    async def create(self, path: str, body: Mapping[str, Any]) -> Object:
        self._served(path)
        if self.refusal and PLURAL in path:
            raise self.refusal
        return await super().create(path, body)

    async def patch(self, path: str, change: Mapping[str, Any]) -> Object:
        assert change == {"spec": {"suspend": True}}
        self._write(f"patch {path}")
        seen = await self.get(path)
        seen["spec"]["suspend"] = True
        seen["metadata"]["generation"] = seen["metadata"].get("generation", 1) + 1
        self._keep(path, seen)
        return seen

    refusal: ApiError | None = None
    """What becomes of every SparkApplication that is to be created."""

    def _served(self, path: str) -> None:
        for adapter, dialect in DIALECTS.items():
            if path.startswith(f"/apis/{dialect.api}/") and adapter not in self.installed:
                raise NotServed(404, "NotServed", f"the API server does not know {path}", path)
            if path == f"/apis/{dialect.api}" and adapter not in self.installed:
                raise NotFound(404, "NotFound", "page not found", path)


class SilentEvents:
    """Port of `Events`: keeps what was said."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    async def say(self, about: Mapping[str, Any], type: str, reason: str, action: str, note: str) -> None:
        self.said.append((type, reason))


class ResultsInMemory:
    """Port `Results`: manifests by the folder that they lie in."""

    def __init__(self) -> None:
        self.manifests: dict[str, bytes] = {}
        self.silent: Reason | None = None

    async def trouble(self, url: str) -> Reason | None:
        return self.silent

    async def read(self, url: str, expected: Expected) -> Result:
        if self.silent:
            return NoResult(self.silent, may_pass=True)
        if url not in self.manifests:
            return NoResult(Reason("ResultMissing", f"{url}/manifest.json is not there"))
        return understood(self.manifests[url], f"{url}/manifest.json", expected)


class SparkWorld:
    """One FleetRanking, created at noon, and an operator that looks at it when a test says so."""

    def __init__(self, **fields: Any) -> None:
        self.api = Cluster()
        self.events = SilentEvents()
        self.results = ResultsInMemory()
        self.metrics = Metrics()
        self.now: datetime = NOON
        self._checked = 0
        self.api.put(POLICIES, "prod", POLICY)
        self.api.put(RANKINGS, "prod", RANKING | fields, uid="0f4f8e2c-0000-4000-8000-000000000001")

    async def look(self, times: int = 1, **later: float) -> timedelta | None:
        """Another process looks, so many times, so long after the last time."""
        self.now += timedelta(**later)
        again = None
        for _ in range(times):
            api, events = cast(Api, self.api), cast(Events, self.events)
            rankings = Rankings(api, events, self.metrics, self.results, clock=lambda: self.now)
            again = await rankings.reconcile(KEY)
        for status in self.api.statuses[self._checked :]:
            assert not list(refusals(status, status_schema()))
        self._checked = len(self.api.statuses)
        return again

    # What is there

    @property
    def ranking(self) -> FleetRanking:
        return read_ranking(self.raw)

    @property
    def raw(self) -> Object:
        return self.api.objects[RANKINGS.path(*KEY)]

    @property
    def active(self) -> Active:
        found = remembered(self.raw["status"]).active
        assert found, "no run is under way"
        return found

    @property
    def ready(self) -> tuple[str, str]:
        """Status and reason of the condition Ready."""
        (found,) = (each for each in self.raw["status"]["conditions"] if each["type"] == "Ready")
        return found["status"], found["reason"]

    @property
    def message(self) -> str:
        return str(self.raw["status"]["conditions"][0]["message"])

    @property
    def last(self) -> Object:
        """The last finished run in status."""
        return cast(Object, self.raw["status"]["runs"][0])

    def applications(self) -> list[str]:
        """Names of SparkApplications."""
        return [path.rpartition("/")[2] for path in self.api.objects if f"/{PLURAL}/" in path]

    # What the Spark operator and people do

    def application(self, name: str | None = None) -> Object:
        """A SparkApplication itself, the active one's if no other."""
        return self.api.objects[self._path(name)]

    def state(self, state: str, **pod: Any) -> None:
        """The application's state from now on, and its driver's Pod, if it has one."""
        status = {"applicationState": {"state": state}, "sparkApplicationId": "spark-1"}
        self.application()["status"] = status
        if pod:
            labels = self.application()["metadata"]["labels"] | {"spark-role": "driver"}
            meta = {"name": "driver", "uid": "uid-driver", "labels": labels}
            self.api.objects[f"{PODS}/driver"] = {"metadata": meta, "status": pod}

    def succeed(self, **fields: Any) -> None:
        """The job has written its manifest, with these fields changed, and ended well."""
        answer = manifest(self.ranking, self.active, **fields)
        self.results.manifests[self.active.result] = written(answer)
        self.state("COMPLETED")

    def delete_application(self) -> None:
        """Somebody does."""
        del self.api.objects[self._path(None)]

    def edit_application(self) -> None:
        """Somebody does."""
        meta = self.application()["metadata"]
        meta["generation"] = 2
        meta["managedFields"] = [{"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:spec": {}}}]

    def ask(self, **fields: Any) -> None:
        """Somebody changes the question; None takes a field away."""
        self.api.change(RANKINGS, "prod", **fields)

    def _path(self, name: str | None) -> str:
        api = DIALECTS[self.active.adapter].api
        return f"/apis/{api}/namespaces/{NAMESPACE}/{PLURAL}/{name or self.active.application}"


async def submitted(**fields: Any) -> SparkWorld:
    """A ranking whose first attempt was submitted at noon."""
    world = SparkWorld(**fields)
    await world.look(2)
    assert world.applications() == ["prod-29921040-1"]
    return world
