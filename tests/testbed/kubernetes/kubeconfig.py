"""Kubeconfig files, which kubectl, kopf and client libraries read: who speaks to which API server, and the proof."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.certificates import Identity

NAME = "testbed"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API server and the authority that vouches for it; kubeconfigs for it are written to `folder`."""

    url: str
    authority: Path
    folder: Path

    def by_certificate(self, identity: Identity, namespace: str = "default") -> Path:
        """To Kubernetes the user is the certificate's CN, in the groups of its Os."""
        user = {"client-certificate": str(identity.certificate), "client-key": str(identity.key)}
        return self._written(f"{identity.name}.{namespace}", user, namespace)

    def by_token(self, name: str, token: str, namespace: str) -> Path:
        return self._written(f"{name}.{namespace}", {"token": token}, namespace)

    def _written(self, stem: str, user: dict[str, str], namespace: str) -> Path:
        cluster = {"server": self.url, "certificate-authority": str(self.authority)}
        content: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": NAME, "cluster": cluster}],
            "users": [{"name": NAME, "user": user}],
            "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": namespace}}],
            "current-context": NAME,
        }
        # $KUBECONFIG is a list with colons between.
        path = self.folder / f"{stem.replace(':', '-')}.kubeconfig"
        fresh = path.with_suffix(f".{uuid.uuid4().hex}")
        fresh.touch(0o600)
        fresh.write_text(json.dumps(content, indent=1))
        return fresh.replace(path)  # somebody may be reading it
