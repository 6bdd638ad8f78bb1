"""Two disks: this machine's own, and one as in a cloud, where each write that is forced to disk takes 2.5 ms longer.

A small library that is loaded before a broker's C library lets fsync, fdatasync and msync return later; Java forces
files and mapped files by these calls and no others. The delay lies in a file, so that only what is measured pays it.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

CLOUD_DELAY = 0.0025
"""Seconds: what a small write to a replicated block device of a cloud takes longer than one to a local flash disk."""

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned int *microseconds;

__attribute__((constructor)) static void map_delay(void) {
    const char *path = getenv("SYNC_DELAY_FILE");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0)
        abort();
    void *mapped = mmap(NULL, sizeof *microseconds, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        abort();
    microseconds = mapped;
    close(file);
}

static int late(int result) {
    struct timespec left = {*microseconds / 1000000, (*microseconds % 1000000) * 1000L};
    while (left.tv_sec + left.tv_nsec && nanosleep(&left, &left))
        ;
    return result;
}

int fsync(int file) {
    return late(((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file));
}

int fdatasync(int file) {
    return late(((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(file));
}

int msync(void *address, size_t length, int flags) {
    return late(((int (*)(void *, size_t, int))dlsym(RTLD_NEXT, "msync"))(address, length, flags));
}
"""


class Disk(StrEnum):
    """What the brokers' logs lie on."""

    FAST = "fast disk"
    CLOUD = "cloud disk"


def available() -> tuple[Disk, ...]:
    """The disks that can be had here: the cloud's needs a C compiler."""
    return tuple(Disk) if shutil.which("cc") else (Disk.FAST,)


class SyncDelay:
    """Makes the syncs of every process that was started with `environment` slower, inside a `with on(disk)`."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "microseconds"
        self._library = folder / "late.so"
        self._set(0)
        if Disk.CLOUD in available():
            command = ["cc", "-shared", "-fPIC", "-O2", "-x", "c", "-", "-o", str(self._library), "-ldl"]
            subprocess.run(command, input=_SOURCE, text=True, check=True)

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process is to be started with; nothing without a C compiler."""
        if not self._library.exists():
            return {}
        return {"LD_PRELOAD": str(self._library), "SYNC_DELAY_FILE": str(self._file)}

    @contextmanager
    def on(self, disk: Disk) -> Iterator[None]:
        """From here to the end of the block the processes write to this disk."""
        self._set(round(1e6 * CLOUD_DELAY) if disk is Disk.CLOUD else 0)
        try:
            yield
        finally:
            self._set(0)

    def _set(self, microseconds: int) -> None:
        """In place: who has mapped the file sees it at once."""
        if not self._file.exists():
            self._file.write_bytes(bytes(4))
        with self._file.open("r+b") as file:
            file.write(microseconds.to_bytes(4, "little"))
