"""The controllers' metadata log over the wire: folded, it says what the model's controller knows."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

import pytest
from kafka.protocol.admin import DescribeClusterRequest, DescribeQuorumRequest
from kafka.protocol.consumer import FetchRequest
from kafka.record.memory_records import MemoryRecords

from kafka_recovery.cluster.metadata_log.messages import FetchSnapshotRequest
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.simulator.model.grants import Operation
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.requests import ElectionType
from unit.simulator.wire.asking import Client, fetch

METADATA = uuid.UUID(int=1)
CONTROL = 0x20
LISTS = ("isr", "leader", "replicas", "removing", "adding", "recovering", "elr", "last_known_elr", "directories")
"""PartitionChangeRecord's tagged fields by their tags."""


@dataclass
class Bytes:
    """A record's value, read from its start; apart from what writes it."""

    data: bytes
    at: int = 0

    def fixed(self, size: int, *, signed: bool = True) -> int:
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], signed=signed)

    def varint(self) -> int:
        found = shift = 0
        while True:
            byte = self.fixed(1, signed=False)
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found

    def raw(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self) -> str | None:
        size = self.varint() - 1
        return None if size < 0 else self.raw(size).decode()

    def ints(self) -> list[int]:
        return [self.fixed(4) for _ in range(self.varint() - 1)]

    def uuids(self) -> list[uuid.UUID]:
        return [uuid.UUID(bytes=self.raw(16)) for _ in range(self.varint() - 1)]

    def tags(self) -> dict[int, Bytes]:
        return {self.varint(): Bytes(self.raw(self.varint())) for _ in range(self.varint())}


@dataclass
class Fold:
    """What a reader of the log knows: brokers, topics, configs, partitions."""

    brokers: dict[int, dict[str, Any]] = field(default_factory=dict)
    topics: dict[str, uuid.UUID] = field(default_factory=dict)
    configs: dict[tuple[str, str], str] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    partitions: dict[tuple[uuid.UUID, int], dict[str, Any]] = field(default_factory=dict)
    keys: list[int] = field(default_factory=list)

    def add(self, value: bytes, offset: int) -> None:
        """One record. Raises if anything of it is left over."""
        data = Bytes(value)
        frame, key, version = data.varint(), data.varint(), data.varint()
        assert frame == 1
        self.keys.append(key)
        getattr(self, f"_{key}")(data, version, offset)
        assert data.at == len(value), key

    def _0(self, data: Bytes, version: int, offset: int) -> None:
        assert version == 3
        broker = data.fixed(4)
        data.fixed(1)
        known = {"incarnation": data.raw(16), "epoch": data.fixed(8)}
        assert known["epoch"] == offset
        for _ in range(data.varint() - 1):
            known |= {"listener": data.text(), "host": data.text(), "port": data.fixed(2, signed=False)}
            data.fixed(2)
            data.tags()
        assert data.varint() == 1
        known |= {"rack": data.text(), "fenced": bool(data.fixed(1)), "stopping": bool(data.fixed(1))}
        self.brokers[broker] = known | {"directories": data.tags()[0].uuids()}

    def _2(self, data: Bytes, _: int, __: int) -> None:
        name = data.text()
        assert name is not None
        self.topics[name] = uuid.UUID(bytes=data.raw(16))
        data.tags()

    def _3(self, data: Bytes, version: int, _: int) -> None:
        index, topic = data.fixed(4), uuid.UUID(bytes=data.raw(16))
        state: dict[str, Any] = {name: data.ints() for name in ("replicas", "isr", "removing", "adding")}
        state |= {"leader": data.fixed(4), "leader_epoch": data.fixed(4), "partition_epoch": data.fixed(4)}
        state |= {"directories": data.uuids(), "elr": [], "last_known_elr": [], "recovering": 0}
        tags = data.tags()
        state |= {"recovering": tags[0].fixed(1)} if 0 in tags else {}
        state |= {name: tags[tag].ints() for tag, name in ((1, "elr"), (2, "last_known_elr")) if tag in tags}
        assert version == 2 or not {1, 2} & set(tags)
        self.partitions[topic, index] = state

    def _4(self, data: Bytes, _: int, __: int) -> None:
        assert data.fixed(1) == 2
        topic, name, value = data.text(), data.text(), data.text()
        data.tags()
        self.configs[str(topic), str(name)] = str(value)

    def _5(self, data: Bytes, _: int, __: int) -> None:
        index, topic = data.fixed(4), uuid.UUID(bytes=data.raw(16))
        state, tags = self.partitions[topic, index], data.tags()
        for tag, said in tags.items():
            name = LISTS[tag]
            widths = {"leader": 4, "recovering": 1}
            reads = said.uuids if name == "directories" else said.ints
            state[name] = said.fixed(widths[name]) if name in widths else reads()
        state["leader_epoch"] += 1 in tags
        state["partition_epoch"] += 1

    def _9(self, data: Bytes, _: int, __: int) -> None:
        gone = uuid.UUID(bytes=data.raw(16))
        data.tags()
        self.topics = {name: id for name, id in self.topics.items() if id != gone}
        self.partitions = {key: state for key, state in self.partitions.items() if key[0] != gone}

    def _12(self, data: Bytes, _: int, __: int) -> None:
        name = str(data.text())
        self.features[name] = data.fixed(2)
        data.tags()

    def _17(self, data: Bytes, version: int, _: int) -> None:
        known, epoch, tags = self.brokers[data.fixed(4)], data.fixed(8), data.tags()
        assert known["epoch"] == epoch
        assert version == int(1 in tags)
        if 0 in tags:
            known["fenced"] = tags[0].fixed(1) == 1
        if 1 in tags:
            known["stopping"] = tags[1].fixed(1) == 1

    def _20(self, data: Bytes, _: int, __: int) -> None:
        data.tags()

    def _28(self, data: Bytes, _: int, __: int) -> None:
        topic = self.topics[str(data.text())]
        data.tags()
        for (id, _index), state in self.partitions.items():
            if id == topic:
                state |= {"elr": [], "last_known_elr": []}


