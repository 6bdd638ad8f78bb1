"""Whatever a controller sends, reading it ends, in a doubt or in what the whole log says."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_recovery.cluster.codec import Unreadable
from kafka_recovery.cluster.metadata_log import batches
from kafka_recovery.cluster.metadata_log.image import Image
from kafka_recovery.cluster.metadata_log.records import READ, read
from unit.cluster.metadata_log.writing import ORDERS, A, B, batch, changed, created, registered
from unit.examples import examples

LOG = created()
LOG.add(changed(isr=[A, B]))
LOG.add(registered(A, LOG.end), changed(isr=[A], leader=A))
VALUES = [value for each in batches.read(LOG.data) for _, value in each.values]


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_records_with_bytes_changed_are_read_as_they_were_or_not_at_all(data: st.DataObject) -> None:
    """A batch's offset and epoch stand before what its checksum covers: a gap between offsets tells."""
    spoilt = bytearray(LOG.data)
    for place in data.draw(st.lists(st.integers(0, len(spoilt) - 1), min_size=1, max_size=3)):
        spoilt[place] = data.draw(st.integers(0, 255))
    found = []
    try:
        for each in batches.read(bytes(spoilt)):
            found += [value for _, value in each.values]
    except Unreadable:
        pass
    assert set(found) <= set(VALUES)


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(sorted(READ)), st.integers(0, 4), st.binary(max_size=60))
def test_a_record_of_any_bytes_is_read_or_refused(key: int, version: int, body: bytes) -> None:
    try:
        read(bytes((1, key, version)) + body)
    except Unreadable:
        return


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.sampled_from(VALUES) | st.binary(max_size=40), max_size=8))
def test_records_in_any_order_leave_an_image_or_a_doubt(values: list[bytes]) -> None:
    image = Image()
    for place, value in enumerate(values):
        for each in batches.read(batch(place, [value], 1_000_000, 1)):
            image.apply(each)
    assert image.upto == len(values)
    history = image.history(ORDERS, 0)
    assert history is None or image.doubt is None
