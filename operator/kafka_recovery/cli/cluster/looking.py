"""The commands that change nothing: they open a cluster, but use neither its elections nor a journal."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kafka_recovery.cli.cluster import kept_plans, plan_files
from kafka_recovery.cli.cluster.journal_place import user
from kafka_recovery.cli.cluster.wiring import OpenCluster, Target, open_kafka
from kafka_recovery.cli.terminal import inputs
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.explained import explanation_table
from kafka_recovery.cli.terminal.inputs import Attesting, Wanted, check_hosts, read_policy
from kafka_recovery.cli.terminal.new_files import read_text, refuse_existing, write_new
from kafka_recovery.cli.terminal.reasons import Told, grouped
from kafka_recovery.cli.terminal.render import Output, write_result
from kafka_recovery.cli.terminal.running import Refusal
from kafka_recovery.cli.terminal.tables import evidence_table, plan_table
from kafka_recovery.cli.terminal.text import complain, narrate
from kafka_recovery.cli.terminal.words import needs_approval, seconds
from kafka_recovery.cluster.drivers import Driver
from kafka_recovery.decision.attesting import attested
from kafka_recovery.decision.bad_leaders import Against, against
from kafka_recovery.decision.card import AtHand, last_resort
from kafka_recovery.decision.explanation import explain as explained
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.attestation import Attestation
from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Plan, Verdict
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument, as_data


@dataclass(frozen=True, slots=True)
class Which:
    """The three ways to name partitions, as given; at most one may be used.

    `topic`: of `partitions` that are numbers. `named`: the one partition that explain takes without an option.
    """

    all_offline: bool
    partitions: tuple[str, ...]
    file: Path | None
    topic: str | None = None
    named: str | None = None

    def or_all(self) -> Which:
        """To look at: without a name every offline partition is meant."""
        named = self.all_offline or self.partitions or self.file or self.topic is not None
        return self if named else replace(self, all_offline=True)

    def wanted(self) -> Wanted:
        """What they say together; raises InvalidDocument."""
        return inputs.wanted(self.all_offline, inputs.of_topic(self.topic, self.partitions), self.file)

    def one(self) -> TopicPartition:
        """The one partition that they say, to be explained; raises InvalidDocument for none or several."""
        given = [*([] if self.named is None else [self.named]), *inputs.of_topic(self.topic, self.partitions)]
        if len(given) != 1:
            found = "no partition is named" if not given else f"{len(given)} partitions are named: {', '.join(given)}"
            raise InvalidDocument(f"{found}; explain takes one, as orders-17 or as --topic orders --partition 17")
        return inputs.partition(given[0])

    def __str__(self) -> str:
        """As it was typed."""
        words = ["--all-offline-partitions"] if self.all_offline else []
        words += [] if self.topic is None else [f"--topic {shlex.quote(self.topic)}"]
        words += [f"--partition {shlex.quote(partition)}" for partition in self.partitions]
        return " ".join(words + ([f"--path-to-json-file {shlex.quote(str(self.file))}"] if self.file else []))


async def inspect(
    open_cluster: OpenCluster | None, target: Target, policy_file: Path | None, which: Which, output: Output
) -> ExitCode:
    """Gather and show."""
    policy = read_policy(policy_file)
    scope = which.or_all().wanted().scope
    evidence = await gather(open_cluster, target, policy, scope)
    write_result(output, as_data(evidence), evidence_table(evidence))
    return all_seen(evidence)


_NOTHING = Attesting()
_NOT_YET = "once you execute this plan, and not before"
_INTERRUPT = "press Ctrl-C there; what is under way then is brought to its end."
_HELPED = (Verdict.ELECT, Verdict.NOTHING)
"""A leader is elected, or there is one."""


async def plan(
    open_cluster: OpenCluster | None,
    target: Target,
    policy_file: Path | None,
    which: Which,
    out: Path | None,
    output: Output,
    tells: bool = False,
    attesting: Attesting = _NOTHING,
) -> ExitCode:
    """Gather, decide and show. `out`: keep the plan as a file; `tells`: the exit code says if it leaves any offline."""
    policy = read_policy(policy_file)
    which = which.or_all()
    wanted = which.wanted()
    attestations = attesting.read(user())
    if out:
        refuse_existing(out)
    evidence = await gather(open_cluster, target, policy, wanted.scope, attestations)
    made = decide(evidence, policy, designated=wanted.designated)
    document = plan_files.plan_document(made)
    sound = not made.evidence.missing
    if out and sound:
        write_new(out, plan_files.as_text(document))
    following = _next(made, target, policy_file, f"{which}{attesting}", out) if sound else ""
    better = _better(made, target, policy_file, which, attesting) if sound else ""
    hand = AtHand(following, _NOT_YET, _INTERRUPT, better=better, only_plans=out is None)
    if (when := last_resort(made)) is None:
        when, following = "In place of executing it", better
    nothing = f"Next: nothing to execute.{_again(made, target, policy_file, f'{which}{attesting}')}"
    ending = f"{when or 'Next'}: {following}" if following else nothing if sound else ""
    write_result(output, document, plan_table(made, at_hand=hand), ending)
    code = all_seen(made.evidence)
    if out and not sound:
        complain(f"{out} was not written, because a partition that was named can't be looked at; leave it out")
    if tells and code is ExitCode.DONE and any(each.verdict not in _HELPED for each in made.decisions):
        return ExitCode.NOT_RECOVERED
    return code


async def explain(
    open_cluster: OpenCluster | None,
    target: Target,
    policy_file: Path | None,
    which: Which,
    plan_file: Path | None,
    journal: Path | None,
    output: Output,
    attesting: Attesting = _NOTHING,
) -> ExitCode:
    """Explain one decision of a plan file, of a plan of the journal, or of a fresh look."""
    id = which.one()
    attestations = attesting.read(user())
    if plan_file:
        refuse_to_attest(attesting, f"--plan {plan_file}")
    if plan_file and kept_plans.is_digest(plan_file):
        _, made = kept_plans.by_digest(journal, str(plan_file))
    elif plan_file:
        made = plan_files.read_plan(read_text(plan_file, plan_files.LARGEST_FILE), str(plan_file))
    elif target.bootstrap:
        policy = read_policy(policy_file)
        made = decide(await gather(open_cluster, target, policy, Scope((id,)), attestations), policy)
    else:
        raise InvalidDocument(
            "nothing to explain is named; give --plan FILE or --plan DIGEST, or --bootstrap-server to look now"
        )
    gone = next((missing for missing in made.evidence.missing if missing.id == id), None)
    if gone:
        raise Refusal(_unseen(gone.reason), f"{id} can't be looked at: {gone.reason}")
    if all(decision.id != id for decision in made.decisions):
        raise InvalidDocument(f"{plan_file}: the plan does not hold {id}")
    explanation = explained(made, id)
    write_result(output, as_data(explanation), explanation_table(explanation))
    return ExitCode.DONE


async def gather(
    open_cluster: OpenCluster | None,
    target: Target,
    policy: Policy,
    scope: Scope,
    attestations: Sequence[Attestation] = (),
) -> Evidence:
    """One look at the scope. It is announced once all that was given has been read and found right."""
    rules = policy.widest_evidence_rules
    async with (open_cluster or open_kafka)(target) as connection:
        narrate(f"asking the brokers (deadline {seconds(rules.deadline)}, {rules.attempts} attempts)")
        evidence = await connection.cluster.gather(scope, rules)
    check_hosts(evidence, attestations)
    return attested(evidence, attestations)


def refuse_to_attest(attesting: Attesting, plan: str) -> None:
    """Raise InvalidDocument if anything is attested of a plan that is made already."""
    if attesting.given:
        raise InvalidDocument(
            f"{plan} holds what was attested when that plan was made; to attest something else, make a new plan:"
            f" kafka-recovery plan …{attesting}"
        )


def all_seen(evidence: Evidence) -> ExitCode:
    """DONE; or name what can't be looked at: a mistyped name must not look like a partition that is well."""
    missing = evidence.missing
    for sentence in grouped(Told(each.id, each.reason, " can't be looked at") for each in missing):
        complain(sentence)
    return min((_unseen(each.reason) for each in missing), default=ExitCode.DONE)


