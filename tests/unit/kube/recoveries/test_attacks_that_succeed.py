"""PROOFS OF CONCEPT: what an editor of the namespace still achieves. Each test states the harm that is done today.

Not to be merged as they are: whoever mends one turns its last assertions round.
"""

from __future__ import annotations

import asyncio

import pytest

from kafka_recovery.kube.journal import config_maps
from kafka_recovery.kube.recoveries.status import Phase
from unit.kube.journal.journals import CONFIG_MAPS, NAME, NAMESPACE
from unit.kube.operated import Going, Operated, died, story
from unit.recovery.world import ORDERS, crash


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_maps, "BLANK", 0.0)


def squat(operated: Operated, name: str) -> None:
    """A ConfigMap without any label: the admission policy of journals is not asked about it."""
    operated.api.objects[f"{CONFIG_MAPS}/{name}"] = {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": "squatter",
            "resourceVersion": "1",
            "creationTimestamp": "2026-11-21T12:00:00Z",
        }
    }


def test_with_the_policy_a_squatted_name_keeps_an_order_altered(automatic: Operated) -> None:
    """Names of facts can be worked out; an unlabelled ConfigMap of that name is free, and stops `put_back`."""

    async def tell() -> Going:
        automatic.world.after("elect", crash)
        await died(automatic)
        (digest,) = automatic.api.recovery()["status"]["begun"]["plans"]
        squat(automatic, f"{NAME}-{digest[:16]}-wave-0002-started")
        going = Going(automatic.process())
        await going.until(Phase.STUCK)
        await asyncio.sleep(600)
        return going

    assert story(tell).run.progress.reason.code == "JournalDamaged"
    assert automatic.world.unrestored() == [ORDERS]


def test_with_the_policy_a_squatted_name_keeps_an_approved_plan_from_being_begun(by_hand: Operated) -> None:
    async def tell() -> Going:
        going = Going(by_hand.process())
        await going.until(Phase.AWAITING_APPROVAL)
        squat(by_hand, f"{NAME}-{going.digest[:16]}-begun")
        by_hand.api.approve(going.digest)
        await going.until(Phase.STUCK)
        await asyncio.sleep(600)
        return going

    assert story(tell).run.progress.reason.code == "JournalDamaged"
    assert by_hand.world.leader() is None
