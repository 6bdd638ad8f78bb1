"""What Prometheus sees of an operator. An object is told by the labels `namespace` and `name`; no error's text is one.

metrics.watched("kafka/prod", offline=12, isolated=False)
with metrics.timing(Step.GATHER):
    ...
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from importlib.metadata import version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.process_collector import ProcessCollector

from kafka_recovery.domain.counts import Counts, Whereabouts
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.outcome import End
from kafka_recovery.fleet.outcome import RunOutcome
from kafka_recovery.kube.machinery import scraping
from kafka_recovery.kube.machinery.credentials import ANYBODY, Callers
from kafka_recovery.kube.machinery.work_queue import Depth

PREFIX = "kafka_recovery"

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 7200, 43200)
"""Seconds: from a look at three brokers to a person who is asked at night."""

LONG_BUCKETS = (5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400)
"""Seconds: from an incident that nobody is asked about to a night's work, or a weekend."""

NO_LOSS_CLASS = "None"
"""Of a recovery that ended before a plan was made."""


@cache
def _release() -> str:
    return version("kafka-recovery-operator")


OBJECT = "namespace", "name"
"""Labels of what is about one object. `cluster` is what many give to all series of a Kubernetes cluster."""

OPERATOR, FLEET = "operator", "fleet"
"""The label `program`: what elects leaders, and what has fleets ranked."""


def labelled(of: str) -> dict[str, str]:
    """The labels of an object that callers write as namespace/name."""
    return dict(zip(OBJECT, of.split("/", 1), strict=True))


class Step(StrEnum):
    """What a recovery spends its time on."""

    GATHER = "gather"
    APPROVE = "approve"
    ELECT = "elect"
    VERIFY = "verify"


class Heard(StrEnum):
    """What became of a request to the webhook."""

    WOKEN = "Woken"
    REPEATED = "Repeated"
    RESOLVED = "Resolved"
    NOT_WATCHED = "NotWatched"
    """No cluster that it names is watched, or it names none."""
    UNAUTHENTICATED = "Unauthenticated"
    NOT_SERVED = "NotServed"
    """Another path or method."""
    INVALID = "Invalid"
    TOO_LARGE = "TooLarge"
    TOO_MANY = "TooMany"
    TOO_SLOW = "TooSlow"
    CUT_OFF = "CutOff"
    """The oldest connection, to make room for a new one."""
    DEFECT = "Defect"


