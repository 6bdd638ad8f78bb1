"""No Java is started here. Whoever asks for one finds one that only says its version."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.spark.questions import a_java


@pytest.fixture(scope="session")
def java_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_java(tmp_path_factory.mktemp("java"), "17.0.15")


@pytest.fixture(autouse=True)
def java(java_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home))
