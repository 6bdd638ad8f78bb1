"""Where the control plane's programs come from; a `go` of our own stands in for the real one, which takes minutes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed.go import GoMissing, found
from testbed.go_module import ProgramsUnavailable
from testbed.kubernetes import distribution
from testbed.kubernetes.distribution import PARTS, VERSION, Programs, fetch

# Says its version; builds by writing down where it was told to fetch and compile to.
GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version {version} linux/amd64"; exit; fi
mkdir -p "$GOMODCACHE" "$GOCACHE"
if {fails}; then echo "verifying module: checksum mismatch" >&2; exit 1; fi
while [ "$1" != -o ]; do shift; done
echo "$GOMODCACHE" > "$2"
chmod +x "$2"
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("KAFKA_RECOVERY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def install_go(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, version: str = "go1.99.1", fails: bool = False
) -> Path:
    folder.mkdir(exist_ok=True)
    program = folder / "go"
    program.write_text(GO.format(version=version, fails="true" if fails else "false"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin:/bin")
    return program


def test_what_is_built_once_is_taken_from_the_cache(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    install_go(tmp_path / "go", monkeypatch)

    built = fetch()

    said = capfd.readouterr().err
    assert said.startswith(f"Building Kubernetes {VERSION} with go1.99.1 linux/amd64. Once only: 4 to 12 minutes")
    assert "etcd, API server, controller manager and kubectl" in said.splitlines()[0]
    assert not built.missing
    assert (fetch(), capfd.readouterr().err) == (built, "")


def test_only_what_is_needed_stays_of_a_build(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_go(tmp_path / "go", monkeypatch)

    built = fetch()

    assert {path.name for path in cache.iterdir()} == {built.folder.name, "kubernetes-build.lock"}
    assert {path.name for path in built.folder.iterdir()} == {*PARTS, "controlplane"}
    assert (built["kubectl"]).read_text().startswith(str(cache))


def test_another_go_is_another_build(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_go(tmp_path / "go", monkeypatch)
    one = fetch()
    install_go(tmp_path / "newer", monkeypatch, version="go1.99.2")

    assert fetch() != one
    assert not one.missing


def test_a_build_that_fails_says_why_and_leaves_what_it_fetched_to_the_next(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_go(tmp_path / "go", monkeypatch, fails=True)
    with pytest.raises(ProgramsUnavailable, match=f"Kubernetes {VERSION} can't be built(.|\n)*checksum mismatch"):
        fetch()
    assert (cache / "kubernetes-build" / "modules").is_dir()

    install_go(tmp_path / "go", monkeypatch)
    assert not fetch().missing
    assert not (cache / "kubernetes-build").exists()


def test_a_folder_that_was_named_must_hold_everything(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    for part in ("etcd", "kube-apiserver", "kubectl"):
        (assets / part).touch(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    with pytest.raises(ProgramsUnavailable, match=r"lacks kube-controller-manager: .* unset KUBEBUILDER_ASSETS"):
        fetch()

    (assets / "kube-controller-manager").touch(0o755)
    assert fetch() == Programs(assets)
    assert not cache.exists()


@pytest.mark.parametrize("useless", ["go1.25.9", "go1.26rc1", "devel"])
def test_where_the_systems_go_is_too_old_the_packages_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, useless: str
) -> None:
    old = install_go(tmp_path / "go", monkeypatch, version=useless)

    go = found((1, 26, 0))

    assert go.program != old
    assert go.release >= (1, 26, 0)


def test_a_go_that_does_not_work_is_passed_by_and_named_where_none_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = install_go(tmp_path / "go", monkeypatch)
    program.write_text("#!/bin/sh\nexit 127\n")

    with pytest.raises(GoMissing, match=r"Go 99\.0 or newer is needed; .*does not work.*, .* is go1\.\d+"):
        found((99, 0))


def test_the_source_names_the_release_and_the_go_it_needs() -> None:
    assert VERSION.count(".") == 2
    assert distribution.SOURCE.joinpath("go.sum").read_text().count(f"k8s.io/kubernetes v{VERSION} ") == 1
