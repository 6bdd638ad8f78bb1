"""Whether our admission policies are in force: without them approvals and journals may be anybody's word."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.machinery.api import Api, ApiError, NotFound
from kafka_recovery.kube.resources.kinds import GROUP, HISTORIES, Meta

APPROVALS_POLICY = f"recovery-approvals.{GROUP}"
RECORDS_POLICY = f"recovery-records.{GROUP}"
ATTESTATIONS_POLICY = f"recovery-attestations.{GROUP}"
HELD_PODS_POLICY = f"held-pods.{GROUP}"
SECRETS_POLICY = f"secret-references.{GROUP}"
"""The names of ValidatingAdmissionPolicies and of their bindings, see manifests/admission/."""

IN_FORCE_AFTER = timedelta(seconds=2)
"""So long an API server may take until it applies a new policy, give or take the second in which it was made."""

_API = "/apis/admissionregistration.k8s.io/v1"


class Admission:
    """Looks for our policies and their bindings each time that an approval or a journal is about to count."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def __call__(self, approval: Meta) -> Reason | None:
        """Why this approval can't be trusted, if it can't."""
        since = await self._in_force_since(APPROVALS_POLICY)
        if isinstance(since, str):
            message = f"nobody checks who writes approvals, so no plan that may lose records is executed: {since}"
            return Reason("AdmissionPolicyMissing", message)
        if approval.created_at > since + IN_FORCE_AFTER:
            return None
        said = f"it was written before {APPROVALS_POLICY} was in force as it is now"
        return Reason("PredatesAdmissionPolicy", f"{said}, so perhaps nobody checked who wrote it: write it again")

    async def of_journal(self, oldest: datetime) -> Reason | None:
        """Why a journal whose oldest RecoveryRecord was written then can't be trusted, if it can't."""
        since = await self._in_force_since(RECORDS_POLICY)
        if isinstance(since, str):
            return Reason("AdmissionPolicyMissing", f"nobody checks who writes journals: {since}")
        if oldest > since + IN_FORCE_AFTER:
            return None
        return Reason("PredatesAdmissionPolicy", f"it was written before {RECORDS_POLICY} was in force as it is now")

    async def of_histories(self, oldest: datetime) -> Reason | None:
        """Why a ClusterHistory that was written then can't be trusted, if it can't: the policy may be an older one."""
        if (why := await self.of_journal(oldest)) is not None:
            return why
        policy = await self._api.get(f"{_API}/validatingadmissionpolicies/{RECORDS_POLICY}")
        rules = policy["spec"].get("matchConstraints", {}).get("resourceRules", ())
        if any(HISTORIES.plural in rule.get("resources", ()) for rule in rules):
            return None
        said = f"{RECORDS_POLICY} does not ask who writes {HISTORIES.plural}; kubectl apply -f manifests/admission/"
        return Reason("AdmissionPolicyMissing", said)

    async def of_attestations(self, made: datetime) -> Reason | None:
        """Why nobody can trust in whose name a PartitionRecovery that was made then attests something, if so.

        When an entry was written only its author says; that it was checked is sure where the whole object is younger
        than the policy.
        """
        since = await self._in_force_since(ATTESTATIONS_POLICY)
        if isinstance(since, str):
            message = f"nobody checks who attests, so no plan that stands on an attestation is executed: {since}"
            return Reason("AdmissionPolicyMissing", message)
        if made > since + IN_FORCE_AFTER:
            return None
        said = f"this PartitionRecovery was made before {ATTESTATIONS_POLICY} was in force as it is now"
        mend = "so perhaps nobody checked who attests in it: abort it, make another one, and attest there"
        return Reason("PredatesAdmissionPolicy", f"{said}, {mend}")

    async def missing(self) -> list[str]:
        """What of our policies is not in force, a line for each; whether there is an approval or not."""
        policies = APPROVALS_POLICY, RECORDS_POLICY, ATTESTATIONS_POLICY, HELD_PODS_POLICY, SECRETS_POLICY
        found = [await self._in_force_since(each) for each in policies]
        return [each for each in found if isinstance(each, str)]

    async def of_pods(self) -> str | None:
        """Why Pods that a recovery holds back are created all the same, if they are."""
        since = await self._in_force_since(HELD_PODS_POLICY)
        return since if isinstance(since, str) else None

    async def _in_force_since(self, policy: str) -> datetime | str:
        """Since when policy and binding are as they are now; or what is missing."""
        changed: list[datetime] = []
        for plural in ("validatingadmissionpolicies", "validatingadmissionpolicybindings"):
            try:
                found = await self._api.get(f"{_API}/{plural}/{policy}")
            except NotFound:
                return f"{plural}/{policy} is not there; kubectl apply -f manifests/admission/"
            except ApiError as error:
                return f"{plural}/{policy} can't be read ({error}): see manifests/rbac/"
            if plural.endswith("bindings") and found["spec"].get("policyName") != policy:
                return f"{plural}/{policy} binds another policy (spec.policyName)"
            if plural.endswith("bindings") and "Deny" not in found["spec"].get("validationActions", ()):
                return f"{plural}/{policy} does not deny (spec.validationActions)"
            changed.append(_changed_at(found["metadata"]))
        return max(changed)


def _changed_at(meta: Mapping[str, Any]) -> datetime:
    """When it was made, or changed if its spec was at any time: a binding may have audited only until then."""
    if meta.get("generation") == 1:
        return datetime.fromisoformat(meta["creationTimestamp"])
    ours = [each for each in meta.get("managedFields", ()) if "time" in each and not each.get("subresource")]
    return max(datetime.fromisoformat(at) for at in (meta["creationTimestamp"], *(each["time"] for each in ours)))
