"""Whether the API server checks who approves: without that an approval proves nothing about its author."""

from __future__ import annotations

import time
from datetime import timedelta

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.api import Api, ApiError, NotFound
from kafka_recovery.kube.resources import GROUP

APPROVALS_POLICY = f"recovery-approvals.{GROUP}"
"""The name of the ValidatingAdmissionPolicy and of its binding, see manifests/admission/."""

_REMEMBERED = timedelta(minutes=1)
_API = "/apis/admissionregistration.k8s.io/v1"


class Admission:
    """Looks for our policy and its binding, at most once a minute while they are there."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._good_until = 0.0

    async def __call__(self) -> Reason | None:
        """Why approvals can't be trusted, if they can't."""
        if time.monotonic() < self._good_until:
            return None
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
        self._good_until = time.monotonic() + _REMEMBERED.total_seconds()
        return None


def _missing(what: str) -> Reason:
    message = f"nobody checks who writes approvals, so no plan that may lose records is executed: {what}"
    return Reason("AdmissionPolicyMissing", message)
