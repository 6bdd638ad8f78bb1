"""Programs that only a distribution has: there, installed now by root on Debian, or asked for in one sentence."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

PACKAGES = {
    "buildah": "buildah",
    "containerd": "containerd",
    "containerd-shim-runc-v2": "containerd",
    "ctr": "containerd",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "java": "openjdk-17-jre-headless",
    "nsenter": "util-linux",
    "runc": "runc",
    "unshare": "util-linux",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
}
"""The package that each is in; a path is looked for as it is."""

LAST_LINES = 5


class ProgramsMissing(RuntimeError):
    """A program is not there and can't be installed; says which package has it."""


def path() -> str:
    """A PATH on which root's programs are found as well."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


def ensure(names: Iterable[str]) -> None:
    """Programs of PACKAGES; what is missing is installed, and said so first. ProgramsMissing if it can't be."""
    if not (missing := [name for name in names if not _found(name)]):
        return
    packages = sorted({PACKAGES[name] for name in missing})
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    if os.geteuid() or not shutil.which("apt-get"):
        raise ProgramsMissing(f"{', '.join(missing)} not found: as root, run `{' '.join(command)}`")
    print(
        f"Installing Debian's {', '.join(packages)}, for {', '.join(missing)} is not there.",
        file=sys.stderr,
        flush=True,
    )
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for each in (["apt-get", "update"], command):
        done = subprocess.run(each, env=environment, capture_output=True, text=True)
        if done.returncode:
            end = " ".join((done.stderr or done.stdout).splitlines()[-LAST_LINES:])
            raise ProgramsMissing(f"{', '.join(missing)} not found, and `{' '.join(each)}` failed: {end}")


def _found(name: str) -> bool:
    return bool(shutil.which(name, path=path())) or Path(name).is_file()


if __name__ == "__main__":
    try:
        ensure(sys.argv[1:])
    except ProgramsMissing as missing:
        sys.exit(str(missing))