class Metrics:
    """All metrics of a process, in a registry of their own. Safe to use from any thread.

    `program`: which one of ours it is. `now`: the wall clock, UTC.
    """

    def __init__(self, program: str = OPERATOR, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        # A second series for each one here, which nobody asks for.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._now = now
        self.registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=self.registry)
        build = Info("build", "Which release this is.", namespace=PREFIX, registry=self.registry)
        build.info({"version": _release(), "program": program})
        held = self._gauge("lease_held", "1 while this process holds its Lease and may act, else 0.", "program")
        self._lease_held = held.labels(program)
        self._webhook = Counter(
            "webhook_requests",
            "Requests to the Alertmanager webhook.",
            ("outcome",),
            namespace=PREFIX,
            registry=self.registry,
        )
        self._api = Counter(
            "api_requests",
            "Requests to the Kubernetes API, each try of them; status 0: no answer.",
            ("method", "status"),
            namespace=PREFIX,
            registry=self.registry,
        )
        self._queue = self._gauge(
            "queue_objects", "Objects that wait for their time, are due, are looked at, failed last.", "queue", "state"
        )
        self._look = self._gauge("queue_longest_look_seconds", "Of what is looked at now, the longest.", "queue")
        self._known: set[str] = set()
        self._watching_metrics()
        self._recovery_metrics()
        self._fleet_metrics()

    def _watching_metrics(self) -> None:
        self._watching = self._gauge("watching", "1 while it is watched, 0 while it can't be opened.", *OBJECT)
        self._offline = self._gauge(
            "offline_partitions", "Partitions without a leader, at the last full look.", *OBJECT
        )
        self._isolated = self._gauge("isolated", "1 while the operator's own look can't be trusted, else 0.", *OBJECT)
        self._history = self._gauge(
            "history_known", "1 while the metadata log is read, 0 while it can't be: nothing is proven then.", *OBJECT
        )
        self._last_probe = self._gauge(
            "last_probe_timestamp_seconds", "When the cluster last answered a probe (Unix time).", *OBJECT
        )
        self._unclean = self._gauge(
            "unclean_election_topics", "Topics in which Kafka itself elects leaders that may lose records.", *OBJECT
        )
        self._snapshot = self._gauge(
            "last_snapshot_timestamp_seconds", "Of when the newest evidence file is (Unix time).", *OBJECT
        )
        self._snapshot_due = self._gauge(
            "snapshot_due_timestamp_seconds",
            "When the next evidence file of the cluster is due, or since when (Unix time).",
            *OBJECT,
        )
        self._no_snapshot = self._counter("snapshot_failures", "Evidence files that could not be made or kept.")

    def _recovery_metrics(self) -> None:
        self._open = self._gauge("open_recoveries", "PartitionRecoveries that are not finished.", *OBJECT)
        self._idle = self._gauge(
            "idle_recoveries", "Of the open ones, those that only observe, or can't be taken up.", *OBJECT
        )
        self._stuck = self._gauge("stuck_recoveries", "Of the open ones, those that need somebody's help.", *OBJECT)
        self._partitions = self._gauge(
            "recovery_partitions", "Partitions of open recoveries, by where they are.", *OBJECT, "state"
        )
        self._held = self._gauge(
            "held_pods", "Pods of dead brokers that open recoveries keep from being created.", *OBJECT
        )
        self._missing = self._gauge(
            "evidence_missing", "Replicas that gave no answer when partitions were last decided on.", *OBJECT
        )
        self._approvals = self._gauge("approvals_waiting", "Plans that wait for a person.", *OBJECT)
        self._approval_age = self._gauge(
            "approval_waiting_seconds", "How long the oldest plan has waited for a person; 0: none waits.", *OBJECT
        )
        self._recoveries = self._counter(
            "recoveries", "PartitionRecoveries that ended; the loss class is its plan's worst.", "outcome", "loss_class"
        )
        self._recovery = self._seconds(
            "recovery_seconds",
            "From the first of its partitions being seen offline to a recovery's end; Recovered means verified.",
            *OBJECT,
            "outcome",
            buckets=LONG_BUCKETS,
        )
        self._rejected = self._counter("candidates_rejected", "Replicas that a guard rejected as leader.", "guard")
        self._decision = self._seconds("decision_seconds", "How long it took to make a plan from evidence.")
        self._steps = self._seconds("phase_seconds", "How long each phase of a recovery took.", "phase")

    def _fleet_metrics(self) -> None:
        self._fleet_runs = self._counter("fleet_runs", "Runs of FleetRankings that ended.", "outcome")
        self._fleet_run = self._seconds(
            "fleet_run_seconds", "How long a run took, all its attempts.", *OBJECT, buckets=LONG_BUCKETS
        )
        self._fleet_well = self._gauge("fleet_last_run_succeeded", "1 if the last run did, else 0.", *OBJECT)
        self._fleet_success = self._gauge(
            "fleet_last_success_timestamp_seconds", "When the newest result was finished (Unix time).", *OBJECT
        )
        self._fleet_due = self._gauge(
            "fleet_result_due_timestamp_seconds",
            "When the first run after the newest result was, or is, due by the schedule (Unix time).",
            *OBJECT,
        )

    def leading(self, held: bool) -> None:
        """Whether this process is the one that acts."""
        self._lease_held.set(held)

    def asked(self, method: str, status: int) -> None:
        """The API server answered, or did not."""
        self._api.labels(method, status).inc()

    def queued(self, queue: str, depth: Depth, longest_look: timedelta) -> None:
        """How much there is to do now."""
        for state, objects in depth._asdict().items():
            self._queue.labels(queue, state).set(objects)
        self._look.labels(queue).set(longest_look.total_seconds())

    def watched(self, cluster: str, offline: int | None, isolated: bool, unclean: int | None = None) -> None:
        """What the last look at a cluster showed; None: its partitions, or its topics, were not gone through yet."""
        self._begin(cluster)
        self._watching.labels(**labelled(cluster)).set(1)
        if unclean is not None:
            self._unclean.labels(**labelled(cluster)).set(unclean)
        if offline is not None:
            self._offline.labels(**labelled(cluster)).set(offline)
        self._isolated.labels(**labelled(cluster)).set(isolated)

    def history(self, cluster: str, known: bool) -> None:
        """Whether the metadata log of a cluster whose controllers were named is read."""
        self._begin(cluster)
        self._history.labels(**labelled(cluster)).set(known)

    def not_watched(self, cluster: str) -> None:
        """There is such a WatchedCluster, and it can't be opened."""
        self._watching.labels(**labelled(cluster)).set(0)

    def probed(self, cluster: str, ago: timedelta = timedelta(0)) -> None:
        """A cluster answered so long ago."""
        self._last_probe.labels(**labelled(cluster)).set((self._now() - ago).timestamp())

    def recoveries_open(self, cluster: str, count: int, stuck: int = 0, idle: int = 0) -> None:
        """So many of its recoveries are not finished; of those so many go no further by themselves, or are idle."""
        self._open.labels(**labelled(cluster)).set(count)
        self._stuck.labels(**labelled(cluster)).set(stuck)
        self._idle.labels(**labelled(cluster)).set(idle)

    def recovery_partitions(self, cluster: str, counts: Collection[Counts]) -> None:
        """Where the partitions of its open recoveries are."""
        for place in Whereabouts:
            self._partitions.labels(**labelled(cluster), state=place).set(sum(each[place] for each in counts))

    def pods_held(self, cluster: str, pods: int) -> None:
        """So many Pods of brokers are kept from being created by its open recoveries."""
        self._held.labels(**labelled(cluster)).set(pods)

    def recovery_ended(self, cluster: str, outcome: str, loss_class: str | None, took: timedelta) -> None:
        """One of its recoveries is finished, so long after its partitions went offline."""
        self._begin(cluster)
        self._recoveries.labels(**labelled(cluster), outcome=outcome, loss_class=loss_class or NO_LOSS_CLASS).inc()
        self._recovery.labels(**labelled(cluster), outcome=outcome).observe(max(0.0, took.total_seconds()))

    def evidence_missing(self, cluster: str, replicas: int) -> None:
        """So many replicas did not answer when partitions were decided on."""
        self._missing.labels(**labelled(cluster)).set(replicas)

    def rejected(self, cluster: str, guard: str, replicas: int = 1) -> None:
        """A guard rejected so many replicas. `guard`: the code of its Reason, one of a fixed set."""
        self._rejected.labels(**labelled(cluster), guard=guard).inc(replicas)

    def awaiting_approval(self, cluster: str, since: Collection[datetime]) -> None:
        """These are the moments from which on its plans wait for a person; the age grows by itself."""
        self._approvals.labels(**labelled(cluster)).set(len(since))
        oldest = min(since, default=None)
        self._approval_age.labels(**labelled(cluster)).set_function(lambda: self._age(oldest))

    def decided(self, took: timedelta) -> None:
        """A plan was made."""
        self._decision.observe(took.total_seconds())

    def took(self, step: Step, duration: timedelta) -> None:
        """A step of a recovery has ended."""
        self._steps.labels(step).observe(duration.total_seconds())

    @contextmanager
    def timing(self, step: Step) -> Iterator[None]:
        """A `with` block that is such a step, whether it ends well or not."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.took(step, timedelta(seconds=time.monotonic() - began))

    def snapshot_kept(self, cluster: str, of: datetime) -> None:
        """An evidence file was written."""
        self._snapshot.labels(**labelled(cluster)).set(of.timestamp())

    def snapshot_due(self, cluster: str, at: datetime) -> None:
        """The next one is due then; if that is past, it is overdue."""
        self._snapshot_due.labels(**labelled(cluster)).set(at.timestamp())

    def snapshot_failed(self, cluster: str) -> None:
        """One was not."""
        self._no_snapshot.labels(**labelled(cluster)).inc()

    def ranking_ended(self, ranking: str, outcome: RunOutcome, took: timedelta) -> None:
        """A run of a FleetRanking is over. `ranking`: namespace/name."""
        self._fleet_runs.labels(**labelled(ranking), outcome=outcome).inc()
        self._fleet_run.labels(**labelled(ranking)).observe(max(0.0, took.total_seconds()))

    def ranking_seen(self, ranking: str, well: bool | None, success: datetime | None, due: datetime | None) -> None:
        """What its status says: how the last run ended, when the newest result was made, and when the next was due.

        None: no run has ended yet; there is no result; none is due.
        """
        for outcome in RunOutcome:
            self._fleet_runs.labels(**labelled(ranking), outcome=outcome)
        for gauge, value in (
            (self._fleet_well, None if well is None else float(well)),
            (self._fleet_success, success.timestamp() if success else None),
            (self._fleet_due, due.timestamp() if due else None),
        ):
            if value is None:
                gauge.remove_by_labels(labelled(ranking))
            else:
                gauge.labels(**labelled(ranking)).set(value)

    def forget_ranking(self, ranking: str) -> None:
        """It is not there any more."""
        for metric in (self._fleet_runs, self._fleet_run, self._fleet_well, self._fleet_success, self._fleet_due):
            metric.remove_by_labels(labelled(ranking))

    def heard(self, what: Heard) -> None:
        """A request to the webhook was answered, or given up."""
        self._webhook.labels(what).inc()

    def webhook_open(self) -> None:
        """From now on requests are counted: a first refusal must be an increase."""
        for what in Heard:
            self._webhook.labels(what)

    def forget(self, cluster: str) -> None:
        """Nobody watches this cluster any more: what is not seen must not be shown."""
        self._known.discard(cluster)
        for metric in (
            self._watching,
            self._unclean,
            self._stuck,
            self._idle,
            self._recovery,
            self._offline,
            self._isolated,
            self._history,
            self._last_probe,
            self._open,
            self._partitions,
            self._held,
            self._missing,
            self._approvals,
            self._approval_age,
            self._recoveries,
            self._rejected,
            self._snapshot,
            self._snapshot_due,
            self._no_snapshot,
        ):
            metric.remove_by_labels(labelled(cluster))

    def exposition(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)

    def serve(self, port: int, callers: Callers = ANYBODY) -> None:
        """Answer GET /metrics until the process ends. Raises OSError if the port is taken."""
        scraping.serve(self.registry, port, callers)

    def _begin(self, cluster: str) -> None:
        """Counters begin at 0: of one that appears as 1, Prometheus would not see an increase."""
        if cluster not in self._known:
            self._known.add(cluster)
            self._no_snapshot.labels(**labelled(cluster))
            for outcome in End:
                self._recovery.labels(**labelled(cluster), outcome=outcome)
                for loss_class in (*LossClass, NO_LOSS_CLASS):
                    self._recoveries.labels(**labelled(cluster), outcome=outcome, loss_class=loss_class)

    def _age(self, since: datetime | None) -> float:
        return max(0.0, (self._now() - since).total_seconds()) if since else 0.0

    def _gauge(self, name: str, help: str, *labels: str) -> Gauge:
        return Gauge(name, help, labels, namespace=PREFIX, registry=self.registry)

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(name, help, (*OBJECT, *labels), namespace=PREFIX, registry=self.registry)

    def _seconds(self, name: str, help: str, *labels: str, buckets: Sequence[float] = BUCKETS) -> Histogram:
        return Histogram(name, help, labels, namespace=PREFIX, registry=self.registry, buckets=buckets)
