"""Which Spark operator is there: the one whose API is served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.fleet.apache import Apache
from kafka_recovery.kube.fleet.dialect import PLURAL, Adapter, Dialect
from kafka_recovery.kube.fleet.fields import Choice
from kafka_recovery.kube.fleet.kubeflow import Kubeflow
from kafka_recovery.kube.machinery.api import Api, NotFound

DIALECTS: Final[Mapping[Adapter, Dialect]] = {Adapter.APACHE: Apache(), Adapter.KUBEFLOW: Kubeflow()}


NO_SPARK_OPERATOR = "ApiMissing"


@dataclass(frozen=True, slots=True)
class SparkOperators:
    """Asks the API server each time: who installs one does not tell us."""

    api: Api

    async def choose(self, choice: Choice) -> Dialect | Reason:
        """The one that is wanted; of two that are there, Apache's. Raises ApiError."""
        wanted = list(Adapter) if choice is Choice.AUTO else [Adapter(str(choice))]
        for adapter in wanted:
            if await self.serves(DIALECTS[adapter]):
                return DIALECTS[adapter]
        apis = " or ".join(f"{DIALECTS[adapter].api} ({adapter})" for adapter in wanted)
        return Reason(
            NO_SPARK_OPERATOR,
            f"the API server knows no SparkApplication of {apis}: install a Spark operator that watches this namespace",
        )

    async def serves(self, dialect: Dialect) -> bool:
        """Whether its SparkApplications are known here. Whether a controller runs as well is not to be seen."""
        try:
            found = await self.api.get(f"/apis/{dialect.api}")
        except NotFound:
            return False
        return any(each.get("name") == PLURAL for each in found.get("resources") or ())
