"""What our resources may say, field by field: the checks behind `resources`, and the mirror of the schemas in crds/.

What needs nothing but its fields is the value itself (`SaslSpec`, `History`); of the others `kinds` makes values.

The API server has checked an object against its schema already. It is checked again, because the schema installed may
be older or newer than this operator, and because a field that this version does not know may be a restriction.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from kafka_recovery.cluster.drivers import HIGHEST_KEY, Driver
from kafka_recovery.cluster.kip_1275 import LOWEST_FREE_KEY
from kafka_recovery.cluster.security import Mechanism
from kafka_recovery.domain.attestation import Attestation, Witness
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.formats import attestations
from kafka_recovery.formats.fields import ABSENT, Duration, Fields, Flag, OneOf, Text, Whole, wrong
from kafka_recovery.formats.policy_file import TOPIC
from kafka_recovery.recovery.supervision import Authority

WITH_PASSWORD = (Mechanism.PLAIN, Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)
_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_PORT = r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_BROKER_ID = Whole(0, 2**31 - 1)
MOST_PARTITIONS = 20_000
"""In the scope of one recovery; more must be split, or all offline ones be asked for."""
LONGEST_RECOVERY_NAME = 63
"""Characters: labels hold it."""

NAME = Text(rf"{_LABEL}(\.{_LABEL})*", 253, "an object's name")
RECOVERY_NAME = Text(NAME.pattern, LONGEST_RECOVERY_NAME, "a recovery's name")
SECRET_KEY = Text(r"[A-Za-z0-9._-]+", 253, "a key of a Secret")
UID = Text(r"[A-Za-z0-9-]+", 64, "an object's uid")
DIGEST = Text(r"[0-9a-f]{64}", 64, "a digest of 64 hexadecimal digits")
CLUSTER_ID = Text(r"[A-Za-z0-9._-]+", 64, "a cluster id of letters, digits, dots, underscores and dashes")
ADDRESS = Text(rf"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):{_PORT}", 261, "host:port, for example kafka-0.kafka:9092")
STRIMZI_CLUSTER = Text(NAME.pattern, 63, "the name of a Strimzi Kafka")
LISTENER = Text(r"[a-z0-9]+", 11, "the name of a listener: lower-case letters and digits")
USERNAME = Text(r"[^\x00-\x1f\x7f]+", 255, "a user's name")
APPROVER = Text(r"[^\x00-\x1f\x7f]+", 512, "the name of an authenticated user")
REASON = Text(None, 1024, "a reason")
HOW_KNOWN = Text(
    r"[^\x00-\x1f\x7f]*[^\x00-\x20\x7f][^\x00-\x1f\x7f]*",
    attestations.LONGEST_REASON,
    "one line that says how it is known",
)
MOMENT = Text(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}Z", 20, "a moment such as 2026-01-31T09:30:00Z")
MOST_ATTESTATIONS = 16


class Word(StrEnum):
    """What a person says to a plan."""

    APPROVE = "Approve"
    REFUSE = "Refuse"


class Metadata(BaseModel):
    """The API server's own part of an object, as far as we act on it. It may hold more."""

    model_config = ConfigDict(alias_generator=to_camel)

    namespace: Annotated[str, NAME]
    name: Annotated[str, NAME]
    uid: Annotated[str, UID]
    generation: int
    resource_version: str
    creation_timestamp: AwareDatetime
    deletion_timestamp: AwareDatetime | None = None
    finalizers: list[str] = []


class Envelope(BaseModel):
    """An object. `api_version` and `kind` are checked where they stand; items of a list may come without."""

    model_config = ConfigDict(alias_generator=to_camel)

    api_version: str | None = None
    kind: str | None = None
    metadata: Metadata
    spec: Any = None
    status: dict[str, Any] | None = None


class Reference(Fields):
    """Another object of the same namespace."""

    name: Annotated[str, NAME]


class SecretKey(Reference):
    """One value of a Secret of the same namespace."""

    key: Annotated[str, SECRET_KEY]


class CaSecret(SecretKey):
    """CA certificates, in PEM."""

    key: Annotated[str, SECRET_KEY] = "ca.crt"


class CertificateSecret(Reference):
    """A Secret with a client certificate and its private key, in PEM. The default keys are kubernetes.io/tls's."""

    cert_key: Annotated[str, SECRET_KEY] = Field(alias="certKey", default="tls.crt")
    key_key: Annotated[str, SECRET_KEY] = Field(alias="keyKey", default="tls.key")


class TlsFields(Fields):
    """Whom to trust and who we are."""

    ca_secret_ref: CaSecret | None = None
    cert_secret_ref: CertificateSecret | None = None


class SaslSpec(Fields):
    """A user, and where the password is."""

    mechanism: Annotated[Mechanism, OneOf(Mechanism, WITH_PASSWORD)]
    username: Annotated[str, USERNAME]
    password: SecretKey = Field(alias="passwordSecretRef")


class ControllersFields(Fields):
    """The controllers' own listeners, and how to get in there."""

    bootstrap_servers: Annotated[list[Annotated[str, ADDRESS]], Field(min_length=1, max_length=64)] = ABSENT
    tls: TlsFields | None = None
    sasl: SaslSpec | None = None


class StrimziRef(Fields):
    """A Kafka of Strimzi's in the same namespace. `listener` None: `strimzi` chooses; `user`: a KafkaUser's name.

    Its listeners are named as Strimzi allows.
    """

    name: Annotated[str, STRIMZI_CLUSTER]
    listener: Annotated[str | None, LISTENER] = None
    user: Annotated[str | None, NAME] = None


