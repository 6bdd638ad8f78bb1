"""Jars of Kafka that are no part of its server, each pinned to the byte."""

from __future__ import annotations

import hashlib
from pathlib import Path

from jgo.maven import MavenContext

from testbed.distribution import cache
from testbed.locks import locked


def jar(artifact: str, version: str, digest: str, *, classifier: str = "") -> Path:
    """From the cache or the registry; `digest`: its SHA-256. ValueError if it is not the pinned one."""
    repository = cache() / artifact
    with locked(cache() / f"{artifact}.lock"):
        context = MavenContext(repo_cache=repository, timeout=60)
        project = context.project("org.apache.kafka", artifact)
        found: Path = project.at_version(version).artifact(classifier=classifier).resolve()
        if hashlib.sha256(found.read_bytes()).hexdigest() != digest:
            found.unlink()
            raise ValueError(f"{found.name} is not the pinned one")
    return found