def wanted(
    offset: int, last_epoch: int, epoch: int = 1, *, cluster: str | None = None, topic: uuid.UUID = METADATA,
    wait: int = 0, room: int = 2**20,
) -> FetchRequest:  # fmt: skip
    """A Fetch of the log from here on."""
    return fetch(offset, epoch=epoch, last_epoch=last_epoch, wait=wait, room=room, cluster=cluster, topic_id=topic)


def one(answer: Any) -> Any:
    """What is said of the one partition."""
    ((part,),) = [topic.partitions for topic in answer.responses]
    return part


def read_from(client: Client, offset: int = 0, *, room: int = 2**20) -> tuple[Fold, int]:
    """The log folded, and where it ends."""
    fold, last_epoch = Fold(), 0
    while True:
        epoch = client.kafka.controllers.log.epoch
        part = one(client.ask(wanted(offset, last_epoch, epoch, room=room), 17))
        assert part.error_code == 0
        assert part.diverging_epoch is None or part.diverging_epoch.epoch < 0
        records = MemoryRecords(part.records)
        if not records.has_next():
            return fold, offset
        while (batch := records.next_batch()) is not None:
            assert batch.validate_crc()
            assert batch.base_offset == offset
            if not batch.attributes & CONTROL:
                for record in batch:
                    fold.add(record.value, record.offset)
            offset, last_epoch = batch.last_offset + 1, batch.leader_epoch


def controller_of(kafka: SimulatedKafka, number: int = 0) -> Client:
    """A client of a controller."""
    return Client(kafka, int(kafka.controllers.id_of(kafka.controllers.names[number])))


