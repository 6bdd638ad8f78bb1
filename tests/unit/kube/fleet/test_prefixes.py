"""Where the operator reads results: below the folders of its own options, by their ways, and nowhere else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet.manifest import Expected
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.fleet.naming import job
from kafka_recovery.kube.fleet.prefixes import Prefixes
from kafka_recovery.kube.fleet.results import StoredResults
from unit.kube.fleet.asked import active, ranking

EXPECTED = Expected("rank", "run", "ab" * 32)
MINE = Prefixes.of(["s3://fleet/results?region=eu&scheme=http", "file:///var/lib/fleet/", "gs://other"])


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("s3://fleet/results", "s3://fleet/results?region=eu&scheme=http"),
        ("s3://fleet/results/nightly-1", "s3://fleet/results/nightly-1?region=eu&scheme=http"),
        ("file:///var/lib/fleet", "file:///var/lib/fleet"),
        ("file:///var/lib/fleet/a", "file:///var/lib/fleet/a"),
        ("gs://other/any/folder", "gs://other/any/folder"),
    ],
)
def test_below_a_folder_its_way_is_taken(url: str, address: str) -> None:
    assert MINE.addressed(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "s3://fleet",
        "s3://fleet/resultsets",
        "s3://another/results",
        "gs://fleet/results",
        "s3://fleet//results",
        "file:///etc/passwd",
        "file:///var/lib",
        "http://fleet/results",
        "s3://user@fleet/results",
    ],
)
def test_elsewhere_nothing_is_read(url: str) -> None:
    why = MINE.addressed(url)
    assert isinstance(why, Reason)
    assert (why.code, "lies below none of the folders" in why.message) == ("InvalidSpec", True)
    assert MINE.known(url) == url, "a driver has rights of its own"


@pytest.mark.parametrize(
    "url",
    [
        "s3://fleet/results?endpoint_override=evil:80",
        "s3://fleet/results/../secrets",
        "s3://fleet/results/./x",
        "file:///var/lib/fleet/%2e%2e/x",
        "file:///var/lib/fleet/../../../proc/self/environ",
        "s3://fleet/results#x",
    ],
)
def test_no_way_of_writing_leads_out_of_a_folder(url: str) -> None:
    why = MINE.addressed(url)
    assert isinstance(why, Reason)
    assert why.code == "InvalidSpec"


@pytest.mark.parametrize(
    "folder",
    ["", "results", "file:///", "file://host/x", "s3://", "http://b/x", "s3://u:p@b/x", "s3://b/../x", "s3://b/x?y"],
)
def test_an_option_that_names_no_folder_is_refused(folder: str) -> None:
    with pytest.raises(InvalidDocument):
        Prefixes.of([folder])


def test_a_driver_is_told_how_the_stores_of_known_places_are_reached() -> None:
    asked = ranking(storage={"evidence": "s3://fleet/evidence", "results": "s3://fleet/results"})
    arguments = job(asked, active(asked), MINE).arguments

    assert arguments[arguments.index("--evidence") + 1] == "s3://fleet/evidence"
    assert arguments[arguments.index("--to") + 1] == "s3://fleet/results?region=eu&scheme=http"


# What an author can have the operator send


@contextmanager
def listening() -> Iterator[tuple[int, list[str]]]:
    """A port of this machine, and what arrives there."""
    arrived: list[str] = []

    class Listener(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            arrived.append(f"{self.command} {self.path} {self.headers}")
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 - the base class calls them so

        def log_message(self, format: str, *args: object) -> None:
            """Only what arrived counts."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Listener) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server.server_port, arrived
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator has rights in two clouds."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    account = {
        "type": "service_account",
        "project_id": "p",
        "private_key_id": "k",
        "private_key": pem.decode(),
        "client_email": "operator@p.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": "https://oauth2.googleapis.com/token",
    }
    (tmp_path / "account.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "of-the-operator")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.usefixtures("tokens")
@pytest.mark.parametrize(
    "url",
    [
        "gs://fleet/x?endpoint_override=127.0.0.1:{port}&scheme=http",
        "s3://fleet/x?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1",
        "http://127.0.0.1:{port}/x",
        "hdfs://127.0.0.1:{port}/x",
        "abfs://fleet@127.0.0.1:{port}/x",
    ],
)
async def test_nothing_arrives_at_an_address_of_the_author_s_choosing(url: str) -> None:
    stored = StoredResults(Prefixes.of(["gs://fleet", "s3://fleet"]))
    with listening() as (port, arrived):
        place = url.format(port=port)
        assert await stored.trouble(place) is not None
        assert await stored.read(place, EXPECTED) is not None
        assert arrived == []
        with pytest.raises(InvalidDocument, match=r"storage\.results"):
            ranking(storage={"evidence": "s3://fleet/evidence", "results": f"{place}?scheme=http"})


@pytest.mark.usefixtures("tokens")
async def test_the_operator_s_own_option_may_name_an_endpoint() -> None:
    """The listener of the other tests hears what is sent."""
    with listening() as (port, arrived):
        options = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        stored = StoredResults(Prefixes.of([f"s3://fleet?{options}"]))
        await stored.trouble("s3://fleet/results")
        assert arrived
