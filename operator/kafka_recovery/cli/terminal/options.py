"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafka_recovery.cli.terminal.render import Output
from kafka_recovery.cli.terminal.text import keep_quiet, tell_of_requests
from kafka_recovery.cluster.drivers import HIGHEST_KEY, Driver
from kafka_recovery.cluster.kip_1275 import LOWEST_FREE_KEY

BootstrapServer = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT,…",
        envvar="KAFKA_RECOVERY_BOOTSTRAP_SERVER",
        help="Brokers to ask first; the others are found.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        envvar="KAFKA_RECOVERY_COMMAND_CONFIG",
        help="Security settings of the client, as Java properties: the file that Kafka's own tools take.",
    ),
]
BootstrapController = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-controller",
        metavar="HOST:PORT,…",
        help="The controllers' own listeners, all of them: their metadata log is the history that proofs stand on. It "
        "takes CLUSTER_ACTION there.",
    ),
]
ControllerConfig = Annotated[
    Path | None,
    typer.Option(
        "--controller-config",
        metavar="FILE",
        help="As --command-config, for the controllers. [default: what --command-config says]",
        show_default=False,
    ),
]
ExpectClusterId = Annotated[
    str | None,
    typer.Option("--expect-cluster-id", metavar="ID", help="Do nothing if the cluster that answers has another id."),
]
PolicyFile = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="A RecoveryPolicy, or its spec, in YAML. Without one: every topic, and a person approves every election.",
    ),
]
JournalDirectory = Annotated[
    Path | None,
    typer.Option(
        "--journal",
        metavar="DIR",
        help="Where plans are kept until all is done. [default: ${XDG_STATE_HOME:-~/.local/state}/kafka-recovery]",
        show_default=False,
    ),
]
DriverOption = Annotated[
    Driver,
    typer.Option(
        "--driver",
        help="How the designated leader is elected: by altering the assignment order while electing, or by KIP-1275's "
        "election. auto: the latter where the brokers offer it.",
    ),
]
ReplicaLogInfoKey = Annotated[
    int | None,
    typer.Option(
        "--replica-log-info-api-key",
        metavar="N",
        min=LOWEST_FREE_KEY,
        max=HIGHEST_KEY,
        help="The API key of GetReplicaLogInfo (KIP-1275) in this Kafka; brokers that list it are asked by it.",
    ),
]
Attest = Annotated[
    list[str] | None,
    typer.Option(
        "--attest",
        metavar="broker=ID:disk-lost",
        help="Say that this broker's disk is lost for good, so that nobody waits for it; may be repeated. An answer of "
        "that broker voids it.",
    ),
]
AttestReason = Annotated[
    str | None,
    typer.Option("--attest-reason", metavar="TEXT", help="How you know that what you attest is so. Needed with it."),
]
AttestFor = Annotated[
    str | None,
    typer.Option(
        "--attest-for",
        metavar="DURATION",
        help="How long it holds, from 1m to 24h. [default: 1h]",
        show_default=False,
    ),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        callback=tell_of_requests,
        help="Tell on stderr of each connection, request and answer, and when. Never what is in them.",
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        callback=keep_quiet,
        help="Tell nothing of the progress. Questions, errors, and what is left to do are told all the same.",
    ),
]
OutputForm = Annotated[Output, typer.Option("--output", "-o", help="The form of the result on stdout.")]
AllOffline = Annotated[
    bool, typer.Option("--all-offline-partitions", help="Every partition without a leader that the principal may see.")
]
Partitions = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        metavar="TOPIC-N|N",
        help="One partition, such as orders-17, or with --topic its number alone; may be repeated.",
    ),
]
Topic = Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="The topic of each --partition N.")]
PartitionFile = Annotated[
    Path | None,
    typer.Option(
        "--path-to-json-file",
        metavar="FILE",
        help='{"partitions": [{"topic": "orders", "partitions": [0, 3]}]}, or with designated leaders: '
        '{"partitions": [{"topic": "orders", "partition": 0, "designatedLeader": 1}]}.',
    ),
]