class History(Fields):
    """How long finished recoveries are kept: `lossy_ttl` those that may have lost records; at most `limit` of them."""

    ttl: Annotated[timedelta, Duration("87600h", shortest="0s")] = timedelta(days=7)
    lossy_ttl: Annotated[timedelta, Duration("87600h", shortest="0s")] = Field(
        alias="lossyTTL", default=timedelta(days=90)
    )
    limit: Annotated[int, Whole(0, 10_000)] = 100

    @model_validator(mode="after")
    def _lossy_ones_longest(self) -> Self:
        if self.lossy_ttl < self.ttl:
            raise wrong("lossyTTL must not be shorter than ttl: what may have lost records is kept at least as long")
        return self


class ClusterSpec(Fields):
    """A WatchedCluster's spec."""

    cluster_id: Annotated[str, CLUSTER_ID]
    bootstrap_servers: Annotated[list[Annotated[str, ADDRESS]], Field(min_length=1, max_length=64)] = ABSENT
    strimzi_ref: StrimziRef | None = None
    tls: TlsFields | None = None
    sasl: SaslSpec | None = None
    controllers: ControllersFields | None = None
    policy_ref: Reference | None = None
    authority: Annotated[Authority, OneOf(Authority)] = ABSENT
    driver: Annotated[Driver, OneOf(Driver)] = ABSENT
    replica_log_info_api_key: Annotated[int, Whole(LOWEST_FREE_KEY, HIGHEST_KEY)] = ABSENT
    suspend: Annotated[bool, Flag()] = ABSENT
    history: History = History()

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        if len({"bootstrap_servers", "strimzi_ref"} & self.model_fields_set) != 1:
            raise wrong("give either bootstrapServers or strimziRef")
        if self.strimzi_ref and (self.tls or self.sasl):
            raise wrong("tls and sasl go with bootstrapServers only: with strimziRef they are Strimzi's")
        if self.controllers and not self.controllers.bootstrap_servers:
            if not self.strimzi_ref:
                raise wrong("controllers needs bootstrapServers: only with strimziRef they are found")
            if self.controllers.sasl:
                raise wrong("controllers.sasl goes with controllers.bootstrapServers only: Strimzi's have no SASL")
        return self


class ScopedPartition(Fields):
    """A partition to recover, and its next leader if a person names one."""

    topic: Annotated[str, TOPIC]
    partition: Annotated[int, _BROKER_ID]
    designated_leader: Annotated[int, _BROKER_ID] = ABSENT


class ScopeFields(Fields):
    """All offline partitions, or these."""

    all_offline: Annotated[bool, Flag(only=True)] = ABSENT
    partitions: Annotated[list[ScopedPartition], Field(min_length=1, max_length=MOST_PARTITIONS)] = ABSENT

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise wrong("give either allOffline or partitions")
        return self


class AttestationFields(Fields):
    """What a person says of a broker that no broker can say, and from when until when it holds."""

    broker: Annotated[int, _BROKER_ID]
    witness: Annotated[Witness, OneOf(Witness)]
    by: Annotated[str, APPROVER]
    reason: Annotated[str, HOW_KNOWN]
    at: Annotated[str, MOMENT]
    expires: Annotated[str, MOMENT]

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        try:
            lasts = datetime.fromisoformat(self.expires) - datetime.fromisoformat(self.at)
        except ValueError as impossible:
            raise wrong(f"at and expires must be moments that there are ({impossible})") from None
        if not attestations.SHORTEST_LASTS <= lasts <= attestations.LONGEST_LASTS:
            raise wrong(f"expires must be {attestations.SHORTEST} to {attestations.LONGEST} after at")
        return self

    def read(self) -> Attestation:
        """The same as the domain has it."""
        at, expires = datetime.fromisoformat(self.at), datetime.fromisoformat(self.expires)
        return Attestation(BrokerId(self.broker), self.witness, self.by, self.reason, at, expires)


class RecoverySpec(Fields):
    """A PartitionRecovery's spec."""

    cluster_ref: Reference
    cluster_id: Annotated[str, CLUSTER_ID]
    scope: ScopeFields
    ranking_ref: Reference | None = None
    attestations: Annotated[list[AttestationFields], Field(max_length=MOST_ATTESTATIONS)] = ABSENT
    suspend: Annotated[bool, Flag()] = ABSENT
    abort: Annotated[bool, Flag()] = ABSENT

    @model_validator(mode="after")
    def _each_broker_once(self) -> Self:
        named = Counter(each.broker for each in self.attestations or ())
        if twice := [broker for broker, times in named.items() if times > 1]:
            raise wrong(f"attestations name broker {twice[0]} twice")
        return self


class RecoveryReference(Fields):
    """Exactly one recovery: not one that was made later under the same name."""

    name: Annotated[str, RECOVERY_NAME]
    uid: Annotated[str, UID]


class ApprovalSpec(Fields):
    """A RecoveryApproval's spec."""

    recovery_ref: RecoveryReference
    plan_digest: Annotated[str, DIGEST]
    decision: Annotated[Word, OneOf(Word)]
    approver: Annotated[str, APPROVER]
    max_loss_class: Annotated[LossClass, OneOf(LossClass)] = ABSENT
    reason: Annotated[str, REASON] = ABSENT

    @model_validator(mode="after")
    def _limit_of_a_yes(self) -> Self:
        if self.decision is Word.REFUSE and "max_loss_class" in self.model_fields_set:
            raise wrong("maxLossClass goes with decision Approve only")
        return self
