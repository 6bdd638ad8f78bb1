"""Kafka's command-line tools, which are no part of its server: one jar more, pinned to the byte."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from testbed.distribution import Release, fetch
from testbed.java import Java
from testbed.pinned import jar

RELEASE = Release.named("4.0")
"""4.4.0's tools want a jar that no registry has."""

DIGEST = "b29fa502a76ebe37860a642720c883e8fbefec02880030642ad5363ca72743c4"
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class KafkaTools:
    """Kafka's own programs against one cluster; their logs go to `home`. `reached`: how they are told where it is."""

    bootstrap: str
    home: Path
    reached: str = "--bootstrap-server"

    def run(self, program: str, *words: str, given: str = "") -> str:
        """What it printed; RuntimeError unless it ends well."""
        return self._ran(f"org.apache.kafka.tools.{program}", self.reached, self.bootstrap, *words, given=given)

    def dumped(self, log: Path) -> str:
        """A file of the metadata log, as Kafka reads it."""
        return self._ran("kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(log))

    def typed(self, program: str, *words: str, heap: int = 256) -> tuple[tuple[str, ...], dict[str, str]]:
        """The command line of a main class, and its environment; `heap` in MiB."""
        java = Java(fetch(RELEASE))
        jars = java.environment["CLASSPATH"], str(jar("kafka-tools", RELEASE.version, DIGEST))
        return java.command(self.home, heap, program, *words), {"CLASSPATH": os.pathsep.join(jars)}

    def _ran(self, program: str, *words: str, given: str = "") -> str:
        command, environment = self.typed(program, *words)
        done = subprocess.run(
            command, env=environment, input=given, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{program} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout
