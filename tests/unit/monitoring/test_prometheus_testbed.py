"""Where Prometheus can't be had, one sentence says why, and nothing half is left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed import prometheus
from testbed.prometheus import PrometheusUnavailable, fetch


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache, and a machine that calls itself Debian 99."""
    monkeypatch.setenv("KAFKA_RECOVERY_CACHE", str(tmp_path / "cache"))
    release = tmp_path / "os-release"
    release.write_text('ID=debian\nVERSION_ID="99"\nPRETTY_NAME="Debian 99"\n')
    monkeypatch.setattr(prometheus, "OS_RELEASE", release)
    return tmp_path / "cache"


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """Programs of the machine, as shell scripts; there are no others but coreutils."""
    programs = folder / "programs"
    programs.mkdir()
    for name, script in scripts.items():
        (programs / name.replace("_", "-")).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name.replace("_", "-")).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/bin" if scripts else str(programs))


def test_a_system_without_apt_is_told_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch)

    with pytest.raises(PrometheusUnavailable, match="packages; Debian 99 has no apt-get"):
        fetch()


def test_a_system_that_tells_no_name_is_none_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "OS_RELEASE", tmp_path / "nothing")

    with pytest.raises(PrometheusUnavailable, match="this is neither"):
        fetch()


def test_apts_own_words_are_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_cache: Path) -> None:
    installed(tmp_path, monkeypatch, apt_get="echo 'E: Could not resolve the mirror' >&2; exit 100", dpkg_deb="exit 0")

    with pytest.raises(PrometheusUnavailable, match="apt-get failed: E: Could not resolve the mirror"):
        fetch()
    assert [each.name for each in empty_cache.iterdir() if each.is_dir()] == []


def test_packages_that_lack_a_program_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_cache: Path
) -> None:
    installed(tmp_path, monkeypatch, apt_get="/bin/touch one.deb", dpkg_deb='/bin/mkdir -p "$3"')

    with pytest.raises(PrometheusUnavailable, match="lack prometheus, promtool, prometheus-alertmanager"):
        fetch()
    assert not (empty_cache / "prometheus-debian-99").exists()
