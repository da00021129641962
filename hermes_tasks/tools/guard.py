"""The guard of the web: only public addresses, checked on what is really connected to, at every redirect."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult

#: Turns a host name into addresses; the system's resolver unless a test hands in its own.
Lookup = Callable[[str, int], Awaitable[list[str]]]
_SCHEMES: Final = ("http", "https")


class Refused(OSError):
    """The address may not be asked. An ``OSError``, so that the connector passes it on as a failed connection."""


def checked_url(url: str) -> str:
    """Return ``url`` if its form may be fetched.

    Raises:
        Refused: it is no http(s) URL, carries a password, or names no host.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Refused(f"{url[:200]!r} is no URL") from None
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise Refused("only http and https addresses with a host can be fetched")
    if parts.username or parts.password:
        raise Refused("addresses with a user name or password are not fetched")
    if port == 0:
        raise Refused("port 0 cannot be fetched")
    return url


def public(address: str) -> bool:
    """True for an address of the public internet; an IPv4 address inside an IPv6 one is judged as what it is."""
    ip = ipaddress.ip_address(address.split("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is not None:
            return public(str(inner))
        if ip in ipaddress.ip_network("64:ff9b::/96"):
            return public(str(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)))
    return ip.is_global and not ip.is_multicast


class GuardedResolver(AbstractResolver):
    """Resolves a host and hands on only addresses that may be asked: the connection goes to exactly those.

    Args:
        allow_private: for tests and local deployments only.
    """

    def __init__(self, *, allow_private: bool, lookup: Lookup | None = None) -> None:
        self._allow_private, self._lookup = allow_private, lookup or system_lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of ``host``; any that is not public refuses the host as a whole."""
        addresses = await self._lookup(host, port)
        if not addresses:
            raise Refused(f"{host} has no address")
        if not self._allow_private and not all(public(address) for address in addresses):
            raise Refused(f"{host} is not on the public internet; private, loopback and metadata addresses are refused")
        return [_result(host, address, port) for address in addresses]

    async def close(self) -> None:
        """Nothing is held."""


def check_literal(host: str, *, allow_private: bool) -> None:
    """Refuse a private address that is written out: connectors do not resolve those.

    Raises:
        Refused: it is one.
    """
    try:
        ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return
    if not allow_private and not public(host):
        raise Refused(f"{host} is not on the public internet; private, loopback and metadata addresses are refused")


async def system_lookup(host: str, port: int) -> list[str]:
    """All addresses of a host, by the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    fields: Any = {
        "hostname": host, "host": address, "port": port, "family": family, "proto": 0,
        "flags": socket.AI_NUMERICHOST,
    }  # fmt: skip
    result: ResolveResult = fields
    return result
