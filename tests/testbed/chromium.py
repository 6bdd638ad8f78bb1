"""A real browser without a screen, told what to do by its own protocol: what a page shows, asks for and complains of.

    async with Browser() as browser:
        page = await browser.open(file.as_uri())
        assert await page.value("document.title") == "…"
        assert page.complaints == []

Chromium comes from the PATH, else as root from Debian's own package.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from testbed.distribution import cache
from testbed.locks import locked

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60.0
INSTALLING = 540.0
APT = ("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300")
FLAGS = (
    "--headless",
    "--no-sandbox",  # root has none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",  # containers have little of it
    "--remote-debugging-port=0",
)


class ChromiumUnavailable(RuntimeError):
    """No browser, or one that does not start; says why."""


def fetch() -> Path:
    """Installed now if need be; ChromiumUnavailable where that can't be done."""
    if program := _found():
        return program
    if os.geteuid() or not shutil.which("apt-get"):
        raise ChromiumUnavailable("There is no Chromium on the PATH: install it (on Debian: apt-get install chromium).")
    with locked(cache() / "chromium-install.lock"):
        if not _found():
            _install()
    if program := _found():
        return program
    raise ChromiumUnavailable("apt-get installed chromium, and there is still none on the PATH.")


def _found() -> Path | None:
    return next((Path(found) for name in NAMES if (found := shutil.which(name))), None)


def _install() -> None:
    """As the lists of packages are known; if those are missing or too old, with new ones."""
    wanted = (*APT, "install", "--yes", "--no-install-recommends", "chromium")
    if _ends_well(wanted) is None:
        return
    why = _ends_well((*APT, "update")) or _ends_well(wanted)
    if why:
        raise ChromiumUnavailable(f"There is no Chromium on the PATH, and it could not be installed: {why}")


def _ends_well(command: tuple[str, ...]) -> str | None:
    """None, or the last that it said."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALLING,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{command[0]} took longer than {INSTALLING:.0f} s"
    said = done.stdout.strip().splitlines()
    return (said[-1] if said else f"exit code {done.returncode}") if done.returncode else None


class Browser:
    """One Chromium with an empty profile, for the length of an `async with` block."""

    def __init__(self) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._pages: list[Page] = []
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        command = [str(fetch()), *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        with (Path(self._profile.name) / "said.log").open("wb") as said:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )
        self._http = aiohttp.ClientSession()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for page in self._pages:
            await page.close()
        if self._http:
            await self._http.close()
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # a session of its own: its helpers end with it
            self._process.wait()
        self._profile.cleanup()

    async def open(self, url: str, *, width: int = 1240, dark: bool = False) -> Page:
        """The page when all of it is loaded; `width` in pixels."""
        assert self._http
        port = await self._port()
        async with self._http.put(f"http://127.0.0.1:{port}/json/new?about:blank") as answer:
            target = await answer.json()
        page = Page(await self._http.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0))
        self._pages.append(page)
        await page.load(url, width, dark)
        return page

    async def _port(self) -> int:
        """It writes down which one it took."""
        assert self._process
        file = Path(self._profile.name) / "DevToolsActivePort"
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not (file.exists() and len(lines := file.read_text().split()) == 2):
            if self._process.poll() is not None or asyncio.get_running_loop().time() > deadline:
                said = (Path(self._profile.name) / "said.log").read_text(errors="replace")[-600:]
                raise ChromiumUnavailable(f"Chromium does not start: {said}")
            await asyncio.sleep(0.05)
        return int(lines[0])


class Page:
    """A loaded page. `requests`: all URLs it asked for, its own first; `complaints`: what its console would show."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()
        self._listening = asyncio.create_task(self._listen())

    async def load(self, url: str, width: int, dark: bool) -> None:
        """As `Browser.open` does."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self._ask(f"{domain}.enable")
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        await self._ask("Emulation.setDeviceMetricsOverride", **size)
        await self._ask("Emulation.setScrollbarsHidden", hidden=True)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self._ask("Emulation.setEmulatedMedia", features=[scheme])
        self._loaded.clear()  # the empty page it began with has loaded as well
        await self._ask("Page.navigate", url=url)
        await asyncio.wait_for(self._loaded.wait(), PATIENCE)

    async def value(self, expression: str) -> Any:
        """What JavaScript gives for it, in the page; plain values only."""
        answer = await self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise ValueError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    async def picture(self) -> bytes:
        """All of the page, also what one would have to scroll to, as PNG."""
        size = (await self._ask("Page.getLayoutMetrics"))["cssContentSize"]
        answer = await self._ask("Page.captureScreenshot", captureBeyondViewport=True, clip={**size, "scale": 1})
        return base64.b64decode(answer["data"])

    async def close(self) -> None:
        self._listening.cancel()
        await self._socket.close()

    async def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        said = await asyncio.wait_for(answer, PATIENCE)
        if "error" in said:
            raise RuntimeError(f"{method}: {said['error']['message']}")
        result: dict[str, Any] = said["result"]
        return result

    async def _listen(self) -> None:
        async for message in self._socket:
            said = message.json()
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
            else:
                self._note(said["method"], said["params"])

    def _note(self, event: str, told: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded.set()
        elif event == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif event == "Log.entryAdded":
            self.complaints.append(told["entry"]["text"])
        elif event == "Runtime.consoleAPICalled":
            self.complaints.append(" ".join(str(each.get("value")) for each in told["args"]))
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(told["exceptionDetails"]["text"])
