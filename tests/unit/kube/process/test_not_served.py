"""A kind that the API server does not serve now says nothing about its objects: nobody takes it for a deletion."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from kafka_recovery.kube.machinery.api import NotFound, NotServed, Object
from kafka_recovery.kube.resources.kinds import RECOVERIES
from unit.kube.journal.journals import NAME
from unit.kube.office import Office
from unit.kube.our_objects import PROD, OurObjects
from unit.kube.staged_server import Answer, object_, refusal, staged
from unit.recovery.world import ORDERS
from unit.virtual import taking_no_time

PATH = RECOVERIES.path("kafka", "orders-1")
PLAIN = object_("404 page not found", 404)
IN_WORDS = refusal(404, "NotFound", "the server could not find the requested resource")


class WithoutRecoveries(OurObjects):
    """Somebody deleted our definitions."""

    async def get(self, path: str, *, deadline: timedelta | None = None) -> Object:
        if "/partitionrecoveries/" in path:
            raise NotServed(404, "NotServed", f"the API server does not know {path}", path)
        return await super().get(path, deadline=deadline)


@pytest.mark.parametrize("answer", [PLAIN, IN_WORDS], ids=["plain", "as a proxy words it"])
async def test_it_is_told_from_an_object_that_is_not_there(answer: Answer) -> None:
    async with staged(answer) as (api, server):
        with pytest.raises(NotServed, match="CustomResourceDefinition") as caught:
            await api.get(PATH)
        with pytest.raises(NotServed):
            await api.delete(PATH)

    assert not isinstance(caught.value, NotFound)
    assert len(server.asked) == 2, "it was tried again: whoever asks decides when"


async def test_a_group_that_is_not_served_is_not_found() -> None:
    """Strimzi's, for one: there the group itself is what is asked for."""
    async with staged(PLAIN) as (api, _):
        with pytest.raises(NotFound):
            await api.get("/apis/kafka.strimzi.io")


@taking_no_time
async def test_a_recovery_that_awaits_a_person_is_still_there_when_its_kind_is_served_again(
    asking_office: Office,
) -> None:
    before = (await asking_office.asks())["plan"]["digest"]
    asking_office.api.__class__ = WithoutRecoveries
    for _ in range(20):
        asking_office.see()
        await asyncio.sleep(1)
    asking_office.api.__class__ = OurObjects
    await asyncio.sleep(90)
    after = (await asking_office.until("AwaitingApproval"))["plan"]["digest"]

    assert before == after
    assert asking_office.all.claims(PROD) == {ORDERS: NAME}
