"""One version, and workflows that can be trusted with a release."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from kafka_recovery.cli.main import app
from testbed.images import FLEET_JOB, OPERATOR, Image

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RELEASE = ROOT / ".github" / "workflows" / "release.yml"
OF_A_PROXY = {"PIP_CERT", "PIP_INDEX_URL"}
DIGEST = "sha256:" + "0123456789abcdef" * 4
TO_PUSH = {"contents": "read", "packages": "write"}
RIGHTS = {
    "images": TO_PUSH,
    "tags": TO_PUSH | {"id-token": "write"},
    "charts": TO_PUSH | {"id-token": "write"},
    "package": {"contents": "write", "id-token": "write", "attestations": "write"},
}
"""Of jobs of a release, beyond reading."""
HOSTS = re.compile(r"\b(?:ghcr|quay|docker|pypi|npmjs|gcr|registry)\.\w+(?:\.\w+)?/")


@cache
def workflow(file: Path) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(file.read_text())
    return read


def steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in workflow(file)["jobs"].values() for step in job["steps"]]


def test_the_command_says_the_version_of_pyproject() -> None:
    said = CliRunner().invoke(app, ["--version"])

    assert said.output.strip() == PROJECT["version"] == version(PROJECT["name"])


@pytest.mark.parametrize("chart", ["kafka-recovery-crds", "kafka-recovery-operator"])
def test_charts_have_that_version(chart: str) -> None:
    made = yaml.safe_load((ROOT / "charts" / chart / "Chart.yaml").read_text())

    assert made["version"] == made["appVersion"] == PROJECT["version"]


def test_images_that_are_built_without_being_told_have_it_too() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()

    assert re.findall(r"^ARG VERSION=(.*)$", dockerfile, re.MULTILINE) == [PROJECT["version"]]


def test_the_changelog_tells_of_this_version_and_has_a_place_for_what_comes() -> None:
    headings = re.findall(r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert headings[:2] == ["Unreleased", PROJECT["version"]]


@pytest.mark.parametrize("page", ["docs/how-to/helm.md", "docs/reference/commands.md", "docs/how-to/images.md"])
def test_pages_name_files_and_images_of_this_version(page: str) -> None:
    text = (ROOT / page).read_text()
    named = re.findall(r"kafka_recovery_operator-([\d.]+)-py3|kafka-recovery-(?:operator|fleet-job):([\d.]+\d)", text)

    assert {version for each in named for version in each if version} == {PROJECT["version"]}


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_may_read_and_a_job_says_what_it_may_beyond(file: Path) -> None:
    whole = workflow(file)
    beyond = {name: job["permissions"] for name, job in whole["jobs"].items() if "permissions" in job}

    assert whole["permissions"] == {"contents": "read"}
    assert beyond == (RIGHTS if file.stem == "release" else {})


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_actions_are_pinned_and_are_github_s_own(file: Path) -> None:
    used = [step["uses"] for step in steps(file) if "uses" in step]

    assert used
    assert [each for each in used if not re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", each)] == []
    pinned = re.findall(r"uses: (\S+@\S+ # v\d+\.\d+\.\d+)$", file.read_text(), re.MULTILINE)
    assert len(pinned) == len(used), "a commit is read as a version by nobody"


def test_one_action_is_one_commit() -> None:
    every = {line for file in WORKFLOWS for line in re.findall(r"uses: (\S+)@(\S+)", file.read_text())}

    assert len({name for name, _ in every}) == len(every)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_no_checkout_leaves_a_token_and_no_script_holds_an_expression(file: Path) -> None:
    """An expression inside a script is put there as text: a branch with a clever name would be run."""
    checkouts = [step for step in steps(file) if step.get("uses", "").startswith("actions/checkout@")]

    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    assert [step["run"] for step in steps(file) if "${{" in step.get("run", "")] == []


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_every_job_ends(file: Path) -> None:
    assert all(job["timeout-minutes"] <= 150 for job in workflow(file)["jobs"].values())


def test_nothing_is_published_before_everything_was_tested() -> None:
    jobs = workflow(RELEASE)["jobs"]

    assert all("test" in jobs[name]["needs"] for name in ("package", "charts", "images"))
    assert "images" in jobs["tags"]["needs"]


def test_what_is_published_is_signed_by_digest() -> None:
    """Whoever holds a tag may move it."""
    signed = re.findall(r"cosign\" sign (?:--\S+ )*(\S+)", RELEASE.read_text())

    assert signed == ['"$SIGNED"', '"$REPOSITORY/$chart@$digest"']
    assert 'echo "SIGNED=$IMAGE@' in RELEASE.read_text()


@pytest.mark.parametrize("word", ["--sbom true", "--provenance mode=max"])
def test_an_image_is_released_with_what_is_in_it_and_how_it_came_about(word: str) -> None:
    (build,) = [step["run"] for step in steps(RELEASE) if step.get("run", "").startswith("docker buildx build")]

    assert word in build


def test_each_architecture_is_built_on_a_machine_of_its_own() -> None:
    job = workflow(RELEASE)["jobs"]["images"]

    assert job["strategy"]["matrix"]["machine"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]
    assert job["runs-on"] == "${{ matrix.machine }}"
    assert "qemu" not in RELEASE.read_text()


def released_base(folder: Path, *, stands_in: str) -> subprocess.CompletedProcess[str]:
    """What the release takes for the base of an image; `stands_in` is what `docker` says it is asked and answers."""
    (docker := folder / "docker").write_text(f'#!/bin/sh\necho "$*" >&2\n{stands_in}\n')
    docker.chmod(0o755)
    (job,) = [each for name, each in workflow(RELEASE)["jobs"].items() if name == "images"]
    (script,) = [step["run"] for step in job["steps"] if "ARG BASE" in step.get("run", "")]
    surroundings = {
        "PATH": f"{folder}{os.pathsep}{os.defpath}",
        "GITHUB_ENV": str(folder / "environment"),
    }
    return subprocess.run(
        ["bash", "-e", "-c", script],  # as GitHub calls it
        cwd=folder,
        env=surroundings,
        capture_output=True,
        text=True,
    )


def test_an_image_is_released_on_a_base_with_a_digest(tmp_path: Path) -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    (tmp_path / "Dockerfile").write_text(re.sub(r"(?<=^ARG BASE=)([^@\n]+).*", r"\1", dockerfile, flags=re.MULTILINE))

    done = released_base(tmp_path, stands_in=f"echo '\"{DIGEST}\"'")

    assert done.returncode == 0, done.stderr
    assert done.stderr.split()[-1] == "debian:bookworm-slim"
    assert (tmp_path / "environment").read_text() == f"BASE=debian:bookworm-slim@{DIGEST}\n"


def test_a_base_that_was_pinned_and_reviewed_is_the_one_that_is_released(tmp_path: Path) -> None:
    pinned = f"debian:bookworm-slim@{DIGEST}"
    (tmp_path / "Dockerfile").write_text(f"ARG BASE={pinned}\nFROM ${{BASE}} AS runtime\n")

    done = released_base(tmp_path, stands_in="exit 1")

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "environment").read_text() == f"BASE={pinned}\n"


@pytest.mark.parametrize("stands_in", ["exit 1", "true", "echo latest"])
def test_nothing_is_released_on_a_base_without_one(stands_in: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("ARG BASE=debian:bookworm-slim\nFROM ${BASE} AS runtime\n")

    assert released_base(tmp_path, stands_in=stands_in).returncode != 0
    assert not (tmp_path / "environment").exists()


def test_what_is_released_is_built_on_that_base() -> None:
    (build,) = [step["run"] for step in steps(RELEASE) if step.get("run", "").startswith("docker buildx build")]

    assert '--build-arg BASE="$BASE"' in build
    assert '--target "$TARGET"' in build
    given = set(re.findall(r"--build-arg (\w+)=", build))
    assert given == set(re.findall(r"^ARG (\w+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)) - OF_A_PROXY


def test_every_image_is_released_from_a_stage_of_the_dockerfile() -> None:
    for job in ("images", "tags"):
        released = workflow(RELEASE)["jobs"][job]["strategy"]["matrix"]["image"]
        assert [Image(each["name"], each["target"]) for each in released] == [OPERATOR, FLEET_JOB]


@pytest.mark.parametrize("file", [*WORKFLOWS, ROOT / "renovate.json"], ids=lambda file: file.name)
def test_where_things_are_published_is_said_by_the_repository(file: Path) -> None:
    assert HOSTS.findall(file.read_text()) == []


def test_updates_are_looked_for_where_versions_are_pinned() -> None:
    assert set(json.loads((ROOT / "renovate.json").read_text())["enabledManagers"]) == {
        *("pep621", "gomod", "github-actions", "dockerfile", "custom.regex"),
    }


def test_programs_that_a_workflow_builds_are_updated_too() -> None:
    (manager,) = json.loads((ROOT / "renovate.json").read_text())["customManagers"]
    (pattern,) = (each.replace("?<", "?P<") for each in manager["matchStrings"])

    found = re.search(pattern, RELEASE.read_text())

    assert found
    assert re.fullmatch(r"v\d+\.\d+\.\d+", found["currentValue"])
