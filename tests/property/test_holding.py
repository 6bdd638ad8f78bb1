"""Whatever is seen, the Pod of a broker that runs or is to lead is never held back."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from kafka_recovery.decision.holding import choose, may_return, runs
from kafka_recovery.decision.planner import decide
from kafka_recovery.decision.returns import elected_by_kafka
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.pods import BrokerPod, VolumeClaim
from kafka_recovery.domain.policy import Policy
from property.evidence import evidence, policies

pods = st.lists(
    st.builds(
        BrokerPod,
        st.integers(0, 5).map(BrokerId),
        st.sampled_from(("prod-a-1", "prod-b-1", None)),
        st.just("uid"),
        ready=st.booleans(),
        reason=st.sampled_from(("", "Terminating", "CrashLoopBackOff")),
        ephemeral=st.booleans(),
        controller=st.booleans(),
        claims=st.sampled_from(((), None, (VolumeClaim("data-0", "Bound"), VolumeClaim("data-1", "Terminating")))),
    ),
    max_size=6,
)


@given(evidence, policies, evidence, pods)
def test_who_runs_or_leads_or_is_no_member_is_never_held_back(
    seen: Evidence, policy: Policy, now: Evidence, pods: list[BrokerPod]
) -> None:
    plan = decide(seen, policy)
    brokers = may_return(plan)
    held = choose(brokers, now.cluster, pods, {})

    event(f"{bool(held.pods)}")
    members = {broker for each in seen.partitions if each.id in plan.elections for broker in elected_by_kafka(each)}
    leaders = {decision.leader for decision in plan.elections.values()}
    for each in held.pods:
        (pod,) = (pod for pod in pods if pod.broker == each.broker and pod.name)
        assert not pod.ready
        assert not pod.ephemeral
        assert not pod.controller
        assert pod.claims == ()
        assert each.broker in members - leaders
        assert not runs(now.cluster, each.broker)
    told = {each.broker for each in held.pods} | {each.broker for each in held.not_held}
    assert told == set(brokers)
