"""Waiting until a request that was not answered can't take effect any more."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kafka_recovery.domain.election import Relay
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.engine_ports import EnginePorts
from kafka_recovery.recovery.outcomes import relay_silent
from kafka_recovery.recovery.ports import JournalUnwritable
from kafka_recovery.recovery.supervision import Permission


@dataclass(frozen=True, slots=True)
class Doubt:
    """A broker may hold a request back for as long as it stands still; it forwards one for 60 s from when it goes on.

    So the time is counted from its next sign of life. Whoever halts the run meanwhile is told that nothing more is
    begun, and why the wait goes on: an order that is put back before its end could be altered again by the request.
    """

    ports: EnginePorts

    async def end(self, digest: str, wave: int | None, relays: Collection[Relay | None]) -> bool:
        """Wait until what was sent through these brokers is over; False: one gave no sign of life for too long.

        `wave`: whose requests they are, which is noted for whoever goes on with the run. None: an earlier run's, so
        nothing was begun here yet, and a call that is told to stop ends the wait. Raises JournalUnwritable where the
        doubt has not ended and could not be noted.
        """
        unkept = None if wave is None else await self._note(digest, wave, relays)
        if await self._all_go_on(relays, own=wave is not None) and await self._quarantined(own=wave is not None):
            return True
        if unkept:
            raise unkept
        return False

    async def _note(self, digest: str, wave: int, relays: Collection[Relay | None]) -> JournalUnwritable | None:
        """Returns what kept it from being noted: that is no reason to leave orders altered that the wait can free."""
        brokers = [relay.broker for relay in relays if relay is not None and relay.broker is not None]
        try:
            for broker in brokers:
                await self.ports.journal.in_doubt(digest, wave, BrokerId(broker))
        except JournalUnwritable as error:
            return error
        return None

    async def _all_go_on(self, relays: Collection[Relay | None], *, own: bool) -> bool:
        until = self.ports.clock.monotonic() + self.ports.timing.relay
        told: Reason | None = None
        for relay in relays:
            while relay is not None and not await self.ports.cluster.relay_answers(relay, self.ports.timing.look):
                now = await self.ports.permission()
                if self.ports.clock.monotonic() >= until or (now.leaving and not own):
                    return False
                self.ports.observer.waiting(relay_silent(relay), self.ports.timing.look)
                told = self._tell_halt(told, now)
                await self.ports.clock.sleep(self.ports.timing.look)
        return True

    async def _quarantined(self, *, own: bool) -> bool:
        why = Reason("InDoubt", "an unanswered request may still take effect; nothing is changed until it can't")
        self.ports.observer.waiting(why, self.ports.timing.quarantine)
        until = self.ports.clock.monotonic() + self.ports.timing.quarantine
        told: Reason | None = None
        while (left := until - self.ports.clock.monotonic()).total_seconds() > 0:
            now = await self.ports.permission()
            if now.leaving and not own:
                return False
            told = self._tell_halt(told, now)
            await self.ports.clock.sleep(min(left, self.ports.timing.look))
        return True

    def _tell_halt(self, told: Reason | None, now: Permission) -> Reason | None:
        halted = now.halted
        if halted and halted != told:
            message = (
                f"{halted.message}; nothing more is begun, but an unanswered request may still take effect: what it is "
                "about is put in order once it can't"
            )
            self.ports.observer.waiting(Reason(halted.code, message), self.ports.timing.look)
        return halted
