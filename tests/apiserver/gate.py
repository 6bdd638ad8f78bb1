"""A gate at the API server's door: the write of one fact of a journal waits there for as long as a test likes.

A real admission webhook, so that the operator stands exactly before that write, with everything before it done.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kafka_recovery.kube.resources.kinds import GROUP, RECORDS, VERSION
from testbed.certificates import Authority
from testbed.kubernetes.kubectl import Kubectl
from testbed.ports import HOST
from testbed.waiting import wait_until
from unit.kube.journal.forging import forged_fact

FACT = "kafka-recovery.dev/fact"
LONGEST = 25.0
"""Seconds that a write is held at most: an API server waits no longer than 30 for a webhook."""
PROBE = "probe"


class Gate:
    """The RecoveryRecords of one namespace's journals pass here; `shut` names the fact that does not, until `open`.

    What was held when the gate opens is refused: it was the write of a process that the test has ended by then.
    """

    def __init__(self, kubectl: Kubectl, namespace: str, folder: Path) -> None:
        self._kubectl, self._namespace = kubectl, namespace
        self._authority = Authority.new(folder)
        self._shut = ""
        self._opened = threading.Event()
        self._seen: list[str] = []
        self._server = ThreadingHTTPServer((HOST, 0), self._handler())
        self._server.daemon_threads = True
        identity = self._authority.identity("gate")
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(identity.certificate, identity.key)
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="gate", daemon=True).start()
        self._kubectl.apply(self._webhook())
        probe = self._record(PROBE)
        wait_until("the gate is asked", lambda: self._kubectl.api.dry_run(probe), lambda _: PROBE in self._seen)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.set()
        self._kubectl.api.delete("validatingwebhookconfiguration", self._name)
        self._server.shutdown()
        self._server.server_close()

    def shut(self, fact: str) -> None:
        """From now on the first write of this fact waits here."""
        self._opened, self._shut = threading.Event(), fact

    def holds(self, fact: str, within: float = 60) -> None:
        """Wait until the write of this fact is here."""
        wait_until(f"{fact} is at the gate", lambda: self._seen, lambda seen: fact in seen, within)

    def open(self) -> None:
        """Refuse what is held and let pass what comes."""
        self._shut = ""
        self._opened.set()

    @property
    def _name(self) -> str:
        return f"gate-{self._namespace}"

    def _admit(self, fact: str) -> bool:
        held = fact == self._shut
        opened = self._opened
        self._seen.append(fact)
        return not (held and opened.wait(LONGEST))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        gate = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                request = asked["request"]
                allowed = gate._admit(request["object"]["metadata"]["labels"][FACT])
                answer = asked | {"request": None, "response": {"uid": request["uid"], "allowed": allowed}}
                raw = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:
                    return  # whoever asked is dead by now: that is what the gate is for

        return Handler

    def _record(self, fact: str) -> dict[str, Any]:
        made = forged_fact("ab" * 32, fact, b"{}")
        return made | {"metadata": {"name": fact, "labels": {FACT: fact}}}

    def _webhook(self) -> dict[str, Any]:
        trusted = base64.b64encode(self._authority.certificate.read_bytes()).decode()
        ours = {"apiGroups": [GROUP], "apiVersions": [VERSION], "resources": [RECORDS.plural]}
        rule = ours | {"operations": ["CREATE"]}
        webhook = {
            "name": "gate.testbed.local",
            "clientConfig": {"url": f"https://{HOST}:{self._server.server_port}/", "caBundle": trusted},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self._namespace}},
            "objectSelector": {"matchExpressions": [{"key": FACT, "operator": "Exists"}]},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 30,
            "failurePolicy": "Ignore",
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": self._name},
            "webhooks": [webhook],
        }
