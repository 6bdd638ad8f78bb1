"""Programs that read our JSON have a schema of it: the one of the types that are written."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator, ValidationError

from unit.docs.test_reference import DOCS, loaded
from unit.documents import document

generate = loaded("generate_schemas")
EMPTY = {"formatVersion": 1, "kind": "RecoveryReport", "outcomes": [], "plans": [], "damaged": [], "unapproved": []}


def test_the_schemas_are_those_of_the_types_that_are_written() -> None:
    found = {path: path.read_text() for path in generate.FOLDER.iterdir()}
    assert found == generate.wanted(), "python docs/generate.py"


@pytest.mark.parametrize("name", generate.DOCUMENTS)
def test_each_is_a_schema_and_the_commands_page_leads_to_it(name: str) -> None:
    Draft202012Validator.check_schema(json.loads((generate.FOLDER / f"{name}.json").read_text()))
    assert f"(schemas/{name}.json)" in (DOCS / "reference" / "commands.md").read_text()


def test_a_document_without_a_field_or_with_an_unknown_one_does_not_fit() -> None:
    assert document("report", json.dumps(EMPTY)) == EMPTY
    for wrong in ({**EMPTY, "became": "Ended"}, {**EMPTY, "formatVersion": 2}, {"formatVersion": 1}):
        with pytest.raises(ValidationError):
            document("report", json.dumps(wrong))


def test_whoever_reads_it_with_an_older_schema_may_meet_new_fields() -> None:
    told = json.loads((generate.FOLDER / "report.json").read_text())

    Draft202012Validator(told).validate({**EMPTY, "newer": True})
