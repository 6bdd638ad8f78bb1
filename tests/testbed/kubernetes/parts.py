"""The command lines of a control plane's parts: all on loopback, everything else as a real cluster has it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from testbed.certificates import Authority, Identity
from testbed.ports import HOST, Ports

# Kubernetes's own groups and users; the rights of each come with the API server.
ADMINISTRATORS = "system:masters"
CONTROLLER_MANAGER = "system:kube-controller-manager"
ISSUER = "https://kubernetes.default.svc"
SERVICES = "10.96.0.0/16"  # handed out to Services, which nothing here carries traffic for
OWN_SERVICE = "10.96.0.1"
"""The first of them, of Service `kubernetes`: Pods are told to find the API server there, at port 443."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """One loopback port a listener, but that the API server's `host` may be another one."""

    etcd: int
    peers: int
    apiserver: int
    controllers: int
    host: str = HOST

    @classmethod
    def free(cls, ports: Ports) -> Addresses:
        return cls(ports.take(), ports.take(), ports.take(), ports.take())

    def for_pods(self) -> Addresses:
        """The API server where Pods look for it; OWN_SERVICE has to be an address of this machine."""
        return replace(self, host=OWN_SERVICE, apiserver=443)

    @property
    def etcd_url(self) -> str:
        return f"http://{HOST}:{self.etcd}"

    @property
    def peers_url(self) -> str:
        return f"http://{HOST}:{self.peers}"

    @property
    def apiserver_url(self) -> str:
        return f"https://{self.host}:{self.apiserver}"

    @property
    def controllers_url(self) -> str:
        return f"https://{HOST}:{self.controllers}"


@dataclass(frozen=True, slots=True)
class Identities:
    """Who is who: the servers' certificate, the administrator's, the controllers', the key that signs tokens."""

    authority: Authority
    server: Identity
    administrator: Identity
    controllers: Identity
    tokens: Identity

    @property
    def folder(self) -> Path:
        return self.authority.certificate.parent

    @classmethod
    def new(cls, folder: Path, host: str) -> Identities:
        folder.mkdir()
        authority = Authority.new(folder)
        return cls(
            authority,
            authority.identity("testbed:server", host=host),
            authority.identity("testbed:administrator", [ADMINISTRATORS]),
            authority.identity(CONTROLLER_MANAGER),
            authority.identity("testbed:tokens"),
        )


def etcd(addresses: Addresses, data: Path) -> tuple[str, ...]:
    return (
        "--name=etcd",
        f"--data-dir={data}",
        f"--listen-client-urls={addresses.etcd_url}",
        f"--advertise-client-urls={addresses.etcd_url}",
        f"--listen-peer-urls={addresses.peers_url}",
        f"--initial-advertise-peer-urls={addresses.peers_url}",
        f"--initial-cluster=etcd={addresses.peers_url}",
        "--unsafe-no-fsync",  # the machine's death may lose data here, the process's may not: that is all tests do
        "--log-level=warn",
    )


def apiserver(addresses: Addresses, identities: Identities) -> tuple[str, ...]:
    return (
        f"--etcd-servers={addresses.etcd_url}",
        f"--bind-address={addresses.host}",
        f"--advertise-address={addresses.host}",
        f"--secure-port={addresses.apiserver}",
        "--endpoint-reconciler-type=none",  # it refuses to publish a loopback address
        f"--service-cluster-ip-range={SERVICES}",
        *_served_as(identities.server),
        f"--client-ca-file={identities.authority.certificate}",
        "--authorization-mode=Node,RBAC",
        # Where it asks kubelets for logs, and as whom.
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={identities.administrator.certificate}",
        f"--kubelet-client-key={identities.administrator.key}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={identities.tokens.certificate}",
        f"--service-account-signing-key-file={identities.tokens.key}",
        "--shutdown-watch-termination-grace-period=1s",  # or else SIGTERM takes a minute, as long as anybody watches
        "--profiling=false",
    )


def controllers(addresses: Addresses, identities: Identities, kubeconfig: Path) -> tuple[str, ...]:
    """All controllers of a real cluster, each with its own service account's rights."""
    return (
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        f"--bind-address={HOST}",
        f"--secure-port={addresses.controllers}",
        *_served_as(identities.server),
        "--authentication-skip-lookup",
        "--use-service-account-credentials",
        f"--root-ca-file={identities.authority.certificate}",
        # A namespace a test is deleted: at the default rate of 20 requests a second that would pile up.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--profiling=false",
    )


def _served_as(server: Identity) -> tuple[str, ...]:
    return (f"--tls-cert-file={server.certificate}", f"--tls-private-key-file={server.key}")
