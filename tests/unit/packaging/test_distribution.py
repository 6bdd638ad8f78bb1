"""One distribution: what `pip install` and the images get."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[3]
PACKAGES = {"kafka_recovery": ROOT / "operator", "kafka_recovery_spark": ROOT / "spark"}


def test_the_wheel_holds_both_packages_whole_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    (wheel,) = tmp_path.iterdir()
    packed = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}

    kept = {
        file.relative_to(folder).as_posix()
        for package, folder in PACKAGES.items()
        for file in (folder / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert packed == kept
