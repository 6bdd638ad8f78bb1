"""How scripts begin: a partition gets into trouble."""

from __future__ import annotations

from fidelity.script import (
    Step,
    create,
    freeze,
    kill,
    look,
    thaw,
    until_end,
    until_fenced,
    until_isr,
    until_offline,
    until_unfenced,
    write,
)

# Broker 1 led alone and is dead; it holds 15 records, 2 and 3 hold 10, live, and were not in the ISR when it died.
OFFLINE: tuple[Step, ...] = (
    create(1, 2, 3),
    write(1, 10),
    until_end(10, 1, 2, 3),
    freeze(2, 3),
    until_fenced(2, 3),
    until_isr(1),
    write(1, 5),
    kill(1),
    thaw(2, 3),
    until_fenced(1),
    until_unfenced(2, 3),
    until_offline(),
    look(),
)

# The same to the controller and to 2 and 3, and sooner mended; for scripts in which broker 1 never comes back.
OFFLINE_FOR_GOOD: tuple[Step, ...] = tuple(freeze(1) if step.text == "kill 1" else step for step in OFFLINE)

# Broker 1 leads alone; 2 and 3 are dead, 2 left the ISR last and lacks nothing.
ALL_BUT_THE_LEADER_GONE: tuple[Step, ...] = (
    create(1, 2, 3, min_isr=2),
    write(1, 10),
    until_end(10, 1, 2, 3),
    kill(3),
    until_fenced(3),
    until_isr(1, 2),
    write(1, 5),
    until_end(15, 2),
    kill(2),
    until_fenced(2),
    until_isr(1),
    look(),
)
