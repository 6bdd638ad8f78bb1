"""Files of partitions: KIP-1275's input and the designated form, read strictly, written so that both sides agree."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.formats.partition_files import (
    LARGEST_FILE,
    read_partitions,
    topic_name_problem,
    write_designated,
)

LISTED = '{"partitions": [{"topic": "foo", "partitions": [0, 3, 5]}, {"topic": "bar", "partitions": [0]}]}'
DESIGNATED = """{"partitions": [
  {"topic": "foo", "partition": 1, "designatedLeader": 0},
  {"topic": "foobar", "partition": 2, "designatedLeader": 1}
]}
"""


def problems(text: str) -> list[str]:
    """Every line of the refusal, without the file's name."""
    with pytest.raises(InvalidDocument) as refusal:
        read_partitions(text, "p.json")
    lines = str(refusal.value).splitlines()
    assert all(line.startswith("p.json: ") for line in lines)
    return [line.removeprefix("p.json: ") for line in lines]


def test_kip_1275_s_input_names_partitions_in_its_own_order() -> None:
    found = read_partitions(LISTED, "p.json")

    assert list(map(str, found.partitions)) == ["foo-0", "foo-3", "foo-5", "bar-0"]
    assert found.designated == {}


def test_the_kip_s_designated_form_is_read_and_written_the_same() -> None:
    found = read_partitions(DESIGNATED, "p.json")

    assert found.designated == {TopicPartition("foo", 1): 0, TopicPartition("foobar", 2): 1}
    assert write_designated(found.designated) == DESIGNATED


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '{"partitions": [\n  {topic: "foo", "partitions": [0]}]}',
            "line 2, column 4: not JSON: Expecting",
        ),
        ("", "line 1, column 1: not JSON: Expecting value"),
        ("\ufeff{}", "not JSON"),
        ("[" * 100_000, "is nested too deeply"),
        ('{"partitions": [NaN]}', "NaN is not a number in JSON"),
        (f'{{"partitions": [{"9" * 5000}]}}', "integer string conversion"),
        ('{"partitions": [], "partitions": []}', 'the key "partitions" stands twice in one object'),
        (" " * (LARGEST_FILE + 1), f"at most {LARGEST_FILE} are read"),
        ("[]", "document: must be an object"),
        ("{}", "partitions: must be a list with at least one entry"),
        ('{"partitions": []}', "partitions: must be a list with at least one entry"),
        ('{"partitions": {}}', "partitions: must be a list with at least one entry"),
        ('{"partitions": [0]}', "partitions[0]: must be an object such as"),
        (
            '{"partitions": [{"topic": "a", "partitions": []}]}',
            "partitions[0].partitions: must be a list",
        ),
        ('{"partitions": [{"topic": "a", "partitions": 3}]}', "partitions[0].partitions: must be a list"),
        (
            '{"partitions": [{"topic": "a", "partitions": [-1]}]}',
            "partitions[0].partitions[0]: must be a",
        ),
        ('{"partitions": [{"topic": "a", "partitions": [2147483648]}]}', "from 0 to 2147483647 (got 2147483648)"),
        ('{"partitions": [{"topic": "a", "partitions": [true]}]}', "(got true)"),
        ('{"partitions": [{"topic": "a", "partitions": ["0"]}]}', '(got "0")'),
        ('{"partitions": [{"topic": "a", "partitions": [1.0]}]}', "(got 1.0)"),
        ('{"partitions": [{"partitions": [0]}]}', "partitions[0].topic: is missing"),
        ('{"partitions": [{"topic": 7, "partitions": [0]}]}', "partitions[0].topic: must be text"),
        ('{"partitions": [{"topic": "..", "partitions": [0]}]}', "partitions[0].topic: is reserved"),
        ('{"partitions": [{"topic": "a\\u001b[31m", "partitions": [0]}]}', "has characters other than letters"),
        (
            '{"partitions": [{"topic": "a", "partitions": [0, 0]}]}',
            "partitions[1]: a-0 is named twice",
        ),
        ('{"partitions": [{"topic": "a", "partition": 0}]}', "partitions[0].designatedLeader: is missing"),
        ('{"partitions": [{"topic": "a", "partition": 0, "designatedLeader": -1}]}', "must be a broker id"),
        (
            '{"partitions": [{"topic": "a", "partitions": [0], "leader": 1}]}',
            'partitions[0]."leader": is an',
        ),
        ('{"partitions": [{"topic": "a", "partitions": [0]}], "version": 1}', '"version": is an unknown key'),
    ],
)
def test_a_file_with_a_mistake_is_refused(text: str, problem: str) -> None:
    assert any(problem in line for line in problems(text))


def test_a_partition_with_two_leaders_is_named() -> None:
    twice = '{"topic": "a", "partition": 0, "designatedLeader": 1}'

    assert problems(f'{{"partitions": [{twice}, {twice}]}}') == [
        "partitions[1]: a-0 is named twice, first at partitions[0]"
    ]


def test_both_forms_in_one_file_are_refused() -> None:
    listed, designated = '{"topic": "a", "partitions": [0]}', '{"topic": "b", "partition": 0, "designatedLeader": 1}'

    assert problems(f'{{"partitions": [{listed}, {designated}]}}') == [
        "partitions: mixes two forms (partitions[0] lists partitions, partitions[1] designates a leader); "
        "use one of them in a file"
    ]


def test_of_many_problems_the_first_are_shown_and_the_others_counted() -> None:
    found = problems(json.dumps({"partitions": [{"topic": "a", "partitions": [-1] * 50}]}))

    assert len(found) == 21
    assert found[-1] == "and 30 more problems"


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "_", "...", "a" * 249])
def test_a_name_kafka_accepts_is_accepted(name: str) -> None:
    assert topic_name_problem(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a\n", "ä", "a/b", "a" * 250])
def test_a_name_kafka_refuses_is_refused(name: str) -> None:
    assert topic_name_problem(name)


TOPICS = st.text(alphabet="abcXYZ019._-", min_size=1, max_size=249).filter(lambda name: name not in (".", ".."))
NUMBERS = st.integers(0, 2**31 - 1)
LEADERS = st.dictionaries(st.builds(TopicPartition, TOPICS, NUMBERS), st.builds(BrokerId, NUMBERS), min_size=1)


@given(LEADERS)
def test_what_is_written_is_read_back(leaders: dict[TopicPartition, BrokerId]) -> None:
    found = read_partitions(write_designated(leaders), "p.json")

    assert found.designated == leaders
    assert found.partitions == tuple(leaders)


KEYS = st.sampled_from(["partitions", "topic", "partition", "designatedLeader"]) | st.text(max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("orders"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
)


@given(JSON, st.lists(JSON, max_size=3))
def test_no_document_breaks_the_reader(document: object, entries: list[object]) -> None:
    for tried in (document, {"partitions": entries}):
        try:
            read_partitions(json.dumps(tried), "fuzz.json")
        except InvalidDocument as refusal:
            assert str(refusal).startswith("fuzz.json: ")  # noqa: PT017 - any document may also be a good one


@given(st.text(alphabet=st.sampled_from('{}[]":,0e9-.ntf\\u \n\ud800'), max_size=100))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        read_partitions(text, "fuzz.json")
    except InvalidDocument as refusal:
        assert str(refusal).startswith("fuzz.json: ")  # noqa: PT017
