"""As much of S3 as pyarrow uses, in memory, in this process: objects are there when their upload is complete."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


@dataclass
class ObjectStore:
    """One bucket's objects by key. `allows`: whether anybody may do anything; `asked`: method and key, in order.

    `cuts`: how many uploads break off before they are complete.
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    allows: bool = True
    cuts: int = 0
    port: int = 0

    def url(self, bucket: str, folder: str) -> str:
        """Where pyarrow finds it."""
        return f"s3://{bucket}/{folder}?region=x&scheme=http&endpoint_override=127.0.0.1:{self.port}"


@contextmanager
def serving() -> Iterator[ObjectStore]:
    """A store that answers on a port of this machine."""
    store = ObjectStore()
    handler = type("Handler", (_Handler,), {"store": store})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        store.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield store
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    store: ObjectStore
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: what was asked is kept."""

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        key = unquote(parts.path).lstrip("/").partition("/")[2]
        body = self._body()
        self.store.asked.append(f"{self.command} {key}")
        self.store.authorizations.append(self.headers.get("Authorization", ""))
        if not self.store.allows:
            self._send(403, _error("AccessDenied", "the secret is geheim"))
        elif self.command in ("GET", "HEAD"):
            self._read(key, query)
        elif self.command == "DELETE":
            self.store.objects.pop(key, None)
            self._send(204)
        else:
            self._write(key, query, body)

    def _body(self) -> bytes:
        """The request's content: it comes in HTTP's chunks, and inside those in the store's own."""
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            raw = _unchunked(self.rfile)
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        own = "aws-chunked" in self.headers.get("Content-Encoding", "")
        return _unchunked(io.BytesIO(raw)) if own else raw

    def _write(self, key: str, query: dict[str, str], body: bytes) -> None:
        store = self.store
        if "uploads" in query:
            store.uploads[key] = {}
            self._send(200, _xml("InitiateMultipartUploadResult", f"<UploadId>1</UploadId><Key>{escape(key)}</Key>"))
        elif "partNumber" in query:
            store.uploads[key][int(query["partNumber"])] = body
            self._send(200)
        elif "uploadId" in query:
            parts = store.uploads.pop(key)
            if store.cuts:
                store.cuts -= 1
                self._send(400, _error("InvalidPart", "one of them is gone"))
                return
            store.objects[key] = b"".join(parts[number] for number in sorted(parts))
            self._send(200, _xml("CompleteMultipartUploadResult", f"<Key>{escape(key)}</Key>"))
        elif store.cuts:
            store.cuts -= 1
            self._send(400, _error("IncompleteBody", "too short"))
        else:
            store.objects[key] = body
            self._send(200)

    def _read(self, key: str, query: dict[str, str]) -> None:
        if "list-type" in query:
            self._send(200, self._listing(query.get("prefix", ""), query.get("delimiter", "")))
        elif key in self.store.objects or not key:
            content = self.store.objects.get(key, b"")
            first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
            part = content[int(first) : int(last) + 1 if last else None]
            self._send(206 if "Range" in self.headers else 200, part)
        else:
            self._send(404, _error("NoSuchKey", "no such key"))

    def _listing(self, prefix: str, delimiter: str) -> bytes:
        keys = sorted(key for key in self.store.objects if key.startswith(prefix))
        ends = {key: key.find(delimiter, len(prefix)) if delimiter else -1 for key in keys}
        folders = sorted({key[: end + 1] for key, end in ends.items() if end >= 0})
        listed = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.store.objects[key])}</Size>"
            "<LastModified>2026-11-21T12:00:00.000Z</LastModified></Contents>"
            for key in keys
            if ends[key] < 0
        )
        listed += "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in folders)
        return _xml("ListBucketResult", f"<IsTruncated>false</IsTruncated>{listed}")

    def _send(self, status: int, content: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", formatdate(usegmt=True))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _unchunked(stream: io.BufferedIOBase) -> bytes:
    content = b""
    while size := int(stream.readline().partition(b";")[0], 16):
        content += stream.read(size)
        stream.readline()
    while stream.readline().strip():
        pass  # trailers, such as a checksum
    return content


def _xml(root: str, inside: str) -> bytes:
    return f'<?xml version="1.0"?><{root}>{inside}</{root}>'.encode()


def _error(code: str, message: str) -> bytes:
    return _xml("Error", f"<Code>{code}</Code><Message>{message}</Message>")