@pytest.fixture
def kafka() -> SimulatedKafka:
    """A cluster to which much happens, of each kind that is written down."""
    kafka = SimulatedKafka(1, brokers=(1, 2, 3, 4), racks={1: "a"}, controllers=3)
    kafka.create_topic("orders", [[1, 2, 3], [2, 3, 1]], min_isr=2)
    kafka.create_topic("gone", [[1, 2]])
    kafka.run_for(2)
    kafka.delete_topic("gone")
    kafka.set_unclean("orders", True)
    kafka.kill(3)
    kafka.run_for(6)
    kafka.kill(2)
    kafka.run_for(6)
    kafka.kill(1)
    kafka.run_for(6)
    kafka.set_min_isr("orders", 1)
    kafka.fail_over_controller()
    kafka.run_for(6)
    kafka.replace_disk(2)
    kafka.start(2)
    kafka.elect(TopicPartition("orders", 0), ElectionType.UNCLEAN)
    kafka.run_for(6)
    kafka.elect(TopicPartition("orders", 0), ElectionType.UNCLEAN)
    kafka.start(3)
    kafka.run_for(6)
    kafka.reassign(TopicPartition("orders", 1), [4, 3])
    kafka.run_for(6)
    kafka.create_topic("smaller", [[2, 3, 4]])
    kafka.run_for(2)
    kafka.reassign(TopicPartition("smaller", 0), [2, 3])  # its leader stays, in a new epoch
    kafka.run_for(6)
    kafka.shut_down(4)
    kafka.run_for(6)
    return kafka


def test_the_folded_log_is_what_the_controller_knows(kafka: SimulatedKafka) -> None:
    active = kafka.controllers.active
    assert active is not None
    fold, end = read_from(Client(kafka, int(kafka.controllers.id_of(active))))

    state = kafka.controllers.state
    assert end == kafka.controllers.log.end
    assert {0, 2, 3, 4, 5, 9, 12, 17, 20, 28} == set(fold.keys)
    assert fold.features == {"metadata.version": 27, "eligible.leader.replicas.version": 1}
    assert list(fold.topics) == ["orders", "smaller"]
    assert fold.configs["orders", "min.insync.replicas"] == "1"
    assert fold.configs["orders", "unclean.leader.election.enable"] == "true"
    for id, broker in state.brokers.items():
        known = fold.brokers[int(id)]
        assert (known["epoch"], known["fenced"], known["rack"]) == (broker.epoch, broker.fenced, broker.rack)
    assert len(fold.partitions) == len(state.partitions) == 3
    assert state.partitions[TopicPartition("smaller", 0)].leader_epoch == 1
    for (topic, index), partition in state.partitions.items():
        folded = fold.partitions[fold.topics[topic], index]
        assert len(folded.pop("directories")) == len(partition.replicas)
        assert folded == {
            "replicas": list(partition.replicas), "isr": list(partition.isr), "elr": list(partition.elr),
            "adding": list(partition.adding), "removing": list(partition.removing),
            "leader": -1 if partition.leader is None else partition.leader,
            "leader_epoch": partition.leader_epoch, "partition_epoch": partition.partition_epoch,
            "last_known_elr": list(partition.last_known_elr), "recovering": int(partition.recovering),
        }  # fmt: skip


def test_small_answers_say_the_same_as_one_large_one(kafka: SimulatedKafka) -> None:
    assert kafka.controllers.active is not None
    client = Client(kafka, int(kafka.controllers.id_of(kafka.controllers.active)))

    assert read_from(client, room=1) == read_from(client)


def test_a_broker_with_a_new_disk_registers_another_directory() -> None:
    kafka = SimulatedKafka(1)
    before = read_from(controller_of(kafka))[0].brokers
    for lost in (True, False):
        broker = 2 if lost else 3
        kafka.kill(broker)
        kafka.run_for(6)
        if lost:
            kafka.replace_disk(broker)
        kafka.start(broker)
        kafka.run_for(6)
    after = read_from(controller_of(kafka))[0].brokers

    assert {id: before[id]["directories"] == after[id]["directories"] for id in after} == {1: True, 2: False, 3: True}
    assert {id: before[id]["incarnation"] == after[id]["incarnation"] for id in after} == {1: True, 2: False, 3: False}


def test_who_asks_at_the_end_waits_for_news() -> None:
    kafka = SimulatedKafka(1)
    client = controller_of(kafka)
    _, end = read_from(client)
    began = kafka.scheduler.now

    part = one(client.ask(wanted(end, 1, wait=5000), 17))

    assert part.records
    assert 0 < kafka.scheduler.now - began <= kafka.settings.no_op + 0.1


