"""What is taken from a notification, and what is none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_recovery.kube.webhook.notification import MOST_ALERTS, NotANotification, Notification, understood
from unit.kube.spoilt import spoilt
from unit.kube.webhook.payloads import alert, payload

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
"""NaN, infinities and halves of surrogate pairs included: Python's parser takes them all."""


@pytest.mark.parametrize(
    "labels",
    [
        {"namespace": "kafka", "name": "prod"},
        {"cluster": "eu-west", "namespace": "kafka", "name": "prod"},
        {"cluster": "eu/west", "namespace": "kafka", "name": "prod"},
    ],
    ids=["as our metrics do", "beside the Kubernetes cluster's own name", "whatever that is"],
)
def test_an_alert_names_its_cluster(labels: dict[str, str]) -> None:
    assert understood(payload(alert(**labels))).clusters == {("kafka", "prod")}


@pytest.mark.parametrize(
    "labels",
    [
        {"alertname": "A"},
        {"name": "prod"},
        {"namespace": "kafka"},
        {"cluster": "kafka/prod"},
        {"namespace": "kafka", "cluster": "prod"},
        {"namespace": "kafka", "name": ""},
        {"namespace": "", "name": "prod"},
        {"namespace": "a/b", "name": "c"},
        {"namespace": "kafka", "name": "../../secrets"},
        {"namespace": "kafka", "name": "prod\n"},
        {"namespace": "Kafka", "name": "Prod"},
        {"namespace": "kafka", "name": "p" * 254},
        {"namespace": "n" * 64, "name": "prod"},
    ],
    ids=repr,
)
def test_what_no_watched_cluster_can_be_called_names_none(labels: dict[str, str]) -> None:
    seen = understood(payload(alert(**labels)))

    assert not seen.clusters
    assert seen.nameless == 1


def test_groups_are_told_apart_and_kept_short() -> None:
    one, other = understood(payload(group="a" * 50_000)), understood(payload(group="b" * 50_000))

    assert one.group != other.group
    assert len(one.group) == 64


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "no JSON"),
        (b"alert!", "no JSON"),
        (b"\xff\xfe\x00", "no JSON"),
        (b"9" * 100_000, "no JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 20_000, "nested too deeply"),
        (b"[]", "no object with version '4'"),
        (b'{"version": 4}', "no object with version '4'"),
        (payload(version="3"), "no object with version '4'"),
        (payload(groupKey=""), "groupKey"),
        (payload(groupKey={"a": 1}), "groupKey"),
        (payload(alerts={}), "alerts"),
        (payload(alerts=["firing"]), "alerts"),
        (payload(*[alert()] * (MOST_ALERTS + 1)), "more than 1000 alerts"),
        (payload({"labels": {}}), "status"),
        (payload(alert("burning")), "status"),
        (payload({"status": "firing"}), "labels"),
        (payload({"status": "firing", "labels": {"name": 5}}), "labels"),
        (payload({"status": "firing", "labels": {"name": ["prod"]}}), "labels"),
    ],
    ids=lambda each: repr(each[:40]),
)
def test_what_is_no_notification_is_refused_without_repeating_it(body: bytes, says: str) -> None:
    with pytest.raises(NotANotification, match=says) as refused:
        understood(body)

    assert len(str(refused.value)) < 100


@given(st.binary(max_size=300) | JSON.map(lambda said: json.dumps(said).encode()))
def test_whatever_comes_is_understood_or_refused(body: bytes) -> None:
    _understood_or_refused(body)


def test_whatever_an_alert_holds_is_understood_or_refused() -> None:
    for odd in spoilt(json.loads(payload())):
        _understood_or_refused(json.dumps(odd).encode())


@given(st.dictionaries(st.sampled_from(["name", "namespace", "x"]), st.text() | st.from_regex(r"[a-z.-]*")))
def test_whatever_a_label_says_only_names_come_out(labels: dict[str, str]) -> None:
    for namespace, name in understood(payload({"status": "firing", "labels": labels})).clusters:
        assert set(namespace + name) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-")
        assert 1 <= len(namespace) <= 63
        assert 1 <= len(name) <= 253


def _understood_or_refused(body: bytes) -> None:
    try:
        seen = understood(body)
    except NotANotification:
        return
    assert isinstance(seen, Notification)
    assert len(seen.group) == 64
