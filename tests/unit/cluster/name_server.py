"""A name server on a stage: names lead where a test says, or hang until it lets them go."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass, field
from typing import Any

LONGEST = 60
"""Seconds after which a lookup that a failed test forgot ends by itself."""


@dataclass
class NameServer:
    """Stands where `socket.getaddrinfo` stood, for names in `leads` or under `.stage`; all others go on to it."""

    leads: dict[str, list[str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    speaks: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._resolver = socket.getaddrinfo

    def getaddrinfo(self, host: Any, *args: Any, **kwargs: Any) -> list[Any]:
        """The IP addresses that a name leads to; one that leads nowhere hangs until `speaks`, and is unknown then."""
        if host not in self.leads and not str(host).endswith(".stage"):
            return self._resolver(host, *args, **kwargs)
        self.asked.append(host)
        if host not in self.leads:
            self.speaks.wait(LONGEST)
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [found for ip in self.leads[host] for found in self._resolver(ip, *args, **kwargs)]
