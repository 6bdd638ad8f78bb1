"""What can go wrong between us and a broker, in sentences a person can act on.

No error ever holds a password, a token, or the text of a broker that may quote one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from kafka.errors import for_code

from kafka_recovery.cluster.sockets import Address
from kafka_recovery.domain.reason import ClusterFault, Reason


class ClusterError(ClusterFault):
    """Anything this room raises. `reason` is the same as a word for machines and a sentence for people."""

    code: ClassVar[str] = "ClusterError"

    @property
    def reason(self) -> Reason:
        """The error as a part of evidence or of an outcome."""
        return Reason(self.code, str(self))


class InvalidConfiguration(ClusterError):
    """How to reach the cluster is not said right: a key, a store, a mechanism. Nothing was sent."""

    code = "InvalidConfiguration"


class ClusterUnavailable(ClusterError):
    """No broker of the cluster answered; `problems` says for each address why."""

    code = "ClusterUnavailable"

    def __init__(self, problems: Mapping[Any, Reason]) -> None:
        self.problems = dict(problems)
        each = "".join(f"\n  {_naming(address, reason.message)}" for address, reason in self.problems.items())
        super().__init__(f"none of {len(self.problems)} brokers answered:{each}" if each else "no broker answered")
        self.only_fault: ClusterError | None = None

    @classmethod
    def for_faults(cls, faults: Mapping[Any, ClusterError]) -> ClusterUnavailable:
        """`only_fault` is the fault, if there is but one."""
        error = cls({address: fault.reason for address, fault in faults.items()})
        error.only_fault = next(iter(faults.values())) if len(faults) == 1 else None
        return error


class StaleMetadata(ClusterError):
    """The broker asked has not applied what the controller had committed, so what it shows may be old."""

    code = "StaleMetadata"

    def __init__(self, address: object, applied: int, behind: str, otherwise: str = "") -> None:
        self.applied = applied
        super().__init__(
            f"{address} stands at metadata offset {applied}, {behind}: what it shows may be old. "
            f"Check that it reaches the controllers.{otherwise}"
        )

    @classmethod
    def behind_controller(cls, address: object, applied: int, committed: int | None) -> StaleMetadata:
        """The controller had committed more, or (None) does not answer this broker."""
        behind = f"the controller had committed {committed}" if committed is not None else "the controller"
        return cls(address, applied, behind if committed is not None else f"{behind} does not answer it")

    @classmethod
    def behind_earlier(
        cls, address: object, applied: int, seen: int, alone: tuple[object, timedelta] | None = None
    ) -> StaleMetadata:
        """A broker of this cluster showed more before, or a plan was made from more. `alone`: which broker alone said
        so, and how long that counts.
        """
        behind = f"this cluster's metadata were seen at offset {seen} before"
        if alone is None:
            otherwise = (
                " If this is said of every broker, either all that can be reached from here are cut off from the "
                "controllers, or brokers claimed more than there is: look at the quorum first (kafka-metadata-quorum "
                "describe --status). Where the quorum is whole, goes on and has no more, this ends after some minutes "
                "of looking again; where nothing is written to it, restart this program."
            )
            return cls(address, applied, behind, otherwise)
        who, lasts = alone
        otherwise = (
            f" Only {who} ever said that there are as many; if that broker does not say so again within "
            f"{lasts.total_seconds():g}s, and no other broker does, it is not believed any more. Look at {who} first."
        )
        return cls(address, applied, behind, otherwise)


class AheadOfController(ClusterError):
    """A broker says to have applied more than the controller has committed: its metadata are none of this cluster."""

    code = "AheadOfController"

    def __init__(self, address: object, applied: int, committed: int) -> None:
        self.applied = applied
        super().__init__(
            f"{address} says to have applied metadata offset {applied}, but the controller has committed {committed} "
            "only: what that broker shows is not believed; restart it, and if it goes on, have its disk checked"
        )


class MetadataLogUnavailable(ClusterError):
    """The controllers' metadata log could not be read, or not yet to its end: there is no history to prove anything."""

    code = "MetadataLogUnavailable"

    @classmethod
    def nobody_in_time(cls, upto: int, faults: Mapping[Any, Reason]) -> MetadataLogUnavailable:
        """Controllers go on being asked. `upto`: what is known of it by now; `faults`: of those that told nothing."""
        known = f"; it is known up to offset {upto}" if upto else ""
        so_far = f"; so far: {_each(faults)}" if faults else ""
        return cls(f"no controller has answered in time how far the metadata log reaches{known}{so_far}")

    @classmethod
    def nobody_leads(cls, faults: Mapping[Any, Reason]) -> MetadataLogUnavailable:
        """Each controller that was asked, and why it told nothing."""
        return cls(f"no controller told the metadata log: {_each(faults)}")


