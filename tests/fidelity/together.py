"""Scripts played together: the same happens to brokers in them, so it happens once, to a topic of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from fidelity.script import Script, Sight, Stage


def play(stages: Mapping[Script, Stage]) -> dict[Script, list[Sight]]:
    """Everything that the steps of each script saw, in order.

    The stages are one cluster, with a topic each. What happens to brokers has to be the same in all scripts, as far as
    each of them goes: ValueError.
    """
    sights: dict[Script, list[Sight]] = {script: [] for script in stages}
    for scenes in zip_longest(*map(_scenes, stages), fillvalue=()):
        happens = {text for script, scene in zip(stages, scenes, strict=True) for text in _to_brokers(script, scene)}
        if len(happens) > 1:
            raise ValueError(f"not the same happens to brokers, but {sorted(happens)}")
        happened = False
        for (script, stage), scene in zip(stages.items(), scenes, strict=True):
            for number in scene:
                to_brokers = script.steps[number - 1].to_brokers
                if not (to_brokers and happened):
                    sights[script] += script.do(number, stage)
                happened = happened or to_brokers
    return sights


def groups(scripts: Sequence[Script]) -> list[tuple[Script, ...]]:
    """The scripts by those that can be played together; the first of a group goes on longest."""
    found: list[list[Script]] = []
    for script in sorted(scripts, key=lambda script: len(script.to_brokers), reverse=True):
        able = (group for group in found if _may_join(script, group[0]))
        if group := next(able, None):
            group.append(script)
        else:
            found.append([script])
    return sorted(map(tuple, found), key=lambda group: max(map(scripts.index, group)))


def _may_join(script: Script, longest: Script) -> bool:
    begins_with = longest.to_brokers[: len(script.to_brokers)]
    return (script.elr, script.to_brokers) == (longest.elr, begins_with)


def _scenes(script: Script) -> list[Sequence[int]]:
    """The numbers of its steps; each scene but the first begins with what happens to brokers."""
    scenes: list[list[int]] = [[]]
    for number, step in enumerate(script.steps, 1):
        if step.to_brokers:
            scenes.append([])
        scenes[-1].append(number)
    return list(scenes)


def _to_brokers(script: Script, scene: Sequence[int]) -> list[str]:
    return [step.text for number in scene if (step := script.steps[number - 1]).to_brokers]
