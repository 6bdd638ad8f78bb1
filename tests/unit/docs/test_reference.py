"""Every word that the code says to machines is declared, and docs/reference.md tells of it: none is new, none gone."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.formats.catalogue import FILE, Place, catalogue, parsed
from kafka_recovery.kube.machinery.metrics import PREFIX, Metrics
from kafka_recovery.recovery.partition_run import LIFE
from unit.docs import said_reasons
from unit.kube.recoveries.standings import INCIDENTS

DOCS = Path(__file__).parents[3] / "docs"
CURE = "python docs/generate.py"


def loaded(name: str) -> ModuleType:
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(DOCS))


generate = loaded("generate")
PAGE = (DOCS / "reference.md").read_text()

SEEN: tuple[tuple[tuple[Place, ...], tuple[str, ...]], ...] = (
    ((Place.REFUSAL,), ("decision/refusals.py", "decision/judgement.py", "decision/planner.py")),
    ((Place.REPLICA,), ("decision/guards.py",)),
    (
        (Place.MEASUREMENT,),
        (
            *(
                "cluster/replica_logs.py",
                "cluster/local_starts.py",
                "cluster/epoch_vectors.py",
                "cluster/kafka_cluster.py",
                "cluster/metadata.py",
            ),
            *("cluster/gathering.py", "cluster/as_evidence.py", "cluster/metadata_log/reader.py", "cluster/look.py"),
        ),
    ),
    ((Place.MEASUREMENT, Place.WATCHED_CLUSTER), ("kube/clusters/broker_pods.py",)),
    ((Place.CHANGE,), ("decision/attesting.py", "decision/recheck.py", "decision/sameness.py")),
    (
        (Place.FAILURE,),
        ("recovery/", "cluster/assignment_order.py", "cluster/designated.py", "cluster/controller_requests.py"),
    ),
    ((Place.OUTCOME, Place.PARTITION_RECOVERY), ("domain/outcome.py",)),
    ((Place.CONNECTION,), ("cluster/errors.py", "cluster/pulse.py", "kube/watching/watcher.py")),
    (
        (Place.WATCHED_CLUSTER,),
        (
            *("kube/clusters/status.py", "kube/clusters/history.py", "kube/clusters/held.py"),
            *("kube/clusters/clusters.py", "kube/clusters/opening.py", "kube/watching/watch.py"),
            *("kube/clusters/credentials.py", "kube/clusters/same_kafka.py", "kube/clusters/strimzi.py"),
            *("kube/clusters/strimzi_objects.py", "kube/clusters/pod_witness.py"),
            *("kube/clusters/strimzi_controllers.py", "kube/clusters/cant_open.py"),
        ),
    ),
    ((Place.WATCHED_CLUSTER, Place.PARTITION_RECOVERY), ("kube/clusters/open_cluster.py",)),
    ((Place.WAITING,), ("kube/watching/incidents.py", "kube/recoveries/scopes.py", "kube/watching/waits.py")),
    ((Place.WAITING, Place.PARTITION_RECOVERY), ("kube/watching/room.py",)),
    (
        (Place.PARTITION_RECOVERY,),
        (
            *("kube/recoveries/status.py", "kube/recoveries/run.py", "kube/recoveries/endings.py"),
            *("kube/recoveries/recoveries.py", "kube/recoveries/open_recovery.py", "kube/recoveries/progress.py"),
            *("kube/recoveries/void_attestations.py", "kube/resources/operator_switch.py"),
            *("kube/recoveries/supervision.py", "kube/clusters/cool_down.py"),
            *("kube/recoveries/ranked_leaders.py", "kube/recoveries/abort.py", "kube/recoveries/hold_back.py"),
            "kube/recoveries/pods_again.py",
            *("kube/journal/notes.py", "kube/journal/record_journal.py", "kube/recoveries/left_plans.py"),
            *("kube/clusters/housekeeping.py",),
        ),
    ),
    (
        (Place.PARTITION_RECOVERY, Place.RECOVERY_APPROVAL),
        ("kube/resources/admission.py", "kube/recoveries/status_writer.py", "kube/recoveries/approvals.py"),
    ),
    (
        (Place.WATCHED_CLUSTER, Place.PARTITION_RECOVERY, Place.FLEET_RANKING),
        ("kube/resources/watched_by.py",),
    ),
    ((Place.RECOVERY_POLICY,), ("kube/clusters/policies.py",)),
    (
        (
            *(Place.WATCHED_CLUSTER, Place.RECOVERY_POLICY, Place.PARTITION_RECOVERY),
            *(Place.RECOVERY_APPROVAL, Place.FLEET_RANKING),
        ),
        ("kube/resources/unknown.py",),
    ),
    ((Place.FLEET_RANKING,), ("kube/fleet/",)),
)
"""Where a person meets what the files below operator/kafka_recovery say."""


def places_of(file: str) -> set[Place]:
    return {place for places, files in SEEN if file.startswith(files) for place in places}


def test_the_page_says_what_the_code_says() -> None:
    assert generate.wanted() == PAGE, CURE


def test_no_row_is_without_a_meaning() -> None:
    assert re.findall(r"^\| `\w+` \| –? ?\|$", PAGE, re.MULTILINE) == []


def test_the_life_of_a_partition_is_drawn_as_the_engine_has_it() -> None:
    drawn = (DOCS / "reference" / "partition-life.md").read_text()

    assert generate.life() == drawn, CURE
    for step in LIFE:
        assert f"`{step.target}`" in drawn


def test_every_field_of_a_definition_is_told() -> None:
    assert loaded("generate_api").wanted() == (DOCS / "reference" / "api.md").read_text(), CURE


def test_every_reason_that_the_code_gives_is_declared_once() -> None:
    said = {each.code for each in said_reasons.collected()}

    assert said - set(catalogue()) == set(), f"declare it in {FILE.name}: code, level, what it means, what to do"
    assert set(catalogue()) - said == set(), f"nothing says it any more: take it out of {FILE.name}"


def test_a_reason_that_was_renamed_is_followed_to_one_that_there_is() -> None:
    changed = (DOCS.parent / "CHANGELOG.md").read_text()
    renamed = dict(re.findall(r"^  \| (`.*?) \| `(\w+)` \|$", changed, re.MULTILINE))

    assert renamed
    assert {was: name for was, name in renamed.items() if name not in catalogue()} == {}


def test_a_reason_is_seen_where_the_code_says_it() -> None:
    """Each file's reasons name a place of that file; each place has a file that says the reason there."""
    said = said_reasons.collected()
    homeless = {each.file for each in said if not places_of(each.file)}
    unseen = {(each.code, each.file) for each in said if not places_of(each.file) & catalogue()[each.code].seen}
    reached = {(each.code, place) for each in said for place in places_of(each.file)}
    declared = {(code, place) for code, entry in catalogue().items() for place in entry.seen}

    assert homeless == set(), "SEEN has to say where a person meets the reasons of these files"
    assert unseen == set(), "these say a reason where it is not declared to be seen"
    assert declared - reached == set(), "no file says these there"


