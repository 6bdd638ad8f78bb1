"""The schemas in crds/ and the models that read objects say the same, field by field and value by value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import pytest
import yaml
from annotated_types import MaxLen, MinLen
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from kafka_recovery.domain.outcome import End
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.formats.fields import DURATION, LONGEST_DURATION, Check, Duration, Flag, OneOf, Text, Whole
from kafka_recovery.formats.policy_file import PREFIX, TOPIC, PolicySpec
from kafka_recovery.kube.fleet.fields import CREDENTIAL, RESERVED, RankingSpec
from kafka_recovery.kube.fleet.resource import read_ranking
from kafka_recovery.kube.machinery.conditions import LONGEST_MESSAGE
from kafka_recovery.kube.recoveries.status import FIRST
from kafka_recovery.kube.resources.fields import LONGEST_RECOVERY_NAME, ApprovalSpec, ClusterSpec, RecoverySpec
from kafka_recovery.kube.resources.kinds import (
    APPROVALS,
    CLUSTERS,
    GROUP,
    HISTORIES,
    POLICIES,
    RANKINGS,
    RECORDS,
    RECOVERIES,
    VERSION,
    Kind,
    read_approval,
    read_cluster,
    read_policy,
    read_recovery,
)
from unit.kube.specs import BAD, CLUSTER, GOOD, SMALLEST, Case, changed, stored

CRDS = Path(__file__).parents[4] / "crds"
READERS = {
    CLUSTERS: read_cluster,
    POLICIES: read_policy,
    RECOVERIES: read_recovery,
    APPROVALS: read_approval,
    RANKINGS: read_ranking,
}
MODELS: dict[Kind, type[BaseModel]] = {
    CLUSTERS: ClusterSpec,
    POLICIES: PolicySpec,
    RECOVERIES: RecoverySpec,
    APPROVALS: ApprovalSpec,
    RANKINGS: RankingSpec,
}
KINDS = pytest.mark.parametrize("kind", READERS, ids=lambda kind: kind.plural)
Schema = dict[str, Any]


@cache
def definition(kind: Kind) -> Schema:
    document: Schema = yaml.safe_load((CRDS / f"{kind.plural}.yaml").read_text())
    return document


def schema(kind: Kind) -> Schema:
    (version,) = definition(kind)["spec"]["versions"]
    found: Schema = version["schema"]["openAPIV3Schema"]
    return found


# What a model says, as a schema


def model_says(model: type[BaseModel]) -> Schema:
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    required = sorted(name for name, field in fields.items() if field.is_required())
    properties = {name: field_says(field) for name, field in fields.items()}
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


def field_says(field: FieldInfo) -> Schema:
    return says(field.annotation, field.metadata)


def says(annotation: Any, metadata: list[Any]) -> Schema:
    for check in metadata:
        if isinstance(check, Check):
            return check_says(check)
    if get_origin(annotation) is list:
        (item,) = get_args(annotation)
        bounds = {}
        for bound in metadata:
            for part in getattr(bound, "metadata", [bound]):
                if isinstance(part, MinLen):
                    bounds["minItems"] = part.min_length
                if isinstance(part, MaxLen):
                    bounds["maxItems"] = part.max_length
        plain, *extra = get_args(item) or (item,)
        return {"type": "array", "items": says(plain, extra), **bounds}
    if get_origin(annotation) is UnionType:  # left out
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is dict:  # the schema says in rules what its keys are
        plain, *extra = get_args(get_args(annotation)[1])
        (bound,) = (part for field in metadata for part in getattr(field, "metadata", [field]))
        return {"type": "object", "additionalProperties": says(plain, extra), "maxProperties": bound.max_length}
    return model_says(annotation)


def check_says(check: Check) -> Schema:
    match check:
        case Whole(low, high):
            return {"type": "integer", "minimum": low, "maximum": high}
        case Flag(only):
            return {"type": "boolean"} | ({} if only is None else {"enum": [only]})
        case OneOf():
            return {"type": "string", "enum": check.words}
        case Text(pattern, longest):
            form = {} if pattern is None else {"pattern": f"^({pattern})$"}
            return {"type": "string", "minLength": 1, "maxLength": longest, **form}
        case Duration(longest, shortest):
            rule = f"duration(self) >= duration('{shortest}') && duration(self) <= duration('{longest}')"
            bounds = {"minLength": 1, "maxLength": LONGEST_DURATION, "pattern": f"^({DURATION})$"}
            return {"type": "string", **bounds, "x-kubernetes-validations": [rule]}
    raise AssertionError(f"{check} has no form in a schema")


def compared(node: Schema) -> Schema:
    """What of a schema the model says too: no words, no defaults; of the rules those about durations."""
    lists = {"x-kubernetes-list-type", "x-kubernetes-list-map-keys"}
    left_out = {"description", "default", "format", *lists, "x-kubernetes-validations"}
    kept = {key: value for key, value in node.items() if key not in left_out}
    if "properties" in kept:
        kept["properties"] = {name: compared(child) for name, child in kept["properties"].items()}
    if "items" in kept:
        kept["items"] = compared(kept["items"])
    if "required" in kept:
        kept["required"] = sorted(kept["required"])
    if DURATION in node.get("pattern", ""):
        kept["x-kubernetes-validations"] = [rule["rule"] for rule in node["x-kubernetes-validations"]]
    return kept


@KINDS
def test_the_schema_says_what_the_model_says(kind: Kind) -> None:
    assert compared(schema(kind)["properties"]["spec"]) == model_says(MODELS[kind])


def refusal(case: Case) -> str | None:
    """What the model says against it; None: it is taken."""
    try:
        READERS[case.kind](stored(case.kind, case.spec))
    except InvalidDocument as refused:
        return str(refused)
    return None


def test_the_model_takes_what_the_schema_takes() -> None:
    wrong = [f"{case}: {refused}" for case in GOOD if (refused := refusal(case)) is not None]
    assert not wrong, "\n".join(wrong)


def test_the_model_refuses_what_the_schema_refuses_and_names_the_field() -> None:
    told = [(case, refusal(case) or "is taken") for case in BAD]
    wrong = [f"{case}: {said}" for case, said in told if f"{case.kind.kind} kafka/prod: spec" not in said]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("text", [TOPIC, PREFIX], ids=["topic", "prefix"])
@given(
    name=st.text(st.sampled_from("a.9_-/ é\n"), max_size=6) | st.sampled_from(["a" * n for n in (247, 248, 249, 250)])
)
def test_the_words_about_a_topic_s_name_agree_with_its_pattern(text: Text, name: str) -> None:
    assert text.pattern is not None
    assert text.problem_of is not None
    matches = bool(re.fullmatch(text.pattern, name)) and len(name) <= text.longest
    assert matches == (text.problem_of(name) is None)


# Defaults


def defaulted(node: Schema, value: Any) -> Any:
    """What the API server makes of a value: absent fields get their default, and so do the fields in it."""
    if isinstance(value, dict):
        for name, child in node.get("properties", {}).items():
            if name not in value and "default" in child:
                value[name] = deepcopy(child["default"])
            if name in value:
                defaulted(child, value[name])
    if isinstance(value, list):
        for item in value:
            defaulted(node["items"], item)
    return value


@KINDS
def test_what_the_api_server_fills_in_is_what_is_taken_for_left_out(kind: Kind) -> None:
    for spec in (SMALLEST[kind], *(case.spec for case in GOOD if case.kind == kind)):
        filled = defaulted(schema(kind), stored(kind, deepcopy(spec)))
        assert READERS[kind](filled | {"status": None}) == READERS[kind](stored(kind, spec))


def test_every_default_can_be_seen_in_the_object() -> None:
    """What holds must not depend on which version of the operator reads the policy."""
    without = {path for path, node in walked(schema(POLICIES)["properties"]["spec"]) if "default" not in node}

    assert {path for path in without if not path.endswith("[]")} == {
        "",
        ".holdBack",
        ".limits.coolDown",
        ".limits.lossBudgetRecords",
        ".rules",
        ".rules[].name",
        ".rules[].topics",
        ".rules[].topics.names",
        ".rules[].topics.prefixes",
    }


def test_a_client_certificate_s_keys_are_those_of_kubernetes_own_secrets() -> None:
    spec = changed(CLUSTER, "tls", {"caSecretRef": {"name": "ca"}, "certSecretRef": {"name": "me"}})
    tls = defaulted(schema(CLUSTERS)["properties"]["spec"], spec)["tls"]

    assert tls == {
        "caSecretRef": {"name": "ca", "key": "ca.crt"},
        "certSecretRef": {"name": "me", "certKey": "tls.crt", "keyKey": "tls.key"},
    }


# What holds of every definition


def walked(node: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from walked(child, f"{path}.{name}")
    if "items" in node:
        yield from walked(node["items"], f"{path}[]")


def content(kind: Kind) -> Iterator[tuple[str, Schema]]:
    for part in ("spec", "status"):
        yield from walked(schema(kind)["properties"][part], part)


@KINDS
def test_every_text_and_every_list_is_bounded(kind: Kind) -> None:
    """Else the API server refuses rules over them for what they might cost."""
    for path, node in content(kind):
        if node["type"] == "string":
            assert "maxLength" in node or "enum" in node, path
        if node["type"] == "array":
            assert "maxItems" in node, path
            assert "x-kubernetes-list-type" in node, path


@KINDS
def test_every_field_is_explained(kind: Kind) -> None:
    assert schema(kind)["description"]
    for path, node in content(kind):
        assert path.endswith("[]") or node.get("description", "").endswith((".", "not.", "is.")), path


@KINDS
def test_every_rule_says_what_is_wrong(kind: Kind) -> None:
    for path, node in walked(schema(kind)):
        for rule in node.get("x-kubernetes-validations", ()):
            assert set(rule) == {"rule", "message"}, path


@KINDS
def test_a_definition_is_named_as_the_operator_asks_for_it(kind: Kind) -> None:
    names = definition(kind)["spec"]["names"]

    assert definition(kind)["metadata"]["name"] == f"{kind.plural}.{GROUP}"
    assert (names["kind"], names["plural"], names["categories"]) == (kind.kind, kind.plural, ["kafka-recovery"])
    assert [version["name"] for version in definition(kind)["spec"]["versions"]] == [VERSION]


def test_short_names_are_those_that_are_written_down() -> None:
    short = [definition(kind)["spec"]["names"]["shortNames"] for kind in READERS]
    assert short == [["wkc"], ["rpol"], ["prec"], ["rappr"], ["frank"]]


def test_there_is_one_file_for_each_kind() -> None:
    assert {file.stem for file in CRDS.glob("*.yaml")} == {kind.plural for kind in (*READERS, RECORDS, HISTORIES)}


def test_bounds_that_two_files_know_are_the_same() -> None:
    status = schema(RECOVERIES)["properties"]["status"]["properties"]
    conditions = [schema(kind)["properties"]["status"]["properties"]["conditions"] for kind in READERS]
    name_rule = schema(RECOVERIES)["x-kubernetes-validations"][0]["rule"]

    assert all(each["items"]["properties"]["message"]["maxLength"] == LONGEST_MESSAGE for each in conditions)
    assert status["refusals"]["maxItems"] == status["failures"]["maxItems"] == FIRST
    assert status["outcome"]["enum"] == [str(end) for end in End]
    assert name_rule == f"self.metadata.name.size() <= {LONGEST_RECOVERY_NAME}"


def test_settings_of_spark_that_can_t_be_given_are_the_same_in_both() -> None:
    rules = schema(RANKINGS)["properties"]["spec"]["properties"]["sparkConf"]["x-kubernetes-validations"]

    assert set(re.findall(r"'([^']+)'", rules[1]["rule"])) == RESERVED
    assert re.findall(r"'([^']+)'", rules[2]["rule"]) == [CREDENTIAL]