class NotCommittedYet(MetadataLogUnavailable):
    """A controller that has just begun to lead does not know what its predecessor had committed (KIP-595)."""

    def __init__(self, address: object, committed: int, before: int) -> None:
        known = f"up to offset {committed}" if committed >= 0 else "nowhere"
        super().__init__(
            f"{address} knows the metadata log to be committed {known}, and it was up to {before}; look again"
        )


class ClusterIdMismatch(ClusterError):
    """The cluster that answered is not the one that was meant."""

    code = "ClusterIdMismatch"

    def __init__(self, address: object, expected: str, found: str | None) -> None:
        super().__init__(
            f"{address} belongs to cluster {found or 'without an id'}, expected {expected}; check the bootstrap "
            "servers or the cluster id, nothing was changed"
        )


_FIRST_ASKED = "ApiVersions"


class BrokerTimeout(ClusterError):
    """No answer within the deadline. The broker is unknown, not empty."""

    code = "BrokerTimeout"

    def __init__(self, address: object, waited: timedelta, request: str | None = None) -> None:
        self.waited = waited
        self.request = request
        # Which step of a connection's beginning met the deadline says nothing to a person, and differs from run to run.
        asked = f" {request}" if request and request != _FIRST_ASKED else ""
        super().__init__(f"{address} did not answer{asked} within {waited.total_seconds():g}s")


class HostSilent(BrokerTimeout):
    """Nothing at all came back from the host of a broker that the controller has fenced. It is unknown, not empty."""

    def __init__(self, address: object, waited: timedelta) -> None:
        self.waited, self.request = waited, None
        told = f"nothing came back from its host within {waited.total_seconds():.2g}s, and the broker is fenced"
        ClusterError.__init__(self, f"{address}: {told}")


class BrokerUnreachable(ClusterError):
    """There is no connection: refused, reset, closed, or no such name. May be over in a moment."""

    code = "BrokerUnreachable"

    def __init__(self, address: object, what: str) -> None:
        self.address = address
        self.what = what
        super().__init__(f"{address}: {what}")

    def after(self, attempts: int, waited: timedelta) -> BrokerUnreachable:
        """The same, saying how often it was tried."""
        if attempts < 2:
            return self
        return type(self)(self.address, f"{self.what} ({attempts} attempts in {waited.total_seconds():.2g}s)")


class BrokerRefuses(BrokerUnreachable):
    """Nobody listens there: the process that did is gone, or does not listen yet."""


class AddressShared(ClusterError):
    """Several brokers are listed under one address: whose log is measured there can't be told, so it is nobody's."""

    code = "AnotherBroker"

    def __init__(self, address: object, brokers: Sequence[int]) -> None:
        named = ", ".join(map(str, brokers))
        super().__init__(
            f"brokers {named} are all listed at {address}, so which of them answers there can't be told; give each "
            "broker an address of its own in advertised.listeners"
        )


class AnotherBroker(ClusterError):
    """The broker that answers is not the one that is listed there: what it says is about its own logs."""

    code = "AnotherBroker"

    def __init__(self, address: object, broker: int, detail: str | None = None) -> None:
        said = _shortened(detail)
        super().__init__(
            f"broker {broker} is listed at {address}, but another broker answers there{f' ({said})' if said else ''}, "
            f"so nothing that it says is taken for broker {broker}'s; check advertised.listeners, and what leads to "
            "that address (a Service, a port-forward, a load balancer)"
        )

    @classmethod
    def same_epoch(cls, address: object, broker: int, others: Sequence[int], epoch: int) -> AnotherBroker:
        """Several brokers told the same broker epoch, which the controller gives to one of them only."""
        named = ", ".join(map(str, others))
        return cls(address, broker, f"brokers {named} all told the broker epoch {epoch}")


class BrokerRestarted(ClusterError):
    """It registered anew while it was asked: what it said before is about another incarnation (KIP-903)."""

    code = "BrokerRestarted"

    def __init__(self, address: object, before: int | None, now: int) -> None:
        super().__init__(
            f"{address} has broker epoch {now}, and had {before} a moment ago: it was restarted while its logs were "
            "measured; measure them again"
        )


class ConnectionsClosed(ClusterError):
    """This side has closed its connections for good; asking on is a mistake of the caller."""

    code = "InternalError"

    def __init__(self, address: object) -> None:
        super().__init__(f"{address}: all connections were closed by this side")


class AuthenticationFailed(ClusterError):
    """The broker, or the token endpoint, does not believe who we are."""

    code = "AuthenticationFailed"

    def __init__(self, where: object, what: str) -> None:
        super().__init__(f"{where}: {what}")


class TlsFailed(ClusterError):
    """The two sides do not trust each other's certificates, or one of them does not speak TLS."""

    code = "TlsFailed"

    def __init__(self, address: object, what: str) -> None:
        super().__init__(f"{address}: {what}")


