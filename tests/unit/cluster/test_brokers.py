"""Asking brokers: versions, fields that would be lost, what is tried again and what never is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from kafka_recovery.cluster.brokers import CONNECTIONS_PER_BROKER, Address, Brokers
from kafka_recovery.cluster.errors import (
    BrokerTimeout,
    BrokerUnreachable,
    ConnectionsClosed,
    InvalidAnswer,
    NotSent,
    Unanswered,
    UnsupportedRequest,
)
from kafka_recovery.cluster.security import PLAINTEXT
from unit.cluster.stage import Heard, StagedBroker, api_versions, understood, versions

PATIENCE = timedelta(seconds=10)
SOON = timedelta(milliseconds=150)
METADATA = MetadataRequest(topics=[])
LIST_OFFSETS = ListOffsetsRequest(replica_id=-2, topics=[])
ANY = (0, 99)


def answer_metadata(heard: Heard) -> Any:
    return MetadataResponse(cluster_id=f"asked-over-{heard.connection}", brokers=[], topics=[], controller_id=1)


def answer_offsets(heard: Heard) -> Any:
    return ListOffsetsResponse(topics=[])


def cut(heard: Heard) -> None:
    heard.cut()


def elect(*partitions: int, topic: str = "orders") -> Any:
    kind = ElectLeadersRequest.TopicPartitions
    return ElectLeadersRequest(election_type=1, topic_partitions=[kind(topic=topic, partitions=list(partitions))])


def reorder() -> Any:
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    return AlterPartitionReassignmentsRequest(topics=[topic(name="orders", partitions=[])])


async def abandoned(*waiting: asyncio.Task[Any]) -> None:
    """Nobody waits for these any more."""
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    async with Brokers(PLAINTEXT) as brokers:
        yield brokers


@pytest.fixture
def nobody() -> Address:
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as briefly:
        return Address(*briefly.getsockname())


class TestVersions:
    async def test_a_request_goes_out_in_the_highest_version_both_sides_speak(self, brokers: Brokers) -> None:
        async with StagedBroker({"Metadata": answer_metadata, "ApiVersions": versions(Metadata=7)}) as broker:
            await brokers.ask(broker.address, METADATA, ANY, PATIENCE)
            await brokers.ask(broker.address, METADATA, (0, 5), PATIENCE)

            assert [heard.version for heard in broker.heard if heard.name == "Metadata"] == [7, 5]
            assert await brokers.version_for(broker.address, MetadataRequest, (1, 6), PATIENCE) == 6

    async def test_without_a_common_version_nothing_is_sent(self, brokers: Brokers) -> None:
        async with StagedBroker({"ApiVersions": versions(Metadata=3, Fetch=-1)}) as broker:
            with pytest.raises(UnsupportedRequest, match=r"Metadata .*offers v0 to v3, v9 to v12 is needed"):
                await brokers.ask(broker.address, METADATA, (9, 12), PATIENCE)
            with pytest.raises(UnsupportedRequest, match=r"Fetch .*does not offer it"):
                await brokers.ask(broker.address, FetchRequest(topics=[]), ANY, PATIENCE)

            assert broker.names() == []

    async def test_an_older_broker_is_asked_for_its_versions_as_it_understands(self, brokers: Brokers) -> None:
        """KIP-511: Kafka 3.7 answers v4 with error 35, in v0, and names v3."""

        def older(heard: Heard) -> Any:
            if heard.version > 3:
                return heard.frame(api_versions({18: 3}, error_code=35), version=0)
            return api_versions({3: 12, 18: 3}, finalized_features_epoch=17)

        async with StagedBroker({"ApiVersions": older, "Metadata": answer_metadata}) as broker:
            await brokers.ask(broker.address, METADATA, ANY, PATIENCE)

            assert (await brokers.api_versions(broker.address, PATIENCE)).finalized_features_epoch == 17

    async def test_a_broker_that_names_no_version_of_api_versions_is_asked_in_the_first(self, brokers: Brokers) -> None:
        def ancient(heard: Heard) -> Any:
            if heard.version > 0:
                return heard.frame(api_versions({}, error_code=35), version=0)
            return api_versions({3: 1, 18: 0})

        async with StagedBroker({"ApiVersions": ancient, "Metadata": answer_metadata}) as broker:
            answer = await brokers.ask(broker.address, METADATA, ANY, PATIENCE)

            assert answer.controller_id == 1
            assert (await brokers.api_versions(broker.address, PATIENCE)).finalized_features_epoch is None

    async def test_what_a_broker_says_of_itself_is_never_from_memory(self, brokers: Brokers) -> None:
        """The applied metadata offset tells a broker that is cut off from one that is not."""
        applied = iter(range(100, 200))

        def role(heard: Heard) -> Any:
            feature = api_versions({}).FinalizedFeatureKey
            elr = feature(name="eligible.leader.replicas.version", max_version_level=1, min_version_level=1)
            return api_versions({18: 4}, finalized_features_epoch=next(applied), finalized_features=[elr])

        async with StagedBroker({"ApiVersions": role}) as broker:
            first = await brokers.api_versions(broker.address, PATIENCE)
            second = await brokers.api_versions(broker.address, PATIENCE)

        assert first.finalized_features == {"eligible.leader.replicas.version": 1}
        assert first.max_versions == {18: 4}
        assert (first.finalized_features_epoch, second.finalized_features_epoch) == (101, 102)

    async def test_an_error_for_an_answer_to_api_versions_is_no_answer(self, brokers: Brokers) -> None:
        def fail(heard: Heard) -> Any:
            return heard.frame(api_versions({}, error_code=-1), version=0)

        async with StagedBroker({"ApiVersions": fail}) as broker:
            with pytest.raises(InvalidAnswer, match="UNKNOWN"):
                await brokers.ask(broker.address, METADATA, ANY, PATIENCE)


def fetch(**fields: Any) -> Any:
    return FetchRequest(max_wait_ms=0, min_bytes=0, **fields)


def fetch_of(**fields: Any) -> Any:
    partition = FetchRequest.FetchTopic.FetchPartition(partition=3, fetch_offset=0, partition_max_bytes=1, **fields)
    return fetch(topics=[FetchRequest.FetchTopic(topic="orders", partitions=[partition])])


STATE = FetchRequest.ReplicaState(replica_id=-3, replica_epoch=-1)
BLANK_STATE = FetchRequest.ReplicaState(replica_id=-1, replica_epoch=-1)
UNKNOWN_TAG = FetchRequest(topics=[], _42=b"tagged")


class TestLostFields:
    @pytest.mark.parametrize(
        ("request_", "version", "field"),
        [
            (fetch(replica_state=STATE, topics=[]), 14, "replica_state"),
            (fetch(replica_id=-3, topics=[]), 15, "replica_id"),
            (fetch(session_id=7, topics=[]), 6, "session_id"),
            (fetch(cluster_id="c", topics=[]), 11, "cluster_id"),
            (fetch(topics=None), 12, "topics"),
            (fetch_of(last_fetched_epoch=5), 11, r"topics\.partitions\.last_fetched_epoch"),
            (fetch_of(), 13, r"topics\.topic"),
            (UNKNOWN_TAG, 12, "_42"),
            (ListOffsetsRequest(replica_id=-2, topics=[], timeout_ms=100), 9, "timeout_ms"),
            (elect(1), 0, "election_type"),
        ],
    )
    async def test_a_field_that_the_version_would_drop_is_named_and_nothing_is_sent(
        self, brokers: Brokers, request_: Any, version: int, field: str
    ) -> None:
        async with StagedBroker() as broker:
            with pytest.raises(UnsupportedRequest, match=rf"v{version} can't carry {field} as it is set"):
                await brokers.ask(broker.address, request_, (version, version), PATIENCE)

            assert broker.names() == []

    @pytest.mark.parametrize(
        ("request_", "version", "arrives"),
        [
            (fetch(replica_state=STATE, topics=[]), 15, lambda heard: heard.replica_state.replica_id == -3),
            (fetch(replica_state=BLANK_STATE, topics=[]), 14, lambda heard: heard.replica_id == -1),
            (fetch(replica_id=-3, topics=[]), 14, lambda heard: heard.replica_id == -3),
            (fetch_of(last_fetched_epoch=5), 12, lambda heard: heard.topics[0].partitions[0].last_fetched_epoch == 5),
            (ListOffsetsRequest(replica_id=-2, topics=[], timeout_ms=0), 9, lambda heard: heard.replica_id == -2),
        ],
    )
    async def test_what_the_version_carries_arrives(
        self, brokers: Brokers, request_: Any, version: int, arrives: Callable[[Any], bool]
    ) -> None:
        async with StagedBroker() as broker:
            with pytest.raises(BrokerTimeout):
                await brokers.ask(broker.address, request_, (version, version), SOON)

            assert broker.heard[-1].version == version
            assert arrives(broker.heard[-1].message)

    async def test_only_what_is_declared_ignorable_is_dropped(self, brokers: Brokers) -> None:
        async with StagedBroker({"ListOffsets": answer_offsets}) as broker:
            asked = ListOffsetsRequest(replica_id=-2, topics=[], timeout_ms=100)
            await brokers.ask(broker.address, asked, (9, 9), PATIENCE, ignorable={"timeout_ms"})

            assert broker.names() == ["ListOffsets"]

    async def test_items_whose_fields_shift_with_the_version_are_the_callers_mistake(self, brokers: Brokers) -> None:
        async with StagedBroker() as broker:
            with pytest.raises(TypeError, match="ListOffsetsTopic"):
                await brokers.ask(
                    broker.address, ListOffsetsRequest(replica_id=-2, topics=[("orders", [])]), ANY, PATIENCE
                )


class TestElectingEverything:
    @pytest.mark.parametrize(
        "request_",
        [
            ElectLeadersRequest(election_type=1, topic_partitions=None),
            ElectLeadersRequest(election_type=1, topic_partitions=[]),
            ElectLeadersRequest(election_type=1),
            elect(),
        ],
    )
    @pytest.mark.parametrize("idempotent", [True, False])
    async def test_an_election_that_names_no_partition_never_leaves(
        self, brokers: Brokers, request_: Any, idempotent: bool
    ) -> None:
        async with StagedBroker() as broker:
            with pytest.raises(UnsupportedRequest, match="must name its partitions"):
                await brokers.ask(broker.address, request_, ANY, PATIENCE, idempotent=idempotent)

            assert broker.connections == 0


class TestReads:
    async def test_connections_are_reused(self, brokers: Brokers) -> None:
        async with StagedBroker({"Metadata": answer_metadata}) as broker:
            over = {(await brokers.ask(broker.address, METADATA, ANY, PATIENCE)).cluster_id for _ in range(5)}

            assert over == {"asked-over-1"}
            assert [heard.name for heard in broker.heard].count("ApiVersions") == 1

    async def test_a_read_is_tried_again_when_its_connection_breaks(self, brokers: Brokers) -> None:
        def third_time_lucky(heard: Heard) -> Any:
            return answer_metadata(heard) if heard.connection == 3 else heard.cut()

        async with StagedBroker({"Metadata": third_time_lucky}) as broker:
            answer = await brokers.ask(broker.address, METADATA, ANY, PATIENCE)

        assert answer.cluster_id == "asked-over-3"

    async def test_a_connection_that_broke_while_idle_is_not_used(self, brokers: Brokers) -> None:
        async with StagedBroker({"Metadata": answer_metadata}) as broker:
            await brokers.ask(broker.address, METADATA, ANY, PATIENCE)
            broker.heard[-1].cut()
            answer = await brokers.ask(broker.address, METADATA, ANY, PATIENCE)

        assert answer.cluster_id == "asked-over-2"

    async def test_a_refused_connection_says_how_often_it_was_tried(self, brokers: Brokers, nobody: Address) -> None:
        with pytest.raises(
            BrokerUnreachable, match=rf"{nobody}: connection refused \(3 attempts in \d\.\d+s\)"
        ) as refusal:
            await brokers.ask(nobody, METADATA, ANY, PATIENCE)

        assert refusal.value.reason.code == "BrokerUnreachable"

    async def test_a_silent_broker_is_said_to_be_silent_and_for_how_long(self, brokers: Brokers) -> None:
        async with StagedBroker() as broker:
            with pytest.raises(BrokerTimeout, match=r"did not answer Metadata within 0.15s") as silence:
                await brokers.ask(broker.address, METADATA, ANY, SOON)

        assert silence.value.waited == SOON
        assert silence.value.reason.code == "BrokerTimeout"

    async def test_a_broker_that_accepts_and_never_speaks_is_silent_as_well(self, brokers: Brokers) -> None:
        async with StagedBroker({"ApiVersions": lambda heard: None}) as broker:
            with pytest.raises(BrokerTimeout, match=r"did not answer within 0.15s"):
                await brokers.ask(broker.address, METADATA, ANY, SOON)

    async def test_a_black_hole_holds_up_nobody_who_asks_another_broker(self, brokers: Brokers) -> None:
        async with StagedBroker() as hole, StagedBroker({"Metadata": answer_metadata}) as good:
            lost = [asyncio.create_task(brokers.ask(hole.address, METADATA, ANY, PATIENCE)) for _ in range(20)]
            await asyncio.wait_for(brokers.ask(good.address, METADATA, ANY, PATIENCE), 2)

            assert not any(task.done() for task in lost)
            await abandoned(*lost)

    async def test_a_slow_request_does_not_hold_up_others_to_the_same_broker(self, brokers: Brokers) -> None:
        """A broker without a controller takes 60 s for what it forwards, and answers the rest at once."""
        async with StagedBroker({"Metadata": answer_metadata}) as broker:
            slow = asyncio.create_task(brokers.ask(broker.address, LIST_OFFSETS, ANY, PATIENCE))
            await broker.hears("ListOffsets")

            await asyncio.wait_for(brokers.ask(broker.address, METADATA, ANY, PATIENCE), 2)

            await abandoned(slow)

    async def test_connections_that_are_stuck_are_replaced(self, brokers: Brokers) -> None:
        async with StagedBroker({"Metadata": answer_metadata}) as broker:
            asked = [brokers.ask(broker.address, LIST_OFFSETS, ANY, PATIENCE) for _ in range(CONNECTIONS_PER_BROKER)]
            stuck = [asyncio.create_task(ask) for ask in asked]
            await broker.hears("ListOffsets", CONNECTIONS_PER_BROKER)
            await abandoned(*stuck)

            answer = await brokers.ask(broker.address, METADATA, ANY, PATIENCE)

            assert answer.cluster_id == f"asked-over-{CONNECTIONS_PER_BROKER + 1}"

    async def test_closing_ends_who_waits_and_nothing_can_be_asked_after(self, brokers: Brokers) -> None:
        async with StagedBroker() as broker:
            waiting = asyncio.create_task(brokers.ask(broker.address, METADATA, ANY, PATIENCE))
            await broker.hears("Metadata")
            await brokers.aclose()

            with pytest.raises(ConnectionsClosed):
                await waiting
            with pytest.raises(ConnectionsClosed):
                await brokers.ask(broker.address, METADATA, ANY, PATIENCE)

    async def test_closing_does_not_wait_for_a_connection_that_never_comes(self, brokers: Brokers) -> None:
        async with StagedBroker({"ApiVersions": lambda heard: None}) as broker:
            waiting = asyncio.create_task(brokers.ask(broker.address, METADATA, ANY, PATIENCE))
            await broker.hears("ApiVersions")
            await asyncio.wait_for(brokers.aclose(), 2)

            with pytest.raises(ConnectionsClosed):
                await waiting


CHANGES = [elect(1), reorder()]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
class TestChanges:
    """What may be sent at most once; saying `idempotent` does not help."""

    async def test_an_answer_is_an_answer(self, brokers: Brokers, change: Any) -> None:
        roles = {
            "ElectLeaders": lambda heard: ElectLeadersResponse(replica_election_results=[], error_code=0),
            "AlterPartitionReassignments": lambda heard: AlterPartitionReassignmentsResponse(
                responses=[], error_code=0
            ),
        }
        async with StagedBroker(roles) as broker:
            assert (await brokers.ask(broker.address, change, ANY, PATIENCE)).error_code == 0

    async def test_cut_off_after_it_was_written_it_may_have_taken_effect(self, brokers: Brokers, change: Any) -> None:
        async with StagedBroker({"ElectLeaders": cut, "AlterPartitionReassignments": cut}) as broker:
            with pytest.raises(Unanswered, match=r"was sent and may still take effect: .*closed|reset") as unknown:
                await brokers.ask(broker.address, change, ANY, PATIENCE)

            assert isinstance(unknown.value.why, BrokerUnreachable)
            assert len(broker.names()) == 1

    async def test_silence_leaves_it_unknown_too(self, brokers: Brokers, change: Any) -> None:
        async with StagedBroker() as broker:
            with pytest.raises(Unanswered, match=r"within 0.15s") as unknown:
                await brokers.ask(broker.address, change, ANY, SOON)

            assert isinstance(unknown.value.why, BrokerTimeout)
            assert len(broker.names()) == 1

    async def test_an_answer_that_can_not_be_read_leaves_it_unknown_too(self, brokers: Brokers, change: Any) -> None:
        def babble(heard: Heard) -> bytes:
            return heard.frame(ListOffsetsResponse(topics=[]), version=1) + b"?"

        async with StagedBroker({"ElectLeaders": babble, "AlterPartitionReassignments": babble}) as broker:
            with pytest.raises(Unanswered) as unknown:
                await brokers.ask(broker.address, change, ANY, PATIENCE)

        assert isinstance(unknown.value.why, InvalidAnswer)

    async def test_without_a_connection_it_was_certainly_not_sent(
        self, brokers: Brokers, change: Any, nobody: Address
    ) -> None:
        with pytest.raises(NotSent, match=r"was not sent: .*refused"):
            await brokers.ask(nobody, change, ANY, PATIENCE)

    async def test_a_broker_that_does_not_even_tell_its_versions_was_certainly_not_sent_it(
        self, brokers: Brokers, change: Any
    ) -> None:
        async with StagedBroker({"ApiVersions": lambda heard: None}) as broker:
            with pytest.raises(NotSent, match=r"did not answer within 0.15s"):
                await brokers.ask(broker.address, change, ANY, SOON)

    async def test_a_broker_too_old_for_it_is_not_sent_it(self, brokers: Brokers, change: Any) -> None:
        async with StagedBroker({"ApiVersions": versions(ElectLeaders=-1, AlterPartitionReassignments=-1)}) as broker:
            with pytest.raises(UnsupportedRequest):
                await brokers.ask(broker.address, change, ANY, PATIENCE)

            assert broker.names() == []

    async def test_closing_in_the_middle_leaves_it_unknown_too(self, brokers: Brokers, change: Any) -> None:
        async with StagedBroker() as broker:
            waiting = asyncio.create_task(brokers.ask(broker.address, change, ANY, PATIENCE))
            await broker.hears(change.name.removesuffix("Request"))
            await brokers.aclose()

            with pytest.raises(Unanswered, match="closed by this side"):
                await waiting

    @pytest.mark.kernel
    async def test_what_was_given_up_is_not_sent_on_by_the_kernel(self, brokers: Brokers, change: Any) -> None:
        """A network that comes back after minutes would carry it to the broker then: the connection is reset."""
        ended: asyncio.Queue[BaseException | bytes] = asyncio.Queue()

        async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            broker = StagedBroker()
            try:
                while True:
                    size = int.from_bytes(await reader.readexactly(4), "big")
                    heard = understood(await reader.readexactly(size), writer)
                    if heard.name == "ApiVersions":
                        heard.say(heard.frame(broker.roles["ApiVersions"](heard)))
            except (OSError, asyncio.IncompleteReadError) as end:
                ended.put_nowait(end)

        server = await asyncio.start_server(peer, "127.0.0.1", 0)
        async with server:
            with pytest.raises(Unanswered):
                await brokers.ask(Address(*server.sockets[0].getsockname()[:2]), change, ANY, SOON, idempotent=False)
            assert isinstance(await ended.get(), ConnectionResetError)

    async def test_it_goes_over_a_connection_of_its_own(self, brokers: Brokers, change: Any) -> None:
        """The broker may just have closed an idle connection: written there, its fate would be unknown."""
        async with StagedBroker({"Metadata": answer_metadata}) as broker:
            await brokers.ask(broker.address, METADATA, ANY, PATIENCE)
            with pytest.raises(Unanswered):
                await brokers.ask(broker.address, change, ANY, SOON)

            assert [heard.connection for heard in broker.heard if heard.name != "ApiVersions"] == [1, 2]
