"""A real Kafka on this machine: KRaft controllers and some brokers, each a process to be killed, frozen and asked."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed import access, metadata, registration, replicas, scenarios, topics
from testbed.access import Acl
from testbed.client_history import Record
from testbed.distribution import Release
from testbed.faults import Proxy
from testbed.layout import CONTROLLER, PLAINTEXT, format_broker, write_properties
from testbed.metadata import PartitionState
from testbed.node import State
from testbed.nodes import Nodes, Wish
from testbed.ports import HOST
from testbed.replicas import EpochStart
from testbed.scenarios import OfflineTopic
from testbed.security import Credentials, Mechanism, Security, Stronghold
from testbed.small_volume import fill, seen_by
from testbed.view import View
from testbed.waiting import PATIENCE


class RealKafka:
    """A cluster for the length of a `with` block; its brokers are numbered from 1.

    `elr` switches eligible leader replicas on or off, None leaves it to the release. `racks` by broker. A broker is
    fenced `session_timeout` seconds after a SIGKILL or a freeze. `properties` go to every node, over everything else.
    `heap` in MiB per broker. Clients reach the `proxied` brokers only through a `faults.Proxy`, and broker `detour`
    reaches the controller only through one. Data and logs go to `folder`; without one to a temporary folder that is
    removed at the end. `host` is the address of this machine where all of it listens; a Pod can't reach loopback.
    `environment` goes to the brokers' processes. With several `controllers` there is no `detour` and no `security`.
    Each broker has so many `disks`, which are log directories; the last one of `small_disks` is a volume of so many
    MiB, and ends with the broker's process.

    What has to happen before a method may return is awaited; WaitedInVain, NodeDied or Refused say what did not.
    """

    def __init__(
        self,
        release: str = "newest",
        *,
        brokers: int = 3,
        controllers: int = 1,
        elr: bool | None = None,
        racks: Mapping[int, str] | None = None,
        session_timeout: float = 3.0,
        properties: Mapping[str, str] | None = None,
        security: Security | None = None,
        heap: int = 256,
        proxied: Sequence[int] = (),
        folder: Path | None = None,
        host: str = HOST,
        detour: int | None = None,
        environment: Mapping[str, str] | None = None,
        disks: int = 1,
        small_disks: Mapping[int, int] | None = None,
    ) -> None:
        self.release = Release.named(release)
        if controllers > 1 and (detour or security):
            raise ValueError("a detour, and a listener that asks who is there, lead to the only controller there is")
        if elr and not self.release.elr:
            raise ValueError(f"Kafka {self.release.version} has no eligible leader replicas")
        self._wish = Wish(
            self.release,
            brokers,
            controllers,
            elr,
            racks or {},
            session_timeout,
            properties or {},
            security,
            heap,
            proxied,
            folder,
            host,
            detour,
            environment or {},
            disks,
            small_disks or {},
        )
        self._started: Nodes | None = None

    def __enter__(self) -> Self:
        self._started = Nodes(self._wish)
        try:
            self._started.start()
            self.wait_until_unfenced(*self.brokers)
        except BaseException:
            self._started.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._nodes.close()

    # Who and where

    @property
    def cluster_id(self) -> str:
        return self._nodes.layout.cluster_id

    @property
    def brokers(self) -> tuple[int, ...]:
        return self._nodes.layout.brokers

    @property
    def running(self) -> tuple[int, ...]:
        """The brokers whose process runs and is not frozen."""
        return self._nodes.running

    @property
    def processes(self) -> tuple[int, ...]:
        """The process ids of controllers and brokers, as far as they live."""
        return self._nodes.processes

    @property
    def bootstrap(self) -> str:
        """For clients without credentials: all brokers, through their proxies where they have one."""
        return self.bootstrap_for(None)

    def bootstrap_for(self, mechanism: Mechanism | None) -> str:
        """The same for the listener of a mechanism; only a cluster with security has those."""
        return ",".join(self.address(broker, mechanism) for broker in self.brokers)

    def address(self, broker: int, mechanism: Mechanism | None = None) -> str:
        """host:port as clients are told it."""
        return self._nodes.layout.listeners[broker][mechanism.value if mechanism else PLAINTEXT].address

    @property
    def controller_address(self) -> str:
        """Of the first one, which need not lead where there are several."""
        return self.controller_addresses[CONTROLLER]

    @property
    def controller_addresses(self) -> Mapping[int, str]:
        """By the controllers' numbers."""
        return self._nodes.layout.controller_addresses

    def guarded_controller_address(self, mechanism: Mechanism) -> str:
        """Where the controller asks for SCRAM users, or for certificates; only a cluster with security has that."""
        return self._nodes.layout.guarded_controller_address(mechanism)

    def proxy(self, broker: int) -> Proxy:
        """What stands between clients and a `proxied` broker; the other brokers pass it by."""
        return self._nodes.proxies[broker]

    @property
    def detour(self) -> Proxy:
        """What stands between broker `detour` and the controller; the other brokers pass it by."""
        if self._nodes.detour is None:
            raise RuntimeError("every broker of this cluster reaches the controller directly: RealKafka(detour=1)")
        return self._nodes.detour

    # What happens to processes

    def kill(self, broker: int) -> None:
        """SIGKILL; to the controller it is alive until it is fenced."""
        self._nodes[broker].kill()

    def terminate(self, broker: int) -> None:
        """SIGTERM, a controlled shutdown; returns when the process is gone."""
        self._nodes[broker].terminate()

    def freeze(self, broker: int) -> None:
        """SIGSTOP: its connections stay open, nothing answers."""
        self._nodes[broker].freeze()

    def thaw(self, broker: int) -> None:
        """SIGCONT."""
        self._nodes[broker].thaw()

    def start(self, broker: int, *, wait: bool = True) -> None:
        """Starts it again on its old port and data; with `wait` returns when it answers, still fenced perhaps."""
        self._nodes[broker].start()
        if wait:
            address = self._view.address(broker)
            self._view.wait_until(f"broker {broker} answers", lambda: metadata.applied(address), lambda _: True)

    def rest(self) -> None:
        """Everything stands still and costs nothing, until it is revived."""
        self._nodes.rest()

    def revive(self) -> None:
        """Every node runs, thawed or started, with all its disks, every proxy passes all on, and each broker could be
        made a leader."""
        for broker in self.brokers:
            if _put_aside(self._nodes.directories(broker)[-1]).exists():
                self._nodes[broker].end()
                self.mend_disk(broker)
        self._nodes.revive()
        self._view.wait_until_all_know()
        self.wait_until_unfenced(*self.brokers)

    def wipe(self, broker: int) -> None:
        """An empty disk in place of a stopped broker's: all its logs are gone, its identity is not."""
        if self._nodes[broker].state is not State.STOPPED:
            raise RuntimeError(f"broker {broker} is {self._nodes[broker].state.value}: kill it before its disk goes")
        for entry in self._nodes.data(broker).iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != "meta.properties":
                entry.unlink()

    def break_disk(self, broker: int) -> None:
        """The broker's last log directory is gone, as a volume that is not mounted any more; returns when it noticed.

        It notices when it writes there next: `replica.high.watermark.checkpoint.interval.ms` says how soon.
        """
        directory = self._nodes.directories(broker)[-1]
        said = self._nodes[broker].program.home / "server.log"
        before = len(said.read_bytes())  # it may have failed already, for the test that had the cluster then
        directory.rename(_put_aside(directory))
        directory.write_text("no directory")
        self._view.wait_until(
            f"broker {broker} has taken {directory} offline",
            lambda: said.read_bytes()[before:].decode(errors="replace"),
            lambda log: (
                f"Stopping serving logs in dir {directory}" in log
                or f"Stopping serving replicas in dir {directory}" in log
            ),
        )

    def mend_disk(self, broker: int) -> None:
        """What `break_disk` took away is there again, with all that is on it; the broker has to be started anew."""
        directory = self._nodes.directories(broker)[-1]
        directory.unlink()
        _put_aside(directory).rename(directory)

    def empty_disk(self, broker: int) -> None:
        """A new volume in place of the last log directory of a broker that is not running, formatted for it."""
        directory = self._nodes.directories(broker)[-1]
        shutil.rmtree(directory)
        format_broker(directory, self.cluster_id, broker)

    def on_disk(self, broker: int, disk: int) -> frozenset[str]:
        """Names of the copies in a broker's log directory, as its process sees it; disks are numbered from 1.

        Without those of topics that are deleted: their files stay for a minute, under another name.
        """
        found = seen_by(self._nodes[broker].pid, self._nodes.directories(broker)[disk - 1]).iterdir()
        return frozenset(each.name for each in found if each.is_dir() and not each.name.endswith("-delete"))

    def fill_disk(self, broker: int, *, leave: int = 0) -> None:
        """Somebody else's file takes all room but for so many bytes on the small disk of a broker that runs."""
        fill(seen_by(self._nodes[broker].pid, self._nodes.directories(broker)[-1]), leave)

    def unregister(self, broker: int) -> None:
        """The cluster forgets a dead broker, until it is started again; returns when every other one knows."""
        registration.unregister(self._view.up_to_date(), broker)
        self._view.wait_until_all_know()

    def kill_controller(self, number: int = CONTROLLER) -> None:
        self._nodes[number].kill()

    def freeze_controller(self, number: int = CONTROLLER) -> None:
        self._nodes[number].freeze()

    def thaw_controller(self, number: int = CONTROLLER) -> None:
        self._nodes[number].thaw()

    def start_controller(self, number: int = CONTROLLER) -> None:
        """Starts it again; returns when it, or another one, leads the metadata log."""
        self._nodes[number].start()
        self.leading_controller()

    def leading_controller(self) -> int:
        """Which one leads the metadata log, as soon as one does."""
        return self._view.wait_until("a controller leads", self._view.leading_controller, bool)[0]

    # What the cluster says

    def wait_until_fenced(self, *brokers: int) -> None:
        """Until none of them could be made a leader."""
        self._view.wait_until(f"brokers {brokers} are fenced", self._view.unfenced, lambda seen: not seen & {*brokers})

    def wait_until_unfenced(self, *brokers: int) -> None:
        """Until each of them could be made a leader."""
        self._view.wait_until(f"brokers {brokers} are unfenced", self._view.unfenced, lambda seen: seen >= {*brokers})

    def unfenced(self) -> frozenset[int]:
        """The brokers that could be made a leader now."""
        return metadata.unfenced(self._view.up_to_date())

    def describe(self, topic: str) -> dict[int, PartitionState]:
        """Every partition as of now: asked of a broker that has caught up with the controller, if one runs."""
        return metadata.describe(self._view.up_to_date(), topic)

    def topic_id(self, topic: str) -> uuid.UUID:
        return self.describe(topic)[0].topic_id

    def wait_for(
        self, topic: str, predicate: Callable[[PartitionState], bool], patience: float = PATIENCE
    ) -> dict[int, PartitionState]:
        """Until the predicate holds for every partition of the topic; returns them."""
        return self._view.wait_until(
            f"all partitions of {topic} are as wanted",
            lambda: self._view.describe(topic),
            lambda states: all(map(predicate, states.values())),
            patience,
        )

    # Topics and records

    def create_topic(self, name: str, assignments: Sequence[Sequence[int]], **configs: str | int) -> uuid.UUID:
        """A list of replicas per partition, preferred leader first; `configs` with underscores for dots.

        Returns when all leaders answer as such.
        """
        named = {key.replace("_", "."): str(value) for key, value in configs.items()}
        topics.create(self._view.up_to_date(), name, assignments, named)
        patience = PATIENCE + len(assignments) / 20
        states = self.wait_for(name, lambda state: state.leader is not None, patience)
        self._view.wait_until_led(states, patience)
        return states[0].topic_id

    def delete_topic(self, name: str) -> None:
        topics.delete(self._view.up_to_date(), name)
        self._view.wait_until(f"{name} is gone", lambda: self._view.exists(name), lambda exists: not exists)

    def delete_topics(self) -> None:
        """All there are."""
        names = metadata.topics(self._view.up_to_date())
        if names:
            topics.delete(self._view.up_to_date(), *names)
        self._view.wait_until(
            "all topics are deleted", lambda: metadata.topics(self._view.up_to_date()), lambda left: not left
        )

    def configure_topic(self, name: str, key: str, value: str) -> None:
        """Sets one of its configs, by Kafka's key."""
        topics.configure(self._view.up_to_date(), name, key, value)

    @contextmanager
    def configured_brokers(self, settings: Mapping[tuple[str, str], str], *, through: int) -> Iterator[None]:
        """Sets these by broker and key, and removes them in the end; what is for all ("") is checked by `through`."""
        at = {broker: self.address(int(broker) if broker else through) for broker, _ in settings}
        try:
            for (broker, key), value in settings.items():
                topics.configure(at[broker], broker, key, value, kind=topics.BROKER)
            yield
        finally:
            for broker, key in reversed(list(settings)):
                topics.configure(at[broker], broker, key, None, kind=topics.BROKER)

    def produce(
        self, topic: str, partition: int, count: int, label: str, *, acks: str = "all", patience: float = 20.0
    ) -> list[str]:
        """Writes `label-0`, `label-1`...; returns the values that were acknowledged within `patience` seconds."""
        return self.produce_to(topic, [partition], count, label, acks=acks, patience=patience)[partition]

    def produce_to(
        self,
        topic: str,
        partitions: Iterable[int],
        count: int,
        label: str,
        *,
        acks: str = "all",
        patience: float = PATIENCE,
    ) -> dict[int, list[str]]:
        """The same to several partitions with one producer."""
        return topics.produce(self._view.bootstrap, topic, partitions, count, label, acks, patience)

    def consume(self, topic: str, partition: int, patience: float = 20.0) -> list[str]:
        """The values that a client can read now; see `records`."""
        return [record.value for record in self.records(topic, partition, patience)]

    def records(self, topic: str, partition: int, patience: float = 20.0) -> list[Record]:
        """What a client can read now, from log start to high watermark; waits up to `patience` seconds for a leader.

        A consumer of librdkafka would do so only with a group, and leave a __consumer_offsets topic behind.
        """
        return self._view.wait_until(
            f"{topic}-{partition} can be read",
            lambda: self._view.read(topic, partition),
            lambda _: True,
            patience,
        )

    def alter_assignment(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Reorders or moves a partition's replicas; returns when the assignment reads so."""
        topics.reassign(self._view.up_to_date(), topic, {partition: replicas})
        self._view.wait_until(
            f"{topic}-{partition} is assigned to {tuple(replicas)}",
            lambda: self._view.describe(topic)[partition],
            lambda state: state.replicas == tuple(replicas),
        )

    def unclean_elect(self, topic: str, partitions: Iterable[int]) -> dict[int, str]:
        """Kafka's own unclean election, what recovery is compared with; its answer per partition, `NoError` if done."""
        return topics.elect_uncleanly(self._view.up_to_date(), topic, partitions)

    # Single replicas

    def leader_answers(self, topic: str, partition: int, broker: int) -> bool:
        """Whether this broker itself answers as the leader, whatever the metadata say."""
        return partition in replicas.led(self._view.address(broker), topic, [partition])

    def log_end(self, broker: int, topic: str, partition: int) -> int:
        """The log end offset of this broker's replica."""
        return self.log_ends(broker, topic, [partition])[partition]

    def log_ends(self, broker: int, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """The same for several partitions in one request."""
        return replicas.log_ends(self._view.address(broker), topic, partitions)

    def wait_for_log_ends(self, broker: int, topic: str, ends: Mapping[int, int]) -> None:
        """Until this broker's replicas, by partition, end exactly there."""
        self._view.wait_until(
            f"the logs of {topic} on broker {broker} end as wanted",
            lambda: {i: end for i, end in self.log_ends(broker, topic, ends).items() if end != ends[i]},
            lambda others: not others,
        )

    def read_replica(self, broker: int, topic: str, partition: int) -> list[str]:
        """All values in this broker's replica, beyond the high watermark too."""
        return self.read_replicas(broker, topic, [partition])[partition]

    def read_replicas(self, broker: int, topic: str, partitions: Collection[int]) -> dict[int, list[str]]:
        """The same for several partitions, over one connection."""
        return replicas.read(self._view.address(broker), topic, self.topic_id(topic), partitions)

    def epoch_checkpoint(self, broker: int, topic: str, partition: int) -> tuple[EpochStart, ...]:
        """The replica's leader epochs from its file, oldest first; also of a broker that is down."""
        folder = self._nodes.data(broker) / f"{topic}-{partition}"
        return replicas.epoch_starts(folder / "leader-epoch-checkpoint")

    # Accidents

    def lose_epoch_checkpoint(self, broker: int, topic: str, partition: int) -> None:
        """The file with the leader epochs of a stopped broker's replica is gone, and nothing else."""
        (self._nodes.data(broker) / f"{topic}-{partition}" / "leader-epoch-checkpoint").unlink()

    def lose_page_cache(self, broker: int, topic: str, partition: int, fraction: float = 0.5) -> None:
        """What a host forgets in a crash: the end of a stopped broker's log, and how far it was known to be flushed."""
        folder = self._nodes.data(broker) / f"{topic}-{partition}"
        segment = max(folder.glob("*.log"))
        with segment.open("r+b") as log:
            log.truncate(int(segment.stat().st_size * (1 - fraction)))
        (self._nodes.data(broker) / "recovery-point-offset-checkpoint").unlink(missing_ok=True)

    def offline_partition(
        self, topic: str, survivors: Mapping[int, int], *, partitions: int = 1, acked: int = 10, **configs: str | int
    ) -> OfflineTopic:
        """A new topic, offline, whose survivors disagree: `survivors` maps a broker to the log end of its replica.

        All hold the first `acked` records, acknowledged with acks=all. Then each led alone for a while, in the order
        given: the later it comes, the higher its last epoch. All other running brokers are dead, the last leader among
        them. Takes about four session timeouts and shakes all other topics of the cluster too.
        """
        return scenarios.diverge(self, topic, survivors, partitions, acked, configs)

    def offline_by_freezing(
        self,
        topic: str,
        survivors: Sequence[int],
        *,
        partitions: int = 1,
        records: int = 1,
        missed: int = 0,
        **configs: str | int,
    ) -> OfflineTopic:
        """A new topic, offline, whose survivors are equal: all hold `records` records.

        With `missed`, that many more were acknowledged after the survivors had left the ISR: only the dead hold them.
        Takes about two session timeouts, for thousands of partitions longer: each has to be created on disk.
        """
        return scenarios.freeze_and_kill(self, topic, survivors, partitions, records, missed, configs)

    # Security

    def add_scram_user(self, name: str, password: str) -> None:
        """Returns when every broker knows the user."""
        access.add_scram_user(self._view.up_to_date(), name, password)
        self._view.wait_until_all_know()

    def grant(self, *acls: Acl) -> None:
        """Returns when every broker knows them."""
        access.grant(self._view.up_to_date(), acls)
        self._view.wait_until_all_know()

    def revoke(self, *acls: Acl) -> None:
        """Takes ACLs back; returns when every broker knows that."""
        access.revoke(self._view.up_to_date(), acls)
        self._view.wait_until_all_know()

    def client_properties(self, who: Credentials) -> Path:
        """A Java properties file that lets `who` in, as Kafka's own tools take it for --command-config."""
        path = self._stronghold.folder / f"{uuid.uuid4().hex}.properties"
        write_properties(path, self._stronghold.client_properties(who))
        return path

    def confluent_properties(self, who: Credentials) -> dict[str, str]:
        """A librdkafka configuration that lets `who` in, bootstrap servers included."""
        bootstrap = {"bootstrap.servers": self.bootstrap_for(who.mechanism)}
        return bootstrap | self._stronghold.confluent_properties(who)

    def run_tool(self, main: str, *arguments: str) -> str:
        """What one of this Kafka's own programs prints, named by its main class; JavaFailed if it ends badly."""
        return self._nodes.run_tool(main, *arguments)

    # Within

    @property
    def _nodes(self) -> Nodes:
        if self._started is None:
            raise RuntimeError("this cluster is not running: use it as `with RealKafka() as kafka:`")
        return self._started

    @property
    def _view(self) -> View:
        return View(self._nodes)

    @property
    def _stronghold(self) -> Stronghold:
        if self._nodes.stronghold is None:
            raise RuntimeError("this cluster was started without security: RealKafka(security=Security())")
        return self._nodes.stronghold


def _put_aside(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}-put-aside")