def _unseen(reason: Reason) -> ExitCode:
    """Whose it is to put right that a partition can't be looked at: who named it, or who gives out ACLs."""
    return ExitCode.NOT_LET_IN if reason.code.endswith("AuthorizationFailed") else ExitCode.BAD_INPUT


def _next(made: Plan, target: Target, policy_file: Path | None, which: str, out: Path | None) -> str:
    """What to type next; empty: nothing. `which`: the options that name partitions, and what was attested."""
    if not made.elections:
        return ""
    if out is None:
        return f"{_planning(target, policy_file)} {which} --out plan.json"
    document = plan_files.plan_document(made)
    approval = f" --plan {document['digest']} --yes" if needs_approval(made) else ""
    return f"kafka-recovery execute {shlex.quote(str(out))} {reach(target)}{approval}"


def _again(made: Plan, target: Target, policy_file: Path | None, which: str) -> str:
    """What to type once something has changed; empty: it would show nothing else."""
    if all(each.verdict in _HELPED for each in made.decisions):
        return ""
    return f" To look again: {_planning(target, policy_file)} {which}"


def _planning(target: Target, policy_file: Path | None) -> str:
    return f"kafka-recovery plan {reach(target)}{f' --policy {shlex.quote(str(policy_file))}' if policy_file else ''}"


def _better(made: Plan, target: Target, policy_file: Path | None, which: Which, attesting: Attesting) -> str:
    """What leads to a plan with better leaders: the policy file was edited, or the partitions are named alone."""
    found = against(made)
    if found is Against.BETTER_PROOF:
        return f"{_planning(target, policy_file)} {which}{attesting}"
    if found is not Against.NAMED:
        return ""
    named = [f"--partition {shlex.quote(str(each.id))}" for each in made.decisions]
    alone = " ".join(named) if len(named) <= _NAMED else "--all-offline-partitions"
    return f"{_planning(target, policy_file)} {alone}{attesting}"


_NAMED = 8
"""So many partitions are named in a command."""


def reach(target: Target) -> str:
    """The options that reach this cluster again, to be pasted into a shell."""
    config = f" --command-config {shlex.quote(str(target.command_config))}" if target.command_config else ""
    chosen, key = target.kip_1275.driver, target.kip_1275.replica_log_info_key
    driver = "" if chosen is Driver.AUTO else f" --driver {chosen}"
    log_info = "" if key is None else f" --replica-log-info-api-key {key}"
    controllers = f" --bootstrap-controller {shlex.quote(target.controllers)}" if target.controllers else ""
    if target.controller_config:
        controllers += f" --controller-config {shlex.quote(str(target.controller_config))}"
    return f"--bootstrap-server {shlex.quote(target.bootstrap)}{config}{controllers}{driver}{log_info}"