def test_no_sentence_of_a_reason_is_longer_than_a_tired_reader_keeps_in_mind() -> None:
    told = (" ".join((entry.means, entry.do, entry.ends or "")) for entry in catalogue().values())
    assert [each for text in told for each in re.split(r"(?<=[.:;])\s+", text) if len(each.split()) > 35] == []


def test_entries_are_in_alphabetical_order_and_name_runbooks_that_exist() -> None:
    codes = re.findall(r"^\[(\w+)\]$", FILE.read_text(), re.MULTILINE)
    runbooks = {entry.runbook for entry in catalogue().values() if entry.runbook}

    assert codes == sorted(codes)
    assert runbooks <= {page.stem for page in (DOCS / "runbooks").glob("*.md")}


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ('level = "warning"\nseen = ["refusal"]\nmeans = "so"\ndo = "this"', "what ends it"),
        ('level = "info"\nseen = ["refusal"]\nmeans = "so"', "do"),
        ('level = "info"\nseen = []\nmeans = "so"\ndo = "this"', "where it is seen"),
        ('level = "loud"\nseen = ["refusal"]\nmeans = "so"\ndo = "this"', "loud"),
        ('level = "info"\nseen = ["refusal"]\nmeans = "so"\ndo = "this"\nhelp = "none"', "help"),
    ],
)
def test_an_incomplete_entry_is_an_error(fields: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=rf"AnyWord: .*{wrong}"):
        parsed(f"[AnyWord]\n{fields}\n")


def test_a_code_that_is_declared_twice_is_an_error() -> None:
    text = FILE.read_text()

    with pytest.raises(ValueError, match="Cannot declare"):
        parsed(f"{text}\n[{next(iter(catalogue()))}]\n")


def test_reasons_that_a_recovery_was_seen_with_are_listed() -> None:
    codes = {known.reason.code for known, _ in INCIDENTS.values()}
    missing = [code for code in codes if f"#### `{code}`\n" not in PAGE]
    assert not missing, "\n".join(missing)


def test_outcomes_and_metrics_are_listed() -> None:
    metrics = [each.name for each in Metrics().registry.collect() if each.name.startswith(PREFIX)]
    missing = [word for word in metrics if f"| `{word}" not in PAGE]
    missing += [outcome for outcome in Outcome if f"#### `{outcome}`\n" not in PAGE]
    assert not missing, "\n".join(missing)


def test_a_reason_by_a_variable_that_nobody_explains_is_an_error() -> None:
    explained = dict(said_reasons.ELSEWHERE)
    del explained["kube/recoveries/ranked_leaders.py", "code"]

    with pytest.raises(said_reasons.Unexplained, match=r"ranked_leaders\.py:\d+: which reasons can code be"):
        said_reasons.collected(explained)


def test_an_explanation_of_what_is_gone_is_an_error() -> None:
    with pytest.raises(said_reasons.Unexplained, match="nothing in the code is like this"):
        said_reasons.collected({**said_reasons.ELSEWHERE, ("kube/gone.py", "code"): ()})


def test_every_event_and_condition_of_the_code_is_told() -> None:
    said = [
        call for file in said_reasons.sources() if file.startswith("kube/") for call in said_reasons.calls(file, "say")
    ]
    actions = {call.args[3].value for call in said if isinstance(call.args[3], ast.Constant)}
    called = [call for file in said_reasons.sources() for call in said_reasons.calls(file, "condition")]
    types = {call.args[0].value for call in called if isinstance(call.args[0], ast.Constant)}

    assert {action for action, *_ in generate.EVENTS} == actions
    assert types <= {name for each in generate.CONDITIONS.values() for name in each}
