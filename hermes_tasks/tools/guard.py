"""The guard of the web: only public addresses, checked on what is really connected to, at every redirect."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

#: Turns a host name into addresses; the system's resolver unless a test hands in its own.
Lookup = Callable[[str, int], Awaitable[list[str]]]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_SCHEMES: Final = ("http", "https")
_GLOBAL_V6: Final = ipaddress.ip_network("2000::/3")
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
#: Where clouds tell a machine its secrets, beside the link-local addresses: refused even where private ones are not.
_METADATA: Final = frozenset(
    ipaddress.ip_address(address)
    for address in (
        "100.100.100.200",  # Alibaba
        "168.63.129.16",  # Azure; public by its number
        "192.0.0.192",  # Oracle
        "fd00:42::42",  # Scaleway
        "fd00:ec2::254",  # Amazon
        "fd20:ce::254",  # Google
    )
)
#: Ports below 1024 belong to other services: asking them in HTTP is a way to talk to mail servers and the like.
_LOW_PORTS: Final = (80, 443)


class Refused(OSError):
    """The address may not be asked. An ``OSError``, so that the connector passes it on as a failed connection."""


def checked_url(text: str, *, allow_private: bool) -> URL:
    """The URL, as the HTTP client itself will read it: two readers of one text are how guards are passed.

    Raises:
        Refused: it is no http(s) URL, carries a user or password, or names an address that may not be asked.
    """
    try:
        url = URL(text.strip())
        host, port = url.host, url.port
    except ValueError:
        raise Refused(f"{text[:200]!r} is no URL") from None
    if url.scheme not in _SCHEMES or not host:
        raise Refused("only http and https addresses with a host can be fetched")
    if url.user is not None or url.password is not None:
        raise Refused("addresses with a user name or password are not fetched")
    if not port or (port < 1024 and port not in _LOW_PORTS):
        raise Refused(f"port {port} is not of the web; 80, 443 and those from 1024 on can be fetched")
    literal = _address(host)  # connectors do not resolve an address that is written out
    if literal is None and host.replace(".", "").isdigit():
        raise Refused(f"{host} is no address in its usual form")  # 127.1 and 2130706433 are 127.0.0.1 to some
    if literal is not None and not permitted(literal, allow_private=allow_private):
        raise _not_public(host)
    return url


def public(address: str) -> bool:
    """True for an address of the public internet; an IPv4 address inside an IPv6 one is judged as what it is."""
    ip = _address(address)
    return ip is not None and permitted(ip, allow_private=False)


def permitted(ip: Address, *, allow_private: bool) -> bool:
    """Whether that address may be asked.

    Args:
        allow_private: loopback and private networks as well, and nothing else: link-local addresses (where metadata
            services answer), multicast and reserved ones stay refused.
    """
    inner = _inner(ip)
    if inner is not None:
        return permitted(inner, allow_private=allow_private)
    if ip in _METADATA or ip.is_multicast or ip.is_unspecified or ip.is_link_local:
        return False
    if ip.is_loopback:
        return allow_private
    if ip.is_global and (ip.version == 4 or ip in _GLOBAL_V6):
        return True
    return allow_private and ip.is_private and not ip.is_reserved


class GuardedResolver(AbstractResolver):
    """Resolves a host and hands on only addresses that may be asked: the connection goes to exactly those.

    Args:
        allow_private: for tests and local deployments only.
    """

    def __init__(self, *, allow_private: bool, lookup: Lookup | None = None) -> None:
        self._allow_private, self._lookup = allow_private, lookup or system_lookup

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_INET,  # noqa: ARG002 - part of the interface
    ) -> list[ResolveResult]:
        """The addresses of ``host``; any that may not be asked refuses the host as a whole."""
        addresses = [(text, _address(text)) for text in await self._lookup(host, port)]
        if not addresses:
            raise Refused(f"{host} has no address")
        if not all(ip is not None and permitted(ip, allow_private=self._allow_private) for _, ip in addresses):
            raise _not_public(host)
        return [_result(host, text, port) for text, _ in addresses]

    async def close(self) -> None:
        """Nothing is held."""


async def system_lookup(host: str, port: int) -> list[str]:
    """All addresses of a host, by the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _inner(ip: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address leads to, if it does."""
    if ip.version == 4:
        return None
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)


def _not_public(host: str) -> Refused:
    return Refused(f"{host} is not on the public internet; private, loopback and metadata addresses are refused")


def _result(host: str, address: str, port: int) -> ResolveResult:
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=socket.AF_INET6 if ":" in address else socket.AF_INET,
        proto=0,
        flags=socket.AI_NUMERICHOST,
    )
