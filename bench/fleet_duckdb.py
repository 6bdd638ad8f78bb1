"""The ranking of `kafka_recovery_spark` once more, as SQL for DuckDB: what the job's cost is held against.

Written by hand after the guards of `decision`, for the bench only. Every run compares the two row for row, so a guard
that is changed there and not here ends the bench.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import duckdb

from kafka_recovery.domain.policy import Policy, Rule, TopicSelector

ALIVE = "coalesce({0}.broker_state.registered and not {0}.broker_state.fenced, false)"
BACK = f"(coalesce({{0}}.broker_state.reachable, false) or {ALIVE})"


def rank(files: Sequence[Path], policy: Policy, target: Path, threads: int) -> None:
    """Read, rank, and write a folder of Parquet files, as the job does."""
    with duckdb.connect(config={"threads": threads, "preserve_insertion_order": False}) as database:
        listed = ", ".join(f"'{file}'" for file in files)
        database.execute(
            f"copy ({sql(f'read_parquet([{listed}], hive_partitioning = false)', policy)}) to '{target}' "
            "(format parquet, compression snappy, per_thread_output)"
        )


def differences(one: Path, other: Path) -> tuple[int, int]:
    """How many rows there are in two folders of results, and how many stand in one of them only; whatever the order."""
    tables = [f"select {', '.join(COLUMNS)} from read_parquet('{folder}/*.parquet')" for folder in (one, other)]
    both = " union all ".join(f"({a} except all {b})" for a, b in (tables, tables[::-1]))
    with duckdb.connect() as database:
        rows = database.execute(f"select count(*) from ({tables[0]})").fetchall()[0][0]
        return int(rows), int(database.execute(f"select count(*) from ({both})").fetchall()[0][0])


COLUMNS = (
    "cluster_id", "topic", "topic_id", "partition", "leader_epoch", "rule", "verdict", "reason", "chosen", "best_first",
    "equals", "rejections", "log_end", "loss_class", "at_least", "at_most", "lacks",
)  # fmt: skip


def sql(source: str, policy: Policy) -> str:
    """The query; nobody was waited for yet."""
    return f"""
with ruled as (
  select *, cluster.id as cluster_id, leader is not null as is_led, {_rule(policy)} as rule from {source}
), placed as (
  select *, {_waits()} as waits, {_obstacle(policy)} as obstacle from ruled
), judged as (
  select *,
    case when is_led then null when rule is null then 'NoRule' when waits then 'ElectableBrokerReturning'
      else coalesce(obstacle, {_refusal()}) end as objection,
    not is_led and rule is not null and not waits and obstacle is null as is_weighed
  from placed
), examined as (
  select *, case when is_weighed then {_examined()} end as copies from judged
), chosen as (
  select *, case when objection is null then list_min(list_transform(list_filter(copies, lambda r: r.code is null),
    lambda r: {{keys: r.keys, r: r}})).r end as best from examined
), compared as (
  select *, case when best is not null then {_compared()} end as compared from chosen
), sorted as (
  select *, list_sort(list_transform(list_filter(compared, lambda r: r.code is null),
    lambda r: {{keys: r.keys, broker: r.broker, is_equal: {_is_equal()}}})) as sorted from compared
), ranked as (
  select *, list_transform(sorted, lambda r: r.broker) as ranked,
    list_position(list_transform(sorted, lambda r: r.is_equal), false) as first_other,
    list_filter({_held()}, lambda r: r."end" - r.start > r.held) as others
  from sorted
)
select cluster_id, topic, topic_id, partition, leader_epoch, coalesce(rule.name, '') as rule,
  case when is_led then 'Nothing' when waits then 'Wait'
    when best is not null then 'Elect' else 'Refuse' end as verdict,
  coalesce(objection, case when best is null and not is_led and not waits then 'NoCandidate' end) as reason,
  best.broker as chosen, coalesce(ranked, []) as best_first,
  coalesce(case when coalesce(first_other, 0) = 0 then ranked else ranked[: first_other - 1] end, []) as equals,
  coalesce(list_transform(list_filter(copies, lambda r: r.code is not null),
    lambda r: {{broker: r.broker, code: r.code}}), []) as rejections,
  best."end" as log_end, case when best is not null then 'Unknown' end as loss_class,
  case when best is not null then
    greatest(0, list_max(list_transform(witnessed_ends, lambda w: w."end")) - best."end") end as at_least,
  cast(null as bigint) as at_most,
  coalesce(list_transform(others, lambda r: {{
    broker: r.broker,
    from_offset: case when best.start > r.start or r.held = 0 then r.start
      else coalesce(r.common, least(best."end", r."end")) end,
    records: r."end" - r.start - r.held}}), []) as lacks