@pytest.mark.parametrize(
    ("offset", "last_epoch", "epoch", "error"),
    [
        pytest.param(0, 0, 0, 74, id="an older epoch of the quorum"),
        pytest.param(0, 0, 2, 75, id="a newer one"),
        pytest.param(0, 0, -1, 42, id="none"),
        pytest.param(0, 2, 1, 42, id="a record of a newer epoch than that"),
        pytest.param(-1, 0, 1, 42, id="before the beginning"),
    ],
)
def test_what_is_wrong_with_the_place_is_said(offset: int, last_epoch: int, epoch: int, error: int) -> None:
    part = one(controller_of(SimulatedKafka(1)).ask(wanted(offset, last_epoch, epoch), 17))

    assert part.error_code == error
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (3000, 1)
    assert not part.records


def test_beyond_the_end_it_is_told_where_the_log_ends() -> None:
    kafka = SimulatedKafka(1)

    part = one(controller_of(kafka).ask(wanted(10_000, 1), 17))

    assert (part.error_code, part.records) == (0, b"")
    assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (1, kafka.controllers.log.end)


def test_a_controller_that_does_not_lead_names_the_one_that_does() -> None:
    client = controller_of(SimulatedKafka(1, controllers=3), 2)

    answer = client.ask(wanted(0, 0), 17)

    part = one(answer)
    assert (part.error_code, part.current_leader.leader_id) == (6, 3000)
    assert [node.node_id for node in answer.node_endpoints] == [3000]


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        pytest.param({"cluster": "another"}, 104, id="another cluster"),
        pytest.param({"topic": uuid.UUID(int=2)}, 42, id="another topic"),
    ],
)
def test_what_is_not_this_log_is_refused(asked: dict[str, Any], error: int) -> None:
    assert controller_of(SimulatedKafka(1)).ask(wanted(0, 0, **asked), 17).error_code == error


def test_reading_it_takes_the_brokers_own_right() -> None:
    kafka = SimulatedKafka(1)
    kafka.grants.deny("tester", Operation.CLUSTER_ACTION)
    client = controller_of(kafka)

    assert client.ask(wanted(0, 0), 17).error_code == 31
    assert client.ask(snapshot(), 1).error_code == 31
    assert described(client).error_code == 0
    kafka.grants.deny("tester", Operation.DESCRIBE_CLUSTER)
    assert described(client).error_code == 31


def snapshot() -> FetchSnapshotRequest:
    """One that nobody took."""
    topic = FetchSnapshotRequest.TopicSnapshot
    part = topic.PartitionSnapshot
    id = part.SnapshotId(end_offset=5, epoch=1)
    parts = [part(partition=0, current_leader_epoch=1, snapshot_id=id, position=0)]
    return FetchSnapshotRequest(
        replica_id=-1, max_bytes=1000, topics=[topic(name="__cluster_metadata", partitions=parts)]
    )


def test_there_is_no_snapshot_because_nothing_is_ever_removed() -> None:
    assert controller_of(SimulatedKafka(1)).ask(snapshot(), 1).error_code == -1


def described(client: Client) -> Any:
    """DescribeQuorum's answer."""
    topic = DescribeQuorumRequest.TopicData
    parts = [topic.PartitionData(partition_index=0)]
    return client.ask(DescribeQuorumRequest(topics=[topic(topic_name="__cluster_metadata", partitions=parts)]), 2)


def test_the_controller_describes_the_quorum_and_the_controllers() -> None:
    kafka = SimulatedKafka(1, controllers=3)
    client = controller_of(kafka)

    (quorum,) = described(client).topics[0].partitions
    controllers = client.ask(DescribeClusterRequest(endpoint_type=2), 1)

    assert (quorum.leader_id, quorum.leader_epoch) == (3000, 1)
    assert [voter.replica_id for voter in quorum.current_voters] == [3000, 3001, 3002]
    assert [broker.broker_id for broker in controllers.brokers] == [3000, 3001, 3002]
    assert controllers.controller_id == 3000
    assert described(controller_of(kafka, 1)).topics[0].partitions[0].error_code == 6
    assert client.ask(DescribeClusterRequest(endpoint_type=1), 1).error_code == 114
