"""Running Kafka's classes on the fetched Java."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.distribution import Distribution

HEAP = 256
PATIENCE = 120.0
LOGGING = """\
<Configuration status="ERROR" shutdownHook="disable">
  <Appenders>
    <File name="file" fileName="${sys:testbed.log}">
      <PatternLayout pattern="%d{ISO8601} %-5p %c{1}: %m%n"/>
    </File>
  </Appenders>
  <Loggers>
    <Root level="WARN"><AppenderRef ref="file"/></Root>
    <Logger name="kafka.server.KafkaRaftServer" level="INFO"/>
    <Logger name="kafka.server.ReplicaFetcherThread" level="INFO"/>
    <Logger name="org.apache.kafka.controller" level="INFO"/>
    <Logger name="org.apache.kafka.storage.internals.epoch" level="INFO"/>
    <Logger name="org.apache.kafka.storage.internals.log.UnifiedLog" level="INFO"/>
  </Loggers>
</Configuration>
"""


class JavaFailed(RuntimeError):
    """A Java program that should have ended well did not; carries what it printed."""


@dataclass(frozen=True, slots=True)
class Java:
    """The Java of a distribution with its jars; `options` are further JVM options."""

    distribution: Distribution
    options: tuple[str, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the caller's: a JAVA_TOOL_OPTIONS of this shell must not decide how a test's broker runs."""
        return {"CLASSPATH": self.distribution.classpath}

    def command(self, home: Path, heap: int, *arguments: str) -> tuple[str, ...]:
        """A command line whose logs go to `home`; `heap` in MiB, `arguments` from the main class on."""
        logging = home / "log4j2.xml"
        logging.write_text(LOGGING)
        return (
            str(self.distribution.java),
            "-Xms64m",
            f"-Xmx{heap}m",
            "-XX:+ExitOnOutOfMemoryError",
            # A test's broker lives for seconds: the time goes into starting, not into peak speed.
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
            # Kafka's jars do what newer Javas warn of.
            "--sun-misc-unsafe-memory-access=allow",
            "--enable-native-access=ALL-UNNAMED",
            f"-Dlog4j2.configurationFile={logging}",
            f"-Dtestbed.log={home / 'server.log'}",
            *self.options,
            *arguments,
        )

    def run(self, home: Path, *arguments: str) -> str:
        """What it printed; JavaFailed unless it ends well, subprocess.TimeoutExpired if not within two minutes."""
        done = subprocess.run(
            self.command(home, HEAP, *arguments),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode:
            raise JavaFailed(f"{' '.join(arguments)} ended with status {done.returncode}:\n{done.stdout}")
        return done.stdout

    def format_controller(self, home: Path, cluster_id: str, voters: str, features: Mapping[str, int]) -> None:
        """Lets StorageTool write the metadata that `home`'s server.properties start with.

        `voters` are id@host:port:directory, with commas; JavaFailed if StorageTool objects.
        """
        chosen = [word for name, level in features.items() for word in ("--feature", f"{name}={level}")]
        where = (
            "--config",
            str(home / "server.properties"),
            "--cluster-id",
            cluster_id,
            "--initial-controllers",
            voters,
        )
        self.run(home, "kafka.tools.StorageTool", "format", *where, *chosen)