from ranked"""


def _rule(policy: Policy) -> str:
    whens = " ".join(f"when {_selects(rule.topics)} then {_struct(rule)}" for rule in policy.rules)
    return f"case {whens} end"


def _selects(topics: TopicSelector) -> str:
    ways = [f"topic = '{name}'" for name in topics.names]
    ways += [f"starts_with(topic, '{prefix}')" for prefix in topics.prefixes]
    return f"({' or '.join(ways)})" if ways else "true"


def _struct(rule: Rule) -> str:
    oldest = rule.evidence.max_age // timedelta(microseconds=1)
    return (
        f"{{name: '{rule.name}', min_replication_factor: {rule.min_replication_factor}, "
        f"candidate_order: '{rule.candidate_order}', patience: {rule.patience // timedelta(microseconds=1)}, "
        f"required_answers: '{rule.evidence.required_answers}', max_age: {oldest}}}"
    )


def _any(condition: str, among: str = "replicas") -> str:
    return f"coalesce(list_bool_or(list_transform({among}, lambda r: {condition})), false)"


def _waits() -> str:
    clean = f"(list_contains(isr, r.broker) or coalesce(list_contains(elr, r.broker), false)) and {BACK.format('r')}"
    return f"(not is_led and rule is not null and 0 < rule.patience and {_any(clean)} and not {_any('r.leads')})"


def _obstacle(policy: Policy) -> str:
    percent = policy.limits.brokers_down_percent
    return f"""case when cluster.controller_present = false then 'NoActiveController'
      when cluster.view_advances = false then 'BrokerCutOff'
      when {percent} * cluster.brokers_known::bigint < 100 * cluster.brokers_down::bigint
      then 'TooManyBrokersDown' end"""


UNPROMISED = "(r.log is not null and r.log.answered_under is distinct from leader_epoch)"
UNRANKED = """(r.log is not null and r.log.epochs is null and rule.candidate_order <> 'LongestLog')"""


def _refusal() -> str:
    silent = f"""case when not {ALIVE.format("r")} then null when r.log is null then 'LiveReplicaUnmeasured'
      when {UNPROMISED} then 'ReplicaOnOldEpoch' when {UNRANKED} then 'EpochVectorUnreadable' end"""
    old = "coalesce(epoch_us(r.log.observed_at) < epoch_us(cluster.observed_at) - rule.max_age, false)"
    return f"""case when len(replicas) < rule.min_replication_factor then 'ReplicationFactorTooLow'
      when not reassignment_known then 'AnswerIncomplete' when reassignment is not null then 'ReassignmentOngoing'
      when {_any("r.leads")} then 'OldLeaderAnswers' when {_any(old)} then 'EvidenceTooOld'
      when rule.required_answers = 'All' then
        list_filter(list_transform(replicas, lambda r: {silent}), lambda code: code is not null)[1] end"""


def _examined() -> str:
    code = f"""case when r.broker_state is not null and r.broker_state.registered is null then 'NotRegistered'
      when not coalesce(r.broker_state.registered, false) then 'NotRegistered'
      when coalesce(r.broker_state.fenced, true) then 'Fenced'
      when coalesce(r.broker_state.stopping, false) then 'BrokerStopping'
      when not coalesce(r.broker_state.reachable, false) then 'BrokerUnreachable'
      when r.broker_state.metadata_advances is null then 'MetadataAgeUnknown'
      when not r.broker_state.metadata_advances then 'BrokerCutOff'
      when r.problem.code = 'LogDirOffline' then 'LogDirOffline'
      when r.log is null then coalesce(r.problem.code, 'AnswerIncomplete')
      when {UNPROMISED} then 'ReplicaOnOldEpoch' when {UNRANKED} then 'EpochVectorUnreadable' end"""
    epoch, end = "coalesce(~r.log.last_epoch::bigint, 9223372036854775807)", '~r.log."end"'
    by_end = "rule.candidate_order = 'LongestLog'"
    keys = f"""{{a: case when {by_end} then {end} else {epoch} end,
      b: case when {by_end} then {epoch} else {end} end, c: position}}"""
    return f"""list_transform(replicas, lambda r, position: {{keys: {keys}, broker: r.broker, start: r.log.start,
      "end": r.log."end", epochs: r.log.epochs, code: {code}}})"""


def _is_equal() -> str:
    return f"""r.broker = best.broker or case
      when r."end" <> best."end" or r.start <> best.start or coalesce(r.common <> best."end", true) then false
      when r.epochs = best.epochs then true else {_written("r")} = {_written("best")} end"""


def _written(log: str) -> str:
    each = f"""list_transform({log}.epochs, lambda e, i: {{epoch: e.epoch, start: greatest(e.start, {log}.start),
      "end": coalesce({log}.epochs[i + 1].start, {log}."end")}})"""
    held = f'list_filter({each}, lambda e: e.start < e."end")'
    return f"list_transform({held}, lambda e: {{epoch: e.epoch, start: e.start}})"


def _common() -> str:
    epochs = "list_transform({0}.epochs, lambda e: e.epoch)"
    last = f"list_max(list_intersect({epochs.format('best')}, {epochs.format('r')}))"
    ends = [
        f"""{log}."end", list_min(list_transform(list_filter({log}.epochs, lambda e: e.epoch > last),
          lambda e: e.start))"""
        for log in ("best", "r")
    ]
    shared = f"list_transform([{last}], lambda last: case when last is not null then least({', '.join(ends)}) end)[1]"
    empty = 'best.start = best."end" and r.start = r."end" and best."end" = r.start'
    return f"""case when best.epochs = r.epochs then
        case when len(best.epochs) > 0 or {empty} then least(best."end", r."end") else 0 end
      when best.epochs <> r.epochs then coalesce({shared}, 0) end"""


def _compared() -> str:
    """Each copy with how far it is the same as the best one."""
    return f"""list_transform(copies, lambda r: {{keys: r.keys, broker: r.broker, start: r.start, "end": r."end",
      epochs: r.epochs, code: r.code, common: {_common()}}})"""


def _held() -> str:
    """The other copies that were measured, each with how many of its offsets the best one holds."""
    others = "list_filter(compared, lambda r: r.broker <> best.broker and r.start is not null)"
    held = 'greatest(coalesce(r.common, least(best."end", r."end")) - greatest(best.start, r.start), 0)'
    return f"""list_transform({others}, lambda r: {{broker: r.broker, start: r.start, "end": r."end",
      common: r.common, held: {held}}})"""
