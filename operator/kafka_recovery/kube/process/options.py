"""Options of `kafka-recovery-operator` that no other process of ours has; those of both are in `starting`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafka_recovery.recovery.supervision import Authority

MostAuthority = Annotated[
    Authority,
    typer.Option(
        help="The most that any cluster's spec.authority and any rule can allow.", envvar="KAFKA_RECOVERY_AUTHORITY"
    ),
]
Home = Annotated[
    str,
    typer.Option(metavar="NAME", help="Namespace of the Lease and the operator's ConfigMap.", envvar="POD_NAMESPACE"),
]
Name = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="Name of the Lease, and of the ConfigMap whose key suspend stops all recoveries."
    ),
]
Probe = Annotated[str, typer.Option(metavar="DURATION", help="Time between two brief looks at each cluster.")]
Rescan = Annotated[
    str, typer.Option(metavar="DURATION", help="Time between two full looks at all partitions of a cluster.")
]
Evidence = Annotated[
    str,
    typer.Option(
        metavar="FOLDER", help="Keep evidence files of every cluster in this folder. [default: none are kept]"
    ),
]
EvidenceEvery = Annotated[str, typer.Option(metavar="DURATION", help="Time between two evidence files of a cluster.")]
EvidenceKeep = Annotated[
    str, typer.Option(metavar="DURATION", help="Age at which an evidence file is removed; empty: never.")
]
WebhookPort = Annotated[
    int,
    typer.Option(
        metavar="PORT",
        help="Listen here for Alertmanager's alerts, which wake watchers; 0: don't.",
        min=0,
        max=65535,
    ),
]
WebhookToken = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The bearer token that alerts must bring; two lines during a rotation."),
]
WebhookCertificate = Annotated[Path | None, typer.Option(metavar="FILE", help="The webhook's certificate, in PEM.")]
WebhookKey = Annotated[Path | None, typer.Option(metavar="FILE", help="The private key of that certificate, in PEM.")]
WebhookClientCa = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Let in only clients whose certificate is of this CA (mTLS).")
]
WebhookService = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Have this Service, which has no selector, lead to the process that holds the Lease; "
        "needs POD_NAME, POD_UID and POD_IP.",
    ),
]
