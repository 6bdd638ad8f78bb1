"""The images of the Dockerfile, built as a release builds them, on a Debian made here: no registry of images is asked.

`python -m testbed.images` builds beforehand what the tests would build on first use. Needs root.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed.debian import ProgramsMissing, ensure, path
from testbed.distribution import cache
from testbed.locks import locked

ROOT = Path(__file__).parents[2]
CONTENT = (
    *("Dockerfile", "operator", "spark", "requirements"),
    *("LICENSE", "NOTICE", "README.md", "hatch_build.py", "pyproject.toml"),
)
"""What may decide what comes out, as .dockerignore lets it in."""

SUITE = "bookworm"
BASE = f"localhost/testbed-{SUITE}:1"
PAUSE = "localhost/testbed-pause:1"
NOT_IN_SLIM = ("usr/share/doc", "usr/share/locale", "usr/share/man", "var/cache/apt", "var/lib/apt/lists", "var/log")
"""What the slim images of Debian leave out as well; their folders stay."""

TRUST = Path("/etc/ssl/certs/ca-certificates.crt")
"""Whom this machine trusts: pip in a build shall trust nobody else, a proxy's authority perhaps."""

FOR_PIP = ("PIP_INDEX_URL",)
LAST_LINES = 15
MOST_LEFT_OVERS = 30


class ImageUnavailable(RuntimeError):
    """An image can't be built; says why."""


@dataclass(frozen=True, slots=True)
class Image:
    """One of the project's, by its stage of the Dockerfile."""

    name: str
    target: str

    @property
    def repository(self) -> str:
        return f"localhost/{self.name}"

    @property
    def reference(self) -> str:
        """As a Pod names it."""
        return f"{self.repository}:{version()}"


OPERATOR = Image("kafka-recovery-operator", "operator")
FLEET_JOB = Image("kafka-recovery-fleet-job", "fleet-job")


