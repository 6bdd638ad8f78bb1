"""A rehearsal as a picture: how partitions ended, what was lost, how long they had no leader."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_recovery.cli.terminal.new_files import refuse_unwritable, write_new
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.simulator.rehearsal.fates import Ending
from kafka_recovery.simulator.rehearsal.rehearse import Method, Rehearsed
from kafka_recovery.simulator.rehearsal.sums import Tally

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METHODS = {Method.POLICY: "this policy", Method.KAFKA: "Kafka's own choice", Method.WAIT: "just wait"}
_ENDINGS = (
    ("elected", "elected", "#2a9d8f"),
    ("clean", "back by itself", "#8ab17d"),
    ("refusals", "refused", "#e9c46a"),
    ("failed", "failed", "#e76f51"),
    ("untouched", "still offline", "#9aa0a6"),
)
"""A tally's field, its name, its colour."""
_LINES = {Method.POLICY: "#2a9d8f", Method.KAFKA: "#e76f51", Method.WAIT: "#9aa0a6"}


def check_plot(path: Path) -> None:
    """Raises InvalidDocument if no picture could be written there in the end; asked before the long work."""
    if path.suffix not in (".png", ".svg"):
        raise InvalidDocument(f"--plot {path}: give a name that ends in .png or .svg")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        missing = "plots need matplotlib, which is not installed"
        raise InvalidDocument(f"--plot: {missing}: pip install '.[plot]' in its checkout") from None
    refuse_unwritable(path)


def played(histories: int, partitions: int) -> str:
    """How much was rehearsed."""
    return (
        f"{histories} histor{'y' if histories == 1 else 'ies'}, {partitions} partition{'' if partitions == 1 else 's'}"
    )


def plot(path: Path, histories: Sequence[Rehearsed], sums: Mapping[Method, Tally]) -> None:
    """Draw into a new file; raises InvalidDocument if it can't be written."""
    import matplotlib
    from matplotlib.figure import Figure

    # The same numbers give the same file: no dates, no random ids.
    with matplotlib.rc_context({"svg.hashsalt": "rehearsal", "font.size": 9}):
        figure = Figure(figsize=(11, 3.6), layout="constrained")
        endings, losses, times = figure.subplots(1, 3)
        _draw_endings(endings, sums)
        _draw_losses(losses, sums)
        _draw_times(times, histories)
        figure.suptitle(played(len(histories), sums[Method.POLICY].partitions))
        picture = io.BytesIO()
        metadata: dict[str, str | None] = {"Date": None} if path.suffix == ".svg" else {}
        figure.savefig(picture, format=path.suffix[1:], dpi=150, metadata=metadata)
    write_new(path, picture.getvalue())


def _draw_endings(axes: Axes, sums: Mapping[Method, Tally]) -> None:
    left = dict.fromkeys(sums, 0)
    for field, label, colour in _ENDINGS:
        widths = [getattr(sums[method], field) for method in METHODS]
        axes.barh(list(METHODS.values()), widths, left=[left[m] for m in METHODS], label=label, color=colour)
        left = {method: left[method] + width for method, width in zip(METHODS, widths, strict=True)}
    axes.invert_yaxis()
    axes.set_title("Partitions that lost their leader")
    axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, frameon=False)


def _draw_losses(axes: Axes, sums: Mapping[Method, Tally]) -> None:
    names, mine = list(METHODS.values()), [sums[method].lost for method in METHODS]
    axes.barh(names, mine, label="by its elections", color="#e76f51")
    otherwise = [sums[method].lost_otherwise for method in METHODS]
    axes.barh(names, otherwise, left=mine, label="otherwise", color="#9aa0a6")
    axes.invert_yaxis()
    axes.set_yticklabels([])
    axes.set_title("Acknowledged records lost")
    axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False)


def _draw_times(axes: Axes, histories: Sequence[Rehearsed]) -> None:
    for method, label in METHODS.items():
        fates = [fate for history in histories for fate in history.fates[method] if fate.ending is not None]
        seconds = sorted(fate.offline for fate in fates if fate.ending in (Ending.ELECTED, Ending.CLEAN))
        shares = [100 * (place + 1) / len(fates) for place in range(len(seconds))]
        axes.step([0.0, *seconds], [0.0, *shares], where="post", label=label, color=_LINES[method])
    axes.set_title("Time without a leader")
    axes.set_xlabel("seconds")
    axes.set_ylabel("% of partitions back by then")
    axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=3, frameon=False)
