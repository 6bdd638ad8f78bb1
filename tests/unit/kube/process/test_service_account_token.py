"""A service account's token: the kubelet renews its file, and what is on disk is what is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.process.session import ServiceAccountToken
from unit.kube.staged_server import object_, refusal, staged

COLLECTION = "/api/v1/namespaces/kafka/configmaps"
PATH = f"{COLLECTION}/plan"


async def test_a_renewed_token_is_used_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    monkeypatch.setattr(ServiceAccountToken, "AS_GOOD_AS_NEW", 0.0)
    async with staged(object_({"kind": "Lease"}), token=ServiceAccountToken(file)) as (api, server):
        await api.get(PATH)
        file.write_text("two\n")
        await api.get(PATH)

    assert [asked.authorization for asked in server.asked] == ["Bearer one", "Bearer two"]


async def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    async with staged(refusal(401), object_({"kind": "Lease"}), token=ServiceAccountToken(file)) as (api, server):
        file.write_text("new")
        await api.create(COLLECTION, {"kind": "ConfigMap"})

    assert [asked.authorization for asked in server.asked] == ["Bearer old", "Bearer new"]
    assert server.asked[1].body == {"kind": "ConfigMap"}


async def test_a_token_that_stays_refused_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    async with staged(refusal(401, "Unauthorized"), token=ServiceAccountToken(file)) as (api, server):
        with pytest.raises(ApiError, match="401"):
            await api.get(PATH)

    assert len(server.asked) == 1


async def test_a_file_that_is_gone_for_a_moment_is_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The kubelet swaps a link; whoever reads at that moment may find nothing."""
    file = tmp_path / "token"
    file.write_text("geheim")
    monkeypatch.setattr(ServiceAccountToken, "AS_GOOD_AS_NEW", 0.0)
    token = ServiceAccountToken(file)
    file.unlink()
    async with staged(object_({"kind": "Lease"}), token=token) as (api, server):
        await api.get(PATH)

    assert server.asked[0].authorization == "Bearer geheim"
    assert "can't be read again" in caplog.text
    assert "geheim" not in caplog.text + repr(token)