def version() -> str:
    """Of the project, where it is written."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def archive(image: Image) -> Path:
    """As a file that containerd takes in; built now if need be, which takes minutes and says so first.

    ImageUnavailable or ProgramsMissing if it can't be built.
    """
    folder = _folder()
    with locked(folder.with_suffix(".lock")):
        made = folder / f"{image.name}-{_digest()}.tar"
        if not made.is_file():
            _announce(image.reference, "2 to 15 minutes the first time, then 1 or 2")
            _tidy()
            _base()
            _forget(f"{image.name}-*.tar")
            arguments = (
                f"--target={image.target}",
                f"--build-arg=BASE={BASE}",
                f"--build-arg=VERSION={version()}",
                *_for_pip(),
            )
            _build(image.reference, ROOT, *arguments)
            _save(image.reference, made)
    return made


def pause() -> Path:
    """The same for PAUSE, whose process only holds the namespaces of a Pod."""
    folder = _folder()
    with locked(folder.with_suffix(".lock")):
        made = folder / f"pause-{SUITE}.tar"
        if not made.is_file():
            _base()
            context = folder / "pause"
            context.mkdir(exist_ok=True)
            lines = (f"FROM {BASE}", "USER 65532:65532", 'ENTRYPOINT ["sleep", "infinity"]')
            (context / "Dockerfile").write_text("\n".join(lines))
            _build(PAUSE, context)
            _save(PAUSE, made)
    return made


def _folder() -> Path:
    ensure(("buildah", "unshare"))
    if os.geteuid():
        raise ImageUnavailable("images are built by root here: run it as root, or leave it to whoever is")
    folder = cache() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@functools.cache
def _digest() -> str:
    """Over all that may decide what comes out, as it was first seen: an old image is never taken for a new one."""
    said = hashlib.sha256(SUITE.encode())
    for file in sorted(_content()):
        said.update(f"{file.relative_to(ROOT)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return said.hexdigest()[:12]


def _content() -> Iterator[Path]:
    for name in CONTENT:
        place = ROOT / name
        found = place.rglob("*") if place.is_dir() else (place,)
        yield from (file for file in found if file.is_file() and "__pycache__" not in file.parts)


def _base() -> None:
    """A Debian as its own packages make it, once."""
    if _buildah("images", "--quiet", "--filter", f"reference={BASE}"):
        return
    ensure(("debootstrap",))
    _announce(BASE, "2 minutes")
    context = cache() / "images" / "base"
    shutil.rmtree(context, ignore_errors=True)  # of somebody who was killed
    tree = context / "tree"
    context.mkdir()
    _run("debootstrap", "--variant=minbase", "--include=ca-certificates", SUITE, str(tree))
    for name in NOT_IN_SLIM:
        shutil.rmtree(tree / name)
        (tree / name).mkdir()
    _run("tar", "--numeric-owner", "--directory", str(tree), "--create", "--file", str(context / "tree.tar"), ".")
    shutil.rmtree(tree)
    (context / "Dockerfile").write_text("FROM scratch\nADD tree.tar /\n")
    _build(BASE, context)
    shutil.rmtree(context)


def _for_pip() -> list[str]:
    given = [f"--build-arg={name}={os.environ[name]}" for name in FOR_PIP if name in os.environ]
    return [f"--volume={TRUST}:{TRUST}:ro", f"--build-arg=PIP_CERT={TRUST}", *given] if TRUST.is_file() else given


def _build(reference: str, context: Path, *arguments: str) -> None:
    """In a chroot: neither a daemon nor a container runtime is asked."""
    _buildah("bud", "--layers", "--isolation=chroot", *arguments, "--tag", reference, str(context))


def _save(reference: str, made: Path) -> None:
    staging = made.with_name(f".{made.name}")
    staging.unlink(missing_ok=True)
    _buildah("push", "--quiet", reference, f"docker-archive:{staging}:{reference}")
    staging.rename(made)


def _forget(pattern: str) -> None:
    for old in (cache() / "images").glob(pattern):
        old.unlink()


def _tidy() -> None:
    """Every change of a source leaves a layer of half a gigabyte; now and then all are built anew."""
    if len(_buildah("images", "--quiet", "--filter", "dangling=true").splitlines()) > MOST_LEFT_OVERS:
        _buildah("rmi", "--all", "--force")


def _buildah(*arguments: str) -> str:
    """With a storage of its own, for the machine's is somebody else's; what it mounts is gone when it ends."""
    folder = cache() / "images"
    settings = folder / "storage.conf"
    shutil.rmtree(folder / "run", ignore_errors=True)  # tells of mounts that are gone
    places = f'runroot = "{folder / "run"}"\ngraphroot = "{folder / "graph"}"\n'
    settings.write_text(f'[storage]\ndriver = "overlay"\n{places}')
    return _run("unshare", "--mount", "buildah", *arguments, CONTAINERS_STORAGE_CONF=str(settings))


def _run(*command: str, **environment: str) -> str:
    done = subprocess.run(command, env=os.environ | {"PATH": path()} | environment, capture_output=True, text=True)
    if done.returncode:
        end = "\n".join((done.stdout + done.stderr).splitlines()[-LAST_LINES:])
        raise ImageUnavailable(f"{' '.join(command[:4])} ended with {done.returncode}; its last words:\n{end}")
    return done.stdout.strip()


def _announce(what: str, how_long: str) -> None:
    print(f"Building the image {what} ({time.strftime('%H:%M')}): {how_long}.", file=sys.stderr, flush=True)


def main() -> None:
    """Builds, if need be, and says where they lie."""
    try:
        for made in (pause(), archive(OPERATOR), archive(FLEET_JOB)):
            print(f"{made} ({made.stat().st_size >> 20} MB)")
    except (ImageUnavailable, ProgramsMissing) as trouble:
        sys.exit(str(trouble))


if __name__ == "__main__":
    main()
