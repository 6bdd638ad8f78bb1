"""support-bundle: enough for somebody who was not there, and nothing that must stay at home."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import digest, read
from kafka_recovery.kube.machinery.api import ApiError, Unanswered
from kafka_recovery.kube.resources.kinds import CLUSTERS
from unit.cli.kubectl.conftest import Plugin
from unit.cli.kubectl.person import NAMESPACE, Incidents, SmallKubernetes

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"


def contents(path: Path) -> dict[str, str]:
    with tarfile.open(path) as packed:
        files = {entry.name.removeprefix("kafka-recovery-support/"): packed.extractfile(entry) for entry in packed}
        return {name: file.read().decode() for name, file in files.items() if file}


def put_pod(kubernetes: SmallKubernetes) -> None:
    """The operator's, which was restarted once."""
    labels = {"app.kubernetes.io/part-of": "kafka-recovery"}
    status = {"containerStatuses": [{"name": "operator", "restartCount": 1}]}
    kubernetes.memory.objects[f"{PODS}/op-0"] = {"metadata": {"name": "op-0", "labels": labels}, "status": status}
    kubernetes.logs = {f"{PODS}/op-0/log?previous=false": "now\n", f"{PODS}/op-0/log?previous=true": "before\n"}


def test_all_that_explains_an_incident(
    incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes, tmp_path: Path
) -> None:
    incidents.cluster()
    plan = incidents.awaiting()
    put_pod(kubernetes)
    for name, kind in (("ours", "kafka-recovery.dev/v1alpha1"), ("other", "apps/v1")):
        event = {"metadata": {"name": name}, "regarding": {"apiVersion": kind}, "reason": "Planned"}
        kubernetes.memory.objects[f"{EVENTS}/{name}"] = event

    done = plugin("support-bundle", "--out", tmp_path / "b.tar.gz")

    assert done.exit_code == 0
    found = contents(tmp_path / "b.tar.gz")
    assert [each["metadata"]["name"] for each in json.loads(found["objects/partitionrecoveries.json"])] == ["prod-1"]
    assert json.loads(found["objects/recoverypolicies.json"]) == []
    assert [each["metadata"]["name"] for each in json.loads(found["events.json"])] == ["ours"]
    assert found["logs/op-0.operator.log"] == "now\n"
    assert found["logs/op-0.operator.previous.log"] == "before\n"
    config_map = f"prod-1-{digest(plan)[:16]}-plan"
    assert read(Plan, found[f"journal/{config_map}.json"].encode(), "plan") == plan
    assert [each["name"] for each in json.loads(found["journal/records.json"])] == [config_map]
    assert "Everything could be read." in found["README"]


def test_no_secret_is_in_it_or_even_asked_for(
    incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes, tmp_path: Path
) -> None:
    sasl = {"mechanism": "PLAIN", "username": "kafka-admin", "passwordSecretRef": {"name": "creds", "key": "pw"}}
    controllers = {"bootstrapServers": ["c-0:9093"], "sasl": {**sasl, "username": "kafka-admin-at-controllers"}}
    incidents.cluster(sasl=sasl, controllers=controllers)
    copied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"username": "kafka-admin"})}
    kubernetes.memory.objects[CLUSTERS.path(NAMESPACE, "prod")]["metadata"]["annotations"] = copied
    kubernetes.memory.objects[f"/api/v1/namespaces/{NAMESPACE}/secrets/creds"] = {"metadata": {"name": "creds"}}

    plugin("support-bundle", "--out", tmp_path / "b.tar.gz")

    found = contents(tmp_path / "b.tar.gz")
    (cluster,) = json.loads(found["objects/watchedclusters.json"])
    assert cluster["spec"]["sasl"]["passwordSecretRef"] == {"name": "creds", "key": "pw"}
    assert cluster["spec"]["controllers"]["sasl"]["passwordSecretRef"] == {"name": "creds", "key": "pw"}
    assert "kafka-admin" not in "".join(found.values())
    assert not any("/secrets" in path for path in kubernetes.asked_for)


def test_the_name_of_a_user_of_strimzis_is_left_out(incidents: Incidents, plugin: Plugin, tmp_path: Path) -> None:
    incidents.cluster("with-user", strimziRef={"name": "kafka", "user": "kafka-admin"})
    incidents.cluster("without", strimziRef={"name": "kafka"})

    plugin("support-bundle", "--out", tmp_path / "b.tar.gz")

    found = contents(tmp_path / "b.tar.gz")
    references = [each["spec"]["strimziRef"] for each in json.loads(found["objects/watchedclusters.json"])]
    assert references == [{"name": "kafka", "user": "(left out)"}, {"name": "kafka"}]
    assert "kafka-admin" not in "".join(found.values())


def test_what_one_may_not_read_is_listed_and_the_rest_is_there(
    incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes, tmp_path: Path
) -> None:
    incidents.cluster()
    kubernetes.refuses["/events"] = ApiError(403, "Forbidden", 'User "ann" cannot list resource "events"')

    done = plugin.says("support-bundle", "--out", tmp_path / "b.tar.gz", "-o", "json")

    events, logs = json.loads(done)["unreadable"]
    assert events.startswith('events: you may not do this: User "ann" cannot list resource "events"')
    assert logs.startswith("the operator's logs in namespace kafka: no pod with label app.kubernetes.io/part-of=")
    found = contents(tmp_path / "b.tar.gz")
    assert "events.json" not in found
    assert f"What could not be read:\n- {events}\n- {logs}" in found["README"]


def test_a_damaged_plan_is_listed_too(incidents: Incidents, plugin: Plugin, tmp_path: Path) -> None:
    plan = incidents.awaiting()
    name = f"prod-1-{digest(plan)[:16]}-plan"
    incidents.kubernetes.memory.records()[name]["spec"]["content"] = "&&&"

    plugin("support-bundle", "--out", tmp_path / "b.tar.gz")

    found = contents(tmp_path / "b.tar.gz")
    assert f"the plan in RecoveryRecord {name}: RecoveryRecord {name}: its content is no base64" in found["README"]


def test_an_api_server_that_does_not_answer_makes_no_bundle(
    plugin: Plugin, kubernetes: SmallKubernetes, tmp_path: Path
) -> None:
    kubernetes.refuses["/"] = Unanswered(0, "Unanswered", "https://k8s: refused")

    refused = plugin("support-bundle", "--out", tmp_path / "b.tar.gz")

    assert refused.exit_code == 3
    assert list(tmp_path.glob("*.gz")) == []
