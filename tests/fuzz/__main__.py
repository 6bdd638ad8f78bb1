"""`make fuzz`: atheris (libFuzzer) looks for bytes that a target does not take; what it finds it writes to `found`.

python -m fuzz server|client [libFuzzer's options, such as -max_total_time=600]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["kafka_recovery"]):
    from fuzz import targets
    from kafka_recovery.cluster import codec

_OPTIONS = ("-max_total_time=60", "-timeout=10", "-rss_limit_mb=2048", "-max_len=4096", "-print_final_stats=1")
"""A minute; no input takes ten seconds or two GiB. Options of the command line come later and win."""


def main() -> None:
    """Search until the time is over or something is found."""
    name, *options = sys.argv[1:] or ["server"]
    found = targets.FOUND / name
    found.mkdir(parents=True, exist_ok=True)
    compiled = codec._compiled

    def instrumented(*given: Any, **named: Any) -> Any:
        """Decoders are generated; without this nothing inside them would be seen."""
        return atheris.instrument_func(compiled(*given, **named))

    codec._compiled = instrumented
    with tempfile.TemporaryDirectory() as corpus:
        for number, data in enumerate(targets.beginnings(name)):
            (Path(corpus) / str(number)).write_bytes(data)
        atheris.Setup([sys.argv[0], *_OPTIONS, f"-artifact_prefix={found}/", *options, corpus], targets.TARGETS[name])
        atheris.Fuzz()


if __name__ == "__main__":
    main()
