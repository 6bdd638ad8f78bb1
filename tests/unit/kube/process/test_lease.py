"""What of a Lease needs no server: its times, and a fence that is closed before and after."""

from __future__ import annotations

import pytest
from kubernetes import client

from kafka_recovery.kube.process.lease import Leader, LeaseLost, LeaseTimes, boot_clock


def test_we_stop_before_another_may_begin_and_not_at_the_first_hiccup() -> None:
    for duration in range(3, 61):
        times = LeaseTimes.of(duration)

        assert times.duration == duration
        assert times.deadline < duration, f"no margin: {times}"
        assert 2 * times.retry <= times.deadline, f"one lost renewal would be the end: {times}"


def test_the_usual_times_are_those_of_kubernetes_own_components() -> None:
    assert LeaseTimes.of(15) == LeaseTimes(15, 10, 2)


def test_a_lease_that_is_too_short_to_be_renewed_is_refused() -> None:
    with pytest.raises(ValueError, match="too short"):
        LeaseTimes.of(2)


def test_nothing_is_written_before_the_lease_is_ours_nor_after_it_was_given_back() -> None:
    leader = Leader("a-lease", "a-namespace", configuration=client.Configuration(host="http://127.0.0.1:1"))
    with pytest.raises(LeaseLost):
        leader.fence()

    leader.release()

    assert not leader.leads
    with pytest.raises(LeaseLost):
        leader.fence()


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('{"kind": "Status", "message": "leases is forbidden: User ann cannot get it"}', "cannot get it"),
        ("<html>Login please</html>", "403 Forbidden"),
        ("[]", "403 Forbidden"),
        (None, "403 Forbidden"),
    ],
)
def test_why_the_lease_can_not_be_read_is_told_in_the_servers_words(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, body: str | None, told: str
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        refusal = client.ApiException(403, "Forbidden")
        refusal.body = body
        raise refusal

    monkeypatch.setattr(client.CoordinationV1Api, "read_namespaced_lease", refuse)
    leader = Leader("a-lease", "a-namespace", configuration=client.Configuration(host="http://127.0.0.1:1"))

    leader.release()

    assert told in caplog.text


def test_no_retry_loop_may_swallow_a_lost_lease() -> None:
    assert not issubclass(LeaseLost, Exception)


def test_every_process_has_an_identity_of_its_own() -> None:
    configuration = client.Configuration(host="http://127.0.0.1:1")
    one, other = (Leader("a-lease", "a-namespace", configuration=configuration) for _ in range(2))

    assert one.identity != other.identity


def test_the_boot_clock_goes_on() -> None:
    assert boot_clock() <= boot_clock()
