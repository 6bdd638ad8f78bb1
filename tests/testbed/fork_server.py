"""Programs of one Python package that start in milliseconds: a server has imported it, and forks a process for each.

    programs = ForkServer("kafka_recovery.kube.__main__")
    process = programs.start("kafka_recovery.kube.__main__:main", ["--help"], log, environment)

What is started is a process like any other: a pid, signals, output of its own, an exit code. It shares no thread, no
connection and no file with the server or its siblings, and dies with whoever started it.

Nothing may happen on import of what is preloaded that a process can't share: threads, open files, the time of the day.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from types import ModuleType
from typing import IO, Any, NoReturn

LARGEST_REQUEST = 1 << 20
FEW_FILES = 8


def all_of(package: ModuleType) -> list[str]:
    """The names of its modules: a command imports most of them when it is typed, here the server does once for all."""
    return [name for _, name, _ in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]


class ForkServer:
    """The server's owner. It starts with the first program and ends with its owner."""

    def __init__(self, *preloaded: str) -> None:
        self._preloaded = preloaded
        self._control: socket.socket | None = None
        self._starting = threading.Lock()

    def start(
        self,
        entry: str,
        arguments: Sequence[str],
        output: IO[Any],
        environment: Mapping[str, str],
        errors: IO[Any] | None = None,
        given: IO[Any] | None = None,
    ) -> Forked:
        """Run `module:function` with these arguments.

        What it prints goes to `output`, what it says on standard error there as well, or to `errors`; it reads `given`,
        or nothing.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {"entry": entry, "arguments": list(arguments), "environment": dict(environment)}
        with theirs:
            with self._starting:
                control = self._server()
            raw = json.dumps(request).encode()
            assert len(raw) < LARGEST_REQUEST, "what is wanted of a program must fit into one packet"
            with Path(os.devnull).open() as nothing:
                standard = (given or nothing, output, errors or output)
                socket.send_fds(control, [raw], [theirs.fileno(), *(file.fileno() for file in standard)])
        return Forked(entry, ours)

    def close(self) -> None:
        """The server ends, and what it started is killed."""
        if self._control:
            self._control.close()
            self._control = None
            self._process.wait()

    def _server(self) -> socket.socket:
        if self._control is None:
            self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            for end in (self._control, theirs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST_REQUEST)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", __name__, str(theirs.fileno()), *self._preloaded],
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # where pytest found the modules
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # a Ctrl-C is its owner's to handle
                )
            atexit.register(self.close)
        return self._control


class Forked:
    """One process that a server has forked, as `subprocess.Popen` has it."""

    def __init__(self, entry: str, channel: socket.socket) -> None:
        self._entry = entry
        self._channel = channel
        self._code: int | None = None
        self.pid = int(self._told("its pid", timeout=None))

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        with suppress(BlockingIOError, subprocess.TimeoutExpired):
            self.wait(0)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended; subprocess.TimeoutExpired if that takes longer."""
        if self._code is None:
            self._code = int(self._told("its end", timeout))
            self._channel.close()
        return self._code

    def send_signal(self, number: int) -> None:
        """Nothing happens to one that has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)  # the server keeps a dead one's pid from others until it has told us

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _told(self, what: str, timeout: float | None) -> str:
        self._channel.settimeout(timeout)
        try:
            line = self._channel.recv(32).decode()
        except TimeoutError:
            raise subprocess.TimeoutExpired(self._entry, timeout or 0) from None
        if not line:
            raise RuntimeError(f"the fork server ended before it told {what} of {self._entry}")
        return line


class _Server:
    """Runs in the server's process. `serve` returns in every child, with what that one has to do."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._waking, self._wakes = socket.socketpair()
        self._channels: dict[int, socket.socket] = {}
        self._selector = DefaultSelector()

    def serve(self) -> Callable[[], object]:
        self._waking.setblocking(False)
        self._wakes.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._control, EVENT_READ)
        self._selector.register(self._waking, EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._control:
                    if entry := self._started():
                        return entry
                elif key.fileobj is self._waking:
                    self._bury()
                elif isinstance(pid := key.data, int):
                    self._abandoned(pid)

    def _started(self) -> Callable[[], object] | None:
        raw, files, _, _ = socket.recv_fds(self._control, LARGEST_REQUEST, FEW_FILES)
        if not raw:
            self._end()
        request = json.loads(raw)
        channel = socket.socket(fileno=files[0])
        if pid := os.fork():
            for file in files[1:]:
                os.close(file)
            self._channels[pid] = channel
            self._selector.register(channel, EVENT_READ, pid)
            channel.send(f"{pid}".encode())
            return None
        return self._as_child(request, channel, files[1:])

    def _as_child(
        self, request: dict[str, object], channel: socket.socket, standard: Sequence[int]
    ) -> Callable[[], object]:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for each in (self._control, self._waking, self._wakes, channel, *self._channels.values()):
            each.close()
        for number, file in enumerate(standard):
            os.dup2(file, number)
            os.close(file)
        entry, arguments, environment = request["entry"], request["arguments"], request["environment"]
        assert isinstance(entry, str)
        assert isinstance(arguments, list)
        assert isinstance(environment, dict)
        os.environ.clear()
        os.environ.update(environment)
        module, _, function = entry.partition(":")
        sys.argv = [module, *arguments]
        found: Callable[[], object] = getattr(importlib.import_module(module), function)
        return found

    def _bury(self) -> None:
        """Who has ended is told to its owner, and only then forgotten: until then nobody else gets its pid."""
        with suppress(BlockingIOError):
            while self._waking.recv(4096):
                pass
        with suppress(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                pid = ended.si_pid
                code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
                if channel := self._channels.pop(pid, None):
                    self._selector.unregister(channel)
                    with suppress(OSError):
                        channel.send(f"{code}".encode())
                    channel.close()
                os.waitpid(pid, 0)

    def _abandoned(self, pid: int) -> None:
        """Whoever started it is gone, or does not want to know of it any more."""
        os.kill(pid, signal.SIGKILL)
        self._selector.unregister(self._channels.pop(pid))

    def _end(self) -> NoReturn:
        for pid, channel in self._channels.items():
            os.kill(pid, signal.SIGKILL)
            with suppress(OSError):
                channel.send(f"{-signal.SIGKILL}".encode())
        os._exit(0)


def main() -> None:
    """`python -m testbed.fork_server CONTROL MODULE...`; in each child the program that was asked for."""
    control = socket.socket(fileno=int(sys.argv[1]))
    for module in sys.argv[2:]:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # or else the first collection of each child would copy every page
    program = _Server(control).serve()
    sys.exit(program())  # type: ignore[arg-type]  # as the console script does it


if __name__ == "__main__":
    main()