class InvalidAnswer(ClusterError):
    """What came back is not an answer of Kafka to what was asked. The connection is not used again."""

    code = "InvalidAnswer"

    def __init__(self, address: object, what: str) -> None:
        super().__init__(f"{address}: {what}")


class UnsupportedRequest(ClusterError):
    """The broker can't be asked this without losing a part of the question. Nothing was sent."""

    code = "UnsupportedRequest"

    def __init__(self, address: object, request: str, what: str) -> None:
        self.address, self.request, self.what = address, request, what
        super().__init__(f"{request} to {address}: {what}")

    @classmethod
    def no_version(
        cls, address: object, request: str, ours: tuple[int, int], theirs: tuple[int, int] | None
    ) -> UnsupportedRequest:
        """No version in common; `theirs` None: the broker does not know the request at all."""
        wanted = f"v{ours[0]} to v{ours[1]} is needed"
        offered = f"the broker offers v{theirs[0]} to v{theirs[1]}" if theirs else "the broker does not offer it"
        return cls(address, request, f"{offered}, {wanted}; another Kafka release may do")

    def advising(self, what: str) -> UnsupportedRequest:
        """The same, saying what to do."""
        return type(self)(self.address, self.request, f"{self.what}; {what}")

    @classmethod
    def not_carried(cls, address: object, request: str, field: str, version: int) -> UnsupportedRequest:
        """The version would drop this field, or this value of it, without a word."""
        return cls(address, request, f"v{version} can't carry {field} as it is set; it would be dropped or refused")


class TooLate(ClusterError):
    """A look took too long, or what had to be sent soon was not: what was seen before would be too old by then."""

    code = "EvidenceTooOld"

    def __init__(self, within: timedelta) -> None:
        super().__init__(f"{within.total_seconds():g}s were over, and what was seen before is too old now")


class NotSent(ClusterError):
    """A request that may be sent only once was certainly never written: nothing has changed."""

    code = "NotSent"

    def __init__(self, request: str, why: ClusterError) -> None:
        self.why = why
        super().__init__(f"{request} was not sent: {why}")


class NotPermitted(ClusterError):
    """A request was not sent, because it was forbidden by then: nothing has changed. `reason` says what forbids it."""

    code = "NotSent"

    def __init__(self, why: Reason) -> None:
        self.why = why
        super().__init__(why.message)

    @property
    def reason(self) -> Reason:
        """What forbids it."""
        return self.why


class Unanswered(ClusterError):
    """A request that may be sent only once was written and not answered: it may still take effect.

    `relay`: the broker's address that it was sent to.
    """

    code = "InDoubt"

    def __init__(self, request: str, why: ClusterError, relay: Address | None = None) -> None:
        self.why = why
        self.relay = relay
        super().__init__(f"{request} was sent and may still take effect: {why}")


def _each(faults: Mapping[Any, Reason]) -> str:
    return "; ".join(_naming(address, reason.message) for address, reason in faults.items())


def _naming(address: object, message: str) -> str:
    """The message with the address before it, unless it begins with that already, as our own errors do."""
    return message if message.startswith(str(address)) else f"{address}: {message}"


_MISSING_ACL = {
    29: "DESCRIBE (to see it) or READ (to read its log) on the topic",
    30: "DESCRIBE on the group",
    31: "the cluster operation: DESCRIBE to look, ALTER to change, on the cluster",
    53: "DESCRIBE on the transactional id",
    65: "DESCRIBE on the delegation token",
}
"""Authorization codes, and what is missing unless the caller knows better."""

_LONGEST_DETAIL = 200
"""Characters of a broker's own text that are shown."""


def error_name(code: int) -> str:
    """Kafka's name of an error code, or UNKNOWN_ERROR_n for one that is newer than our table."""
    error = for_code(code)
    known = error.__name__ != "UnrecognizedBrokerError"
    return str(error.message) if known else f"UNKNOWN_ERROR_{code}"


def reason_for(code: int, what: str, *, needs: str | None = None, detail: str | None = None) -> Reason:
    """Say that `what` ("ListOffsets of orders-17 at broker 3") was answered with a Kafka error code.

    `needs`: the ACL it takes, operation and resource ("DESCRIBE on topic orders"). `detail`: the broker's own text;
    never shown for authorization codes, where it quotes the broker's internal request.
    """
    name = error_name(code)
    machine_code = "".join(word.capitalize() for word in name.split("_"))
    if code in _MISSING_ACL:
        acl = needs or _MISSING_ACL[code]
        return Reason(machine_code, f"{what}: not authorized ({code}); the principal lacks {acl}")
    said = _shortened(detail)
    return Reason(machine_code, f"{what}: Kafka answered {name} ({code})" + (f": {said}" if said else ""))


def _shortened(detail: str | None) -> str:
    """A broker's own text, as much of it as is shown."""
    return " ".join((detail or "").split())[:_LONGEST_DETAIL]
