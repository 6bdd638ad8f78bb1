"""Specs that are right and specs that are wrong: models and API server have to agree about each of them."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from kafka_recovery.kube.resources.kinds import API_VERSION, APPROVALS, CLUSTERS, POLICIES, RANKINGS, RECOVERIES, Kind

Spec = dict[str, Any]
GONE = object()
"""The value of a field that is left out."""
DIGEST = "ab" * 32
ELSEWHERE = (
    "gs://b/x?endpoint_override=evil:80&scheme=http",
    "s3://b/x?region=eu",
    "http://169.254.169.254/latest",
    "https://b/x",
    "sftp://b/x",
    "fsspec+s3://b/x",
)
"""Places where nobody may send the operator."""

CLUSTER: Spec = {"clusterId": "Some-base64_url-ID0000", "bootstrapServers": ["kafka-0.kafka:9092"]}
STRIMZI: Spec = {"clusterId": "Some-base64_url-ID0000", "strimziRef": {"name": "prod"}}
POLICY: Spec = {"rules": [{"name": "default"}]}
RECOVERY: Spec = {"clusterRef": {"name": "prod"}, "clusterId": "abc", "scope": {"allOffline": True}}
APPROVAL: Spec = {
    "recoveryRef": {"name": "prod-0123456789", "uid": "5f0c6f0e-7d4d-4c3e-9f0a-3c1b2a190807"},
    "planDigest": DIGEST,
    "decision": "Approve",
    "approver": "ann@example.com",
}
RANKING: Spec = {
    "task": "Rank",
    "policyRef": {"name": "prod"},
    "storage": {"evidence": "s3://fleet/evidence", "results": "s3://fleet/results"},
    "image": "registry.example/kafka-recovery-fleet-job:0.1.0",
}
# By whoever creates objects in tests/apiserver: admission takes no other name.
ATTESTATION: Spec = {
    "broker": 3,
    "witness": "disk-lost",
    "by": "testbed:administrator",
    "reason": "INC-7: volume vol-3 was deleted",
    "at": "2026-01-31T09:30:00Z",
    "expires": "2026-01-31T10:30:00Z",
}
SMALLEST = {CLUSTERS: CLUSTER, POLICIES: POLICY, RECOVERIES: RECOVERY, APPROVALS: APPROVAL, RANKINGS: RANKING}


@dataclass(frozen=True, slots=True)
class Case:
    """The smallest spec of a kind, or `base`, with one thing changed.

    `says`: words that the API server refuses it with.
    """

    kind: Kind
    path: str
    value: Any
    says: str = ""
    base: Spec | None = None

    @property
    def spec(self) -> Spec:
        return changed(self.base or SMALLEST[self.kind], self.path, self.value)

    def __str__(self) -> str:
        value = "left out" if self.value is GONE else repr(self.value)
        return f"{self.kind.plural}.{self.path}: {value if len(value) < 60 else value[:57] + '...'}"


def changed(spec: Spec, path: str, value: Any) -> Spec:
    """The spec with another value at a path such as `rules.0.tier`."""
    copy = deepcopy(spec)
    at: Any = copy
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in way:
        at = at.setdefault(part, {}) if isinstance(at, dict) else at[part]
    if value is GONE:
        del at[last]
    else:
        at[last] = value
    return copy


def object_of(kind: Kind, spec: Any, *, name: str = "prod", namespace: str = "kafka") -> Spec:
    """What is sent to the API server."""
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": API_VERSION, "kind": kind.kind, "metadata": metadata, "spec": spec}


def stored(kind: Kind, spec: Any, *, status: Spec | None = None, **metadata: Any) -> Spec:
    """What comes back from the API server."""
    written = object_of(kind, spec)
    written["metadata"] |= {
        "uid": "0f4f8e2c-0000-4000-8000-000000000001",
        "generation": 3,
        "resourceVersion": "4711",
        "creationTimestamp": "2026-11-21T12:00:00Z",
        "managedFields": [],
        **metadata,
    }
    return written | ({} if status is None else {"status": status})


def _policies(path: str, *values: Any, says: str = "") -> list[Case]:
    return [Case(POLICIES, path, value, says) for value in values]


def _clusters(path: str, *values: Any, says: str = "") -> list[Case]:
    return [Case(CLUSTERS, path, value, says) for value in values]


def _strimzi(path: str, *values: Any, says: str = "") -> list[Case]:
    return [Case(CLUSTERS, path, value, says, STRIMZI) for value in values]


def _recoveries(path: str, *values: Any, says: str = "") -> list[Case]:
    return [Case(RECOVERIES, path, value, says) for value in values]


def _attestations(*changed: Spec, says: str = "") -> list[Case]:
    return _recoveries("attestations", *([ATTESTATION | each] for each in changed), says=says)


def _approvals(path: str, *values: Any, says: str = "") -> list[Case]:
    return [Case(APPROVALS, path, value, says) for value in values]


def _rankings(path: str, *values: Any, says: str = "") -> list[Case]:
    return [Case(RANKINGS, path, value, says) for value in values]


_RULES = [{"name": "pay", "topics": {"prefixes": ["pay-"]}}, {"name": "rest"}]
_SECRET = {"name": "s"}
_SASL = {"mechanism": "PLAIN", "username": "Ann Ö.", "passwordSecretRef": {"name": "s", "key": "p"}}
_CONTROLLERS = {"bootstrapServers": ["c-0.kafka:9093", "[::1]:9093"]}

GOOD = [
    *_policies(
        "rules.0.patience", "0s", "0h", "1ms", "500ms", "1m30s", "1.5h", "0.001s", "24h", "86400s", "86400000ms"
    ),
    *_policies("rules.0.evidence.deadline", "1ms", "0.001s", "60s", "1m0s", "0.5s0.5s"),
    *_policies(
        "rules.0.evidence", {}, {"deadline": "1s", "maxAge": "1s"}, {"maxAge": "1h"}, {"requiredAnswers": "Any"}
    ),
    *_policies("rules.0.name", "a", "A.b_c-9", "n" * 63),
    *_policies("rules.0.topics.names", ["__consumer_offsets"], ["...", "..a", ".a", "-", "t" * 249], ["t"] * 1000),
    *_policies("rules.0.topics.prefixes", ["."], ["..", "pay-"], ["p" * 248]),
    *_policies("rules.0.tier", 1, 9),
    *_policies("rules.0.minReplicationFactor", 1, 32767),
    *_policies("rules.0.candidateOrder", "LongestLog", "LeastLoss"),
    *_policies("rules.0.approval", "AutoApprove", "AutoApproveLossless"),
    *_policies("rules", _RULES, [{"name": f"r{number}", "topics": {"names": ["t"]}} for number in range(200)]),
    *_policies("limits", {}, {"partitions": 1_000_000, "brokersDownPercent": 1, "waveSizes": [1] * 100}),
    *_policies("limits.coolDown", "0s", "10m", "168h"),
    *_policies("limits.lossBudgetRecords", 0, 10**15),
    *_policies("holdBack", "pods"),
    *_policies("requireReason", True, False),
    *_clusters("clusterId", "a", "_-.", "x" * 64),
    *_clusters("bootstrapServers", ["k:1"], ["10.0.0.1:65535", "[::1]:9092", "K_8-s.example:443"], ["k:9092"] * 64),
    *_clusters("tls", {}, {"caSecretRef": _SECRET}, {"caSecretRef": {"name": "s", "key": "ca.pem"}}),
    *_clusters("tls.certSecretRef", _SECRET, {"name": "s", "certKey": "user.crt", "keyKey": "user.key"}),
    *_clusters("sasl", _SASL),
    *_clusters("controllers", _CONTROLLERS, {**_CONTROLLERS, "tls": {}}, {**_CONTROLLERS, "sasl": _SASL}),
    *_strimzi(
        "controllers", {**_CONTROLLERS, "tls": {"caSecretRef": {"name": "ca"}, "certSecretRef": {"name": "own"}}}
    ),
    *_strimzi("controllers", {}, {"tls": {"certSecretRef": {"name": "own"}}}),
    *_strimzi("strimziRef", {"name": "prod"}, {"name": "a.b-c", "listener": "tls", "user": "kafka-recovery"}),
    *_strimzi("strimziRef.name", "n" * 63),
    *_strimzi("strimziRef.listener", "9", "l" * 11),
    *_clusters("policyRef", {"name": "prod"}, {"name": "a.b-c"}),
    *_clusters("authority", "Observe", "Approve", "Automatic"),
    *_clusters("suspend", True, False),
    *_clusters("history", {}, {"ttl": "0s", "limit": 0}, {"ttl": "1h", "lossyTTL": "1h"}, {"lossyTTL": "87600h"}),
    *_recoveries("scope", {"partitions": [{"topic": "t", "partition": 0}]}),
    *_recoveries("scope", {"partitions": [{"topic": "t", "partition": 2**31 - 1, "designatedLeader": 0}]}),
    *_recoveries("rankingRef", {"name": "nightly"}),
    *_recoveries("attestations", [], [ATTESTATION], [ATTESTATION, {**ATTESTATION, "broker": 2**31 - 1}]),
    *_attestations({"expires": "2026-01-31T09:31:00Z"}, {"expires": "2026-02-01T09:30:00Z"}, {"reason": "r" * 500}),
    *_recoveries("suspend", True),
    *_recoveries("abort", True),
    *_approvals("recoveryRef.name", "a", "n" * 63),
    *_approvals("approver", "system:serviceaccount:ci:release", "CN=Ann Ö., O=Example", "a" * 512),
    *_approvals("maxLossClass", "Lossless", "Bounded", "Unknown"),
    *_approvals("decision", "Refuse"),
    *_approvals("reason", "INC-1\nbecause", "r" * 1024),
    *_rankings("task", "Readiness"),
    *_rankings("schedule", "30 2 * * MON-FRI", "*/5 0,12 1-7 JAN *"),
    *_rankings("clusterSelector", {"clusterIds": ["_-."]}, {"clusterIds": [f"c{number}" for number in range(500)]}),
    *_rankings(
        "storage.results", "abfs://fleet@account.dfs.core.windows.net/r", "file:///results", "hdfs://namenode:8020/r"
    ),
    *_rankings("storage.results", "s3://fleet/evidence-results", "abfs://fleet@account.dfs.core.windows.net/results"),
    *_rankings("maxEvidenceAge", "1m", "36h", "720h"),
    *_rankings("storage.credentialsSecretRef", {"name": "s3"}),
    *_rankings("storage.volumeClaim", {"name": "fleet", "mountPath": "/var/lib/fleet"}),
    *_rankings("image", "localhost/spark:4.3.0", "r:5000/a/b@sha256:0123"),
    *_rankings("serviceAccount", "spark", "a.b-c"),
    *_rankings("resources", {}, {"executors": 1000}, {"driver": {"cores": 2}, "executor": {"memory": "16g"}}),
    *_rankings("sparkConf", {}, {"spark.hadoop.fs.s3a.endpoint": "https://minio:9000"}, {"spark.a": "é\nb"}),
    *_rankings(
        "sparkConf",
        {"spark.hadoop.fs.s3a.aws.credentials.provider": "x.Y"},
        {"spark.kubernetes.driver.secrets.minio": "/etc/minio"},
        {"spark.kubernetes.executor.secretKeyRef.KEY": "minio:key"},
    ),
    *_rankings("sparkConf", {f"spark.s{number}": "v" for number in range(64)}),
    *_rankings("adapter", "Auto", "Apache", "Kubeflow"),
    *_rankings("timeout", "1m", "90s", "24h"),
    *_rankings("retries", 0, 10),
    *_rankings("suspend", True, False),
    *_rankings("history", {}, {"limit": 1}, {"limit": 20}),
]

BAD = [
    *_policies("rules.0.patience", "", "5", "5 s", "-5s", "+5s", "1d", "1e3s", "٣s", ".5s", "1.s", 30, ["1s"]),
    # Go reads these, and Python rounds them: the two would not agree.
    *_policies("rules.0.patience", "5ns", "5us", "5µs", "1.0001ms", says="should match"),
    *_policies("rules.0.patience", "24h0.001ms", "25h", says="must be at most 24h"),
    *_policies("rules.0.patience", "9" * 30 + "h", "0" * 32 + "1s"),
    *_policies("rules.0.evidence.deadline", "0s", "0.001ms", says="must be at least 1ms and at most 10m"),
    *_policies("rules.0.evidence", {"deadline": "11m", "maxAge": "1h"}, says="must be at least 1ms and at most 10m"),
    *_policies("rules.0.evidence", {"maxAge": "2s"}, {"deadline": "61s"}, says="maxAge must not be shorter"),
    *_policies("rules.0.evidence.maxAge", "61m", says="must be at least 1ms and at most 1h"),
    *_policies("rules.0.evidence.attempts", 0, 21, 1.5, "3", True),
    *_policies("rules.0.evidence.requiredAnswers", "all", "Most"),
    *_policies("rules.0.name", "", "a b", "-a", "n" * 64, "a\n", GONE, 7),
    *_policies("rules.0.topics", {}, says="give names or prefixes"),
    *_policies("rules.0.topics.names", [], ["."], [".."], [""], ["a b"], ["é"], ["t" * 250], ["t\n"], "t", [7]),
    *_policies("rules.0.topics.names", ["t"] * 1001),
    *_policies("rules.0.topics.prefixes", [], [""], ["p" * 249], ["a/"]),
    *_policies("rules.0.tier", 0, 10),
    *_policies("rules.0.minReplicationFactor", 0, 32768),
    *_policies("rules.0.candidateOrder", "epochfirst", ""),
    *_policies("rules.0.approval", "Maybe"),
    *_policies("rules", [], GONE, {"name": "a"}),
    *_policies("rules", [*_RULES, _RULES[1]], [_RULES[0], _RULES[0]], says="rule names must be unique"),
    *_policies("rules", _RULES[::-1], [{"name": "a"}, {"name": "b"}], says="it must be the last one"),
    *_policies("rules", [{"name": f"r{number}", "topics": {"names": ["t"]}} for number in range(201)]),
    *_policies("limits.partitions", 0, 1_000_001),
    *_policies("limits.brokersDownPercent", 0, 101),
    *_policies("limits.waveSizes", [], [0], [10_001], [1] * 101),
    *_policies("limits.coolDown", "168h1ms", "169h", says="must be at most 168h"),
    *_policies("limits.coolDown", "-1s", says="should match"),
    *_policies("limits.lossBudgetRecords", -1, 10**15 + 1, 2**63),
    *_policies("requireReason", "true", 1),
    *_policies("holdBack", "", "Pods", "nodes", True),
    *_clusters("clusterId", "", "a b", "x" * 65, GONE),
    *_clusters("bootstrapServers", [], GONE, ["k"], ["k:"], ["k:0"], ["k:65536"], ["k:09"], [":9092"], ["k:9092 "]),
    *_clusters(
        "bootstrapServers", ["a,b:9092"], ["http://k:9092"], ["::1:9092"], ["k:9092"] * 65, ["h" * 257 + ":9092"]
    ),
    *_clusters(
        "tls", {"caSecretRef": {}}, {"caSecretRef": {"name": "S"}}, {"certSecretRef": {"name": "s", "keyKey": "a/b"}}
    ),
    *_clusters("sasl", {}, {"mechanism": "PLAIN", "username": "u"}),
    *_clusters("sasl", {"mechanism": "OAUTHBEARER", "username": "u", "passwordSecretRef": {"name": "s", "key": "p"}}),
    *_clusters("sasl", {"mechanism": "PLAIN", "username": "", "passwordSecretRef": {"name": "s", "key": "p"}}),
    *_clusters("sasl", {"mechanism": "PLAIN", "username": "a\nb", "passwordSecretRef": {"name": "s", "key": "p"}}),
    *_clusters("sasl", {"mechanism": "PLAIN", "username": "u", "passwordSecretRef": {"name": "s"}}),
    *_clusters("controllers", {"bootstrapServers": []}, {"bootstrapServers": ["c-0"]}),
    *_clusters("controllers", {}, {"tls": {}}, says="controllers needs bootstrapServers: only with strimziRef"),
    *_strimzi("controllers", {"sasl": _SASL}, says="controllers.sasl goes with controllers.bootstrapServers only"),
    *_clusters("controllers", {**_CONTROLLERS, "sasl": {**_SASL, "mechanism": "OAUTHBEARER"}}),
    *_clusters("strimziRef", {"name": "prod"}, says="give either bootstrapServers or strimziRef"),
    *_strimzi("strimziRef", GONE, says="give either bootstrapServers or strimziRef"),
    *_strimzi("tls", {}, {"caSecretRef": _SECRET}, says="tls and sasl go with bootstrapServers only"),
    *_strimzi(
        "sasl",
        {"mechanism": "PLAIN", "username": "u", "passwordSecretRef": {"name": "s", "key": "p"}},
        says="tls and sasl go with bootstrapServers only",
    ),
    *_strimzi("strimziRef", {}, {"listener": "tls"}),
    *_strimzi("strimziRef.name", "", "n" * 64, "Prod", "a/b"),
    *_strimzi("strimziRef.listener", "", "TLS", "l" * 12, "a-b"),
    *_strimzi("strimziRef.user", "", "CN=ann", "u" * 254),
    *_clusters("policyRef", {}, {"name": "a/b"}, {"name": "-a"}),
    *_clusters("authority", "Everything", "observe"),
    *_clusters("suspend", "yes", 1),
    *_clusters("history", {"ttl": "100h", "lossyTTL": "99h"}, {"ttl": "2161h"}, says="lossyTTL must not be shorter"),
    *_clusters("history", {"lossyTTL": "87601h"}, says="must be at most 87600h"),
    *_clusters("history.limit", -1, 10_001),
    *_recoveries("scope", {}, says="give either allOffline or partitions"),
    *_recoveries("scope.partitions", [{"topic": "t", "partition": 0}], says="give either allOffline or partitions"),
    *_recoveries("scope", {"allOffline": False}, {"partitions": []}, {"partitions": [{"topic": "t"}]}, GONE),
    *_recoveries(
        "scope", {"partitions": [{"topic": "..", "partition": 0}]}, {"partitions": [{"topic": "t", "partition": -1}]}
    ),
    *_recoveries("scope", {"partitions": [{"topic": "t", "partition": 0, "designatedLeader": 2**31}]}),
    *_recoveries("scope", {"partitions": [{"topic": "t", "partition": number} for number in range(20_001)]}),
    *_recoveries("clusterRef", {}, GONE, {"name": ""}),
    *_recoveries("clusterId", "", GONE),
    *_recoveries("rankingRef", {}, {"name": ""}, {"name": "Nightly"}),
    *_attestations(
        {"expires": "2026-01-31T09:30:59Z"},
        {"expires": "2026-02-01T09:30:01Z"},
        {"expires": "2026-01-30T09:30:00Z"},
        says="expires must be 1m to 24h after at",
    ),
    *_attestations({"at": "2026-02-31T09:30:00Z"}, {"at": "2026-01-31 09:30:00"}, {"at": "2026-01-31T09:30:00+01:00"}),
    *_attestations({"broker": -1}, {"broker": 2**31}, {"witness": "disk-ok"}, {"by": ""}, {"by": "a\tb"}),
    *_attestations({"reason": ""}, {"reason": "  "}, {"reason": "one\ntwo"}, {"reason": "r" * 501}),
    *_recoveries("attestations", *([{k: v for k, v in ATTESTATION.items() if k != field}] for field in ATTESTATION)),
    *_recoveries("attestations", [ATTESTATION, ATTESTATION]),
    *_recoveries("attestations", [{**ATTESTATION, "broker": broker} for broker in range(17)]),
    *_recoveries("abort", "true"),
    *_approvals(
        "recoveryRef", {"name": "a"}, {"uid": "b"}, {"name": "n" * 64, "uid": "b"}, {"name": "a", "uid": "b/c"}
    ),
    *_approvals("planDigest", "AB" * 32, "ab" * 31, "ab" * 33, "", GONE),
    *_approvals("decision", "approve", "Maybe", GONE),
    *_approvals("approver", "", "a" * 513, "a\tb", GONE),
    *_approvals("maxLossClass", "None"),
    Case(APPROVALS, "reason", ""),
    Case(APPROVALS, "reason", "r" * 1025),
    *_rankings("task", "rank", "", GONE),
    *_rankings("schedule", "", "* * * *", "* * * * * *", "@daily", "30 2 * * mon", "0  0 * * *", "0 0 * * *\n"),
    *_rankings("clusterSelector", {}, {"clusterIds": []}, {"clusterIds": ["a b"]}, {"clusterIds": ["a", "a"]}),
    *_rankings("clusterSelector", {"clusterIds": [f"c{number}" for number in range(501)]}),
    *_rankings("policyRef", GONE, {}, {"name": "a/b"}),
    *_rankings("storage", GONE, {"evidence": "s3://b/e"}, {"results": "s3://b/r"}),
    *_rankings(
        "storage.evidence", "", "/var/lib/evidence", "s3://u:p@b/e", "s3://b/e f", "s3:b", "s3://b/é", *ELSEWHERE
    ),
    *_rankings("storage.results", *ELSEWHERE),
    *_rankings("storage.results", "s3://fleet/evidence", "s3://fleet/evidence/r", says="must not lie in the evidence"),
    *_rankings(
        "storage",
        {"evidence": "s3://b/e/", "results": "s3://b/e/r"},
        {"evidence": "s3://b/e", "results": "s3://b/e//r"},
        says="must not lie in the evidence",
    ),
    *_rankings("maxEvidenceAge", "59s", "721h", "a day"),
    *_rankings("storage.credentialsSecretRef", {}, {"name": "S"}),
    *_rankings("storage.volumeClaim", {"name": "fleet"}, {"name": "fleet", "mountPath": "data"}),
    *_rankings("image", GONE, "", "a b", "-a", "i" * 513),
    *_rankings("serviceAccount", "", "Spark"),
    *_rankings(
        "resources", {"executors": 0}, {"executors": 1001}, {"driver": {"cores": 0}}, {"driver": {"cores": 257}}
    ),
    *_rankings("resources", {"executor": {"memory": "2Gi"}}, {"executor": {"memory": "0g"}}, {"driver": {"memory": 2}}),
    *_rankings("sparkConf", {"hadoop.x": "v"}, {"spark.a b": "v"}, says="settings of Spark begin with spark."),
    *_rankings("sparkConf", {"spark.master": "local"}, {"spark.executor.memory": "9g"}, says="another field says this"),
    *_rankings(
        "sparkConf",
        {"spark.hadoop.fs.s3a.secret.key": "v"},
        {"spark.hadoop.fs.s3a.session.token": "v"},
        {"spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net": "v"},
        {"spark.hadoop.fs.azure.account.oauth2.client.secret": "v"},
        {"spark.ssl.keyStorePassword": "v"},
        {"spark.kubernetes.authenticate.submission.oauthToken": "v"},
        says="credential",
    ),
    *_rankings("sparkConf", {"spark.a": ""}, {"spark.a": 1}, {"spark.a": "v" * 1025}),
    *_rankings("sparkConf", {f"spark.s{number}": "v" for number in range(65)}),
    *_rankings("adapter", "apache", ""),
    *_rankings("timeout", "59s", "24h1ms", says="must be at least 1m and at most 24h"),
    *_rankings("retries", -1, 11),
    *_rankings("suspend", "no"),
    *_rankings("history", {"limit": 0}, {"limit": 21}),
]
