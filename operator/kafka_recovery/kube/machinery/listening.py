"""Ports on all addresses of both families: a cluster may be IPv4, IPv6 or both."""

from __future__ import annotations

import errno
import socket

_NO_ADDRESS = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


def bound(port: int, host: str = "") -> socket.socket:
    """The port taken; nobody is answered yet. Without a host on all addresses. Raises OSError if it can't be taken."""
    if ":" in host or (not host and socket.has_dualstack_ipv6()):
        try:
            return _bound(socket.AF_INET6, host, port)
        except OSError as error:
            if host or error.errno not in _NO_ADDRESS:
                raise
    return _bound(socket.AF_INET, host, port)


def _bound(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    taken = socket.socket(family)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        taken.bind((host, port))
    except OSError:
        taken.close()
        raise
    return taken
