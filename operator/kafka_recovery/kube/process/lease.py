"""Who acts: one process at a time, by a Lease, and one that may have lost it ends before another can begin.

    leader = Leader("kafka-recovery-operator", namespace)
    leader.acquire()                           # blocks; nothing has been started yet
    api = Api(session, server, leader.fence)   # every write, and every election in Kafka, passes the fence
    ...
    leader.release()                           # after the last write: the next one takes over at once

The election is that of the `kubernetes` library, in a thread. What it lacks is here: a time-out for each request,
patience with a server that does not answer, reasons for refusals in the log, and a clock that nobody can set.

The fence looks and then lets send: it does not fence Kafka, and not a virtual machine that stands still. So writes
carry a resourceVersion, and whoever inherits a recovery waits until requests of its predecessor are over.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self, cast

from kubernetes import client, config
from kubernetes.leaderelection.electionconfig import Config
from kubernetes.leaderelection.leaderelection import LeaderElection
from kubernetes.leaderelection.leaderelectionrecord import LeaderElectionRecord
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock
from urllib3.exceptions import HTTPError

_LOG = logging.getLogger(__name__)

LOST: Final = 70
"""Exit status of a process that may have lost its Lease (EX_SOFTWARE). Whoever started it starts it again."""

SHORTEST: Final = 3
"""Seconds of a Lease."""

LOOK: Final = 0.25
"""Seconds between two looks of the watchdog, at most."""

_NOT_FOUND = 404


def boot_clock() -> float:
    """Seconds that nobody can set, and that go on while the process is stopped or the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class LeaseLost(BaseException):
    """A write without a Lease. No Exception: nothing that tries again may swallow it."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """In whole seconds, as Leases have it.

    `duration`: how long the others wait after they saw our last renewal. `deadline`: how long after *sending* it we
    still act; the difference is the margin. `retry`: the pause between two renewals, and what each request may take.
    """

    duration: int
    deadline: int
    retry: int

    @classmethod
    def of(cls, duration: int) -> Self:
        """In the proportions of Kubernetes' own components (15, 10, 2). Raises ValueError for less than 3 s."""
        if duration < SHORTEST:
            raise ValueError(f"a Lease of {duration} s is too short to be renewed in time; take {SHORTEST} s or more")
        return cls(duration, duration * 2 // 3, max(1, duration // 7))


class Leader:
    """One candidate. `identity` must be unique to the process; a Pod's name is not, its container may be restarted.

    `duration`: seconds after which another one takes over from us if we are not heard of any more; see LeaseTimes.
    `configuration`: how to reach the API server, if not as a service account or by the kubeconfig.
    """

    def __init__(
        self,
        name: str,
        namespace: str,
        *,
        duration: int = 15,
        identity: str | None = None,
        configuration: client.Configuration | None = None,
    ) -> None:
        self.identity = identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        self._times = LeaseTimes.of(duration)
        self._term = _Term(self.identity, self._times.deadline)
        self._lock = _Lock(name, namespace, self._times, self._term, configuration or found_configuration())
        logging.getLogger("leaderelection").setLevel(logging.WARNING)  # it tells of every renewal

    @property
    def leads(self) -> bool:
        """Whether a write would pass now."""
        return self._term.left > 0

    def acquire(self) -> None:
        """Block until the Lease is ours; from then on the process ends by itself when it may not be any more."""
        threading.Thread(target=self._elect, name="lease", daemon=True).start()
        self._term.begun.wait()
        threading.Thread(target=self._term.watch, name="lease watchdog", daemon=True).start()
        _LOG.info("this process holds the Lease: %s", self.identity)

    def fence(self) -> None:
        """Return if a write may be sent now; end the process if the Lease may be another's.

        Raises LeaseLost before `acquire` and after `release`.
        """
        if not self.leads:
            if self._term.is_on:
                self._term.lose("a write came after the deadline")
            raise LeaseLost(f"{self.identity} does not hold its Lease: it must not write")

    def release(self) -> None:
        """After the last write: let the next one in at once. Where that does not work it waits as after a crash."""
        self._lock.give_back()

    def _elect(self) -> None:
        election = Config(
            self._lock,
            lease_duration=self._times.duration,
            renew_deadline=self._times.deadline,
            retry_period=self._times.retry,
            onstarted_leading=lambda: None,
            onstopped_leading=lambda: None,
        )
        try:
            while True:  # it gives up renewing by the wall clock; when our time is over, the watchdog knows
                LeaderElection(election).run()
        except _Over:
            return
        except BaseException as error:  # noqa: BLE001 - without this thread nothing renews, and nobody would know
            self._term.lose(f"the election ended: {error!r}")


class _Over(BaseException):
    """The Lease was given back: ends the election's thread."""


class _Term:
    """How long we may act: from the first renewal on until `deadline` seconds after the last one was sent."""

    def __init__(self, identity: str, deadline: float) -> None:
        self.identity = identity
        self.begun = threading.Event()
        self.ended = False
        self._deadline = deadline
        self._until = 0.0

    @property
    def is_on(self) -> bool:
        """Whether it began, and was not given up; its deadline may have passed."""
        return self.begun.is_set() and not self.ended

    @property
    def left(self) -> float:
        """Seconds, on the boot clock."""
        return 0.0 if self.ended else self._until - boot_clock()

    def renewed(self, sent: float) -> None:
        """The server took a renewal that was sent at that moment."""
        self._until = sent + self._deadline
        self.begun.set()

    def watch(self) -> None:
        """End the process when the deadline passes, whatever its other threads do."""
        while not self.ended:
            left = self.left
            if left <= 0:
                self.lose("it was not renewed before the deadline")
            time.sleep(max(0.0, min(left, LOOK)))

    def lose(self, why: str) -> None:
        """End the process, now: no handler, no logger's lock and no thread may stand in the way."""
        if not self.ended:
            os.write(2, f"{datetime.now(UTC).isoformat()} CRITICAL lease: {why}; {self.identity} ends\n".encode())
            os._exit(LOST)


class _Lock:
    """The library's lock, by the boot clock.

    The library counts how long it saw no renewal on the wall clock, and by its own duration: a clock that is set
    forward would let it take the Lease of a living holder, one that is set back would keep it from a dead one's. Here
    another's Lease runs out when it was seen unchanged for as long as *its* duration says, and ours.
    """

    def __init__(
        self, name: str, namespace: str, times: LeaseTimes, term: _Term, configuration: client.Configuration
    ) -> None:
        self.name, self.namespace, self.identity = name, namespace, term.identity
        self._calls = _Calls(configuration, times.retry)
        self._library = cast(Any, LeaseLock(name, namespace, term.identity))
        self._library.api_instance = self._calls
        self._duration = float(times.duration)
        self._term = term
        self._turn = threading.Lock()
        self._version = ""
        self._unchanged_since = 0.0
        self._free = False
        self._said = ""

    def get(self, name: str, namespace: str) -> tuple[bool, Any]:
        """The Lease as the election should see it: without a holder once it has run out."""
        with self._turn:
            self._go_on()
            found, answer = self._library.get(name, namespace)
            if found:
                return True, self._judged(answer)
            self._free = answer.status == _NOT_FOUND
            if not self._free:
                self._say(f"it can't be read: {self._calls.trouble}")
            return False, answer

    def create(self, name: str, namespace: str, election_record: LeaderElectionRecord) -> bool:
        """Ours, if nobody was faster."""
        return self._written(lambda: self._library.create(name, namespace, election_record))

    def update(self, name: str, namespace: str, updated_record: LeaderElectionRecord) -> bool:
        """Taken or renewed, if nobody wrote it since `get`: its resourceVersion is sent along."""
        return self._written(lambda: self._library.update(name, namespace, updated_record))

    def give_back(self) -> None:
        """End the term and take our name off the Lease. A renewal that is under way ends first, none follows."""
        with self._turn:
            self._term.ended = True
            try:
                found, record = self._library.get(self.name, self.namespace)
                lease = self._library.lease_reference
                if found and record.holder_identity == self.identity:
                    lease.spec.holder_identity = None
                    self._calls.replace_namespaced_lease(self.name, self.namespace, lease)
                    _LOG.info("the Lease is given back: %s", self.identity)
                    return
                trouble = self._calls.trouble if not found else f"{record.holder_identity} holds it"
            except client.ApiException:
                trouble = self._calls.trouble
            _LOG.warning("the Lease could not be given back, the next one waits for its end: %s", trouble)

    def _judged(self, record: LeaderElectionRecord) -> LeaderElectionRecord:
        version, now = self._library.lease_reference.metadata.resource_version, boot_clock()
        if version != self._version:
            self._version, self._unchanged_since = version, now
        holder = record.holder_identity
        if holder in (None, self.identity):
            self._free = True
            return record
        if self._term.is_on:
            self._term.lose(f"{holder} holds it")
        lasts = max(self._duration, float(record.lease_duration or 0))
        self._free = now - self._unchanged_since >= lasts
        if not self._free:
            self._say(f"{holder} holds it")
            return record
        self._say(f"{holder} did not renew it for {lasts:g} s: taking over")
        return LeaderElectionRecord(None, None, None, None)

    def _written(self, write: Callable[[], bool]) -> bool:
        with self._turn:
            self._go_on()
            if not self._free:
                return False  # the wall clock was set forward: to the library it has run out, to us it has not
            sent = boot_clock()
            done = write()
            if done:
                self._term.renewed(sent)
                self._said = ""
            else:
                self._say(f"it can't be written: {self._calls.trouble}")
            return done

    def _go_on(self) -> None:
        if self._term.ended:
            raise _Over

    def _say(self, what: str) -> None:
        """Once, until something else is to be said: this comes by every second."""
        if what != self._said:
            self._said = what
            _LOG.warning("Lease %s/%s: %s", self.namespace, self.name, what)


class _Calls:
    """The three calls that the library's lock makes: each has a time-out, and leaves a word about what went wrong."""

    def __init__(self, configuration: client.Configuration, timeout: int) -> None:
        self._api = client.CoordinationV1Api(client.ApiClient(configuration))
        self._timeout = (timeout, timeout)
        self.trouble = ""

    def read_namespaced_lease(self, name: str, namespace: str) -> Any:
        return self._call(self._api.read_namespaced_lease, name, namespace)

    def create_namespaced_lease(self, namespace: str, body: Any) -> Any:
        return self._call(self._api.create_namespaced_lease, namespace, body)

    def replace_namespaced_lease(self, name: str, namespace: str, body: Any) -> Any:
        return self._call(self._api.replace_namespaced_lease, name, namespace, body)

    def _call(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Raises ApiException only, as the library expects; with status 0 if there was no answer."""
        try:
            return call(*arguments, _request_timeout=self._timeout)
        except client.ApiException as refusal:
            self.trouble = ": ".join(filter(None, (f"{refusal.status} {refusal.reason}", _message(refusal))))
            raise
        except HTTPError as error:
            self.trouble = str(error)
            silence = client.ApiException(status=0, reason=self.trouble)
            silence.body = '{"code": 0}'
            raise silence from error


def _message(refusal: client.ApiException) -> str:
    """What a Status says: who lacks which right where, for one. Empty: it is none."""
    try:
        return str(json.loads(refusal.body or "")["message"])
    except (ValueError, TypeError, KeyError):
        return ""


def found_configuration() -> client.Configuration:
    """As a service account, or by the kubeconfig. Raises ConfigException if there is neither."""
    ours = client.Configuration()
    with contextlib.suppress(config.ConfigException):
        config.load_incluster_config(client_configuration=ours)
        return _impatient(ours)
    config.load_kube_config(client_configuration=ours)
    return _impatient(ours)


def _impatient(configuration: client.Configuration) -> client.Configuration:
    """The HTTP library's three silent tries would use the deadline up."""
    configuration.retries = False
    return configuration
