"""How large a space was, and how long it took: what is exhaustive is as good as what it exhausts."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from exhaustive.judging import Count


@pytest.fixture
def counted(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Iterator[Count]:
    """Say of how many decisions the test asks; the sum is printed at its end, with the CPU seconds they took."""
    sizes: list[int] = []
    began = time.process_time()
    yield sizes.append
    with capsys.disabled():
        print(f"\n{request.node.name}: {sum(sizes):,} in {time.process_time() - began:.1f} s CPU")
