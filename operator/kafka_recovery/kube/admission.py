"""Whether the API server checks who approves: without that an approval proves nothing about its author."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.api import Api, ApiError, NotFound
from kafka_recovery.kube.resources import GROUP, Meta

APPROVALS_POLICY = f"recovery-approvals.{GROUP}"
"""The name of the ValidatingAdmissionPolicy and of its binding, see manifests/admission/."""

_IN_FORCE_AFTER = timedelta(seconds=2)
"""So long an API server may take until it applies a new policy, give or take the second in which it was made."""

_REMEMBERED = timedelta(minutes=1)
_API = "/apis/admissionregistration.k8s.io/v1"


class Admission:
    """Looks for our policy and its binding, at most once a minute while they are there."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._good_until = 0.0
        self._since = datetime.max.replace(tzinfo=UTC)

    async def __call__(self, approval: Meta) -> Reason | None:
        """Why this approval can't be trusted, if it can't."""
        if time.monotonic() >= self._good_until and (missing := await self._look()):
            return missing
        if approval.created_at > self._since + _IN_FORCE_AFTER:
            return None
        message = (
            f"it was written before {APPROVALS_POLICY} was in force, so nobody checked who wrote it: write it anew"
        )
        return Reason("WrittenUnchecked", message)

    async def _look(self) -> Reason | None:
        """Find both, and remember since when they are there."""
        made: list[datetime] = []
        for plural in ("validatingadmissionpolicies", "validatingadmissionpolicybindings"):
            try:
                found = await self._api.get(f"{_API}/{plural}/{APPROVALS_POLICY}")
            except NotFound:
                return _missing(f"{plural}/{APPROVALS_POLICY} is not there; kubectl apply -f manifests/admission/")
            except ApiError as error:
                return _missing(f"{plural}/{APPROVALS_POLICY} can't be read ({error}): see manifests/rbac/")
            if plural.endswith("bindings") and found["spec"].get("policyName") != APPROVALS_POLICY:
                return _missing(f"{plural}/{APPROVALS_POLICY} binds another policy (spec.policyName)")
            if plural.endswith("bindings") and "Deny" not in found["spec"].get("validationActions", ()):
                return _missing(f"{plural}/{APPROVALS_POLICY} does not deny (spec.validationActions)")
            made.append(datetime.fromisoformat(found["metadata"]["creationTimestamp"]))
        self._since = max(made)
        self._good_until = time.monotonic() + _REMEMBERED.total_seconds()
        return None


def _missing(what: str) -> Reason:
    message = f"nobody checks who writes approvals, so no plan that may lose records is executed: {what}"
    return Reason("AdmissionPolicyMissing", message)
