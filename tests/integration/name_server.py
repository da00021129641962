"""A real name server (DNS over UDP) whose answers change from question to question, and a resolver that asks it."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

_HEADER = struct.Struct(">HHHHHH")
_ANSWER = struct.Struct(">HHHIH")
_A, _IN, _POINTER = 1, 1, 0xC00C  # the pointer names the name in the question


class NameServer(asyncio.DatagramProtocol):
    """Answers each question for an IPv4 address by the next list of that name, then by its last for ever.

    Every answer says that it holds for 0 seconds, as rebinding servers do.
    """

    def __init__(self, names: Mapping[str, list[list[str]]]) -> None:
        self._names = {name: list(answers) for name, answers in names.items()}
        self.asked: list[str] = []
        self.port = 0

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        number, *_ = _HEADER.unpack_from(data)
        name, end = name_at(data, _HEADER.size)
        question = data[_HEADER.size : end + 4]
        kind = struct.unpack_from(">H", data, end)[0]
        addresses = self._next(name) if kind == _A else []
        code = 0 if name in self._names else 3  # no such name
        answers = b"".join(
            _ANSWER.pack(_POINTER, _A, _IN, 0, 4) + ipaddress.IPv4Address(address).packed for address in addresses
        )
        header = _HEADER.pack(number, 0x8180 | code, 1, len(addresses), 0, 0)
        self._transport.sendto(header + question + answers, addr)

    def _next(self, name: str) -> list[str]:
        self.asked.append(name)
        answers = self._names.get(name, [[]])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def lookup(self, host: str, port: int) -> list[str]:
        """Ask this server over the network, as a resolver without a memory does."""
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.setblocking(False)
            asking.connect(("127.0.0.1", self.port))
            labels = b"".join(bytes([len(label)]) + label.encode() for label in host.split("."))
            await loop.sock_sendall(
                asking, _HEADER.pack(7, 0x100, 1, 0, 0, 0) + labels + struct.pack(">BHH", 0, _A, _IN)
            )
            async with asyncio.timeout(10):
                answer = await loop.sock_recv(asking, 512)
        _, _, _, found, _, _ = _HEADER.unpack_from(answer)
        if not found:
            raise OSError(f"no address for {host}")
        at = name_at(answer, _HEADER.size)[1] + 4
        size = _ANSWER.size + 4
        return [str(ipaddress.IPv4Address(answer[at + n * size + _ANSWER.size :][:4])) for n in range(found)]


def name_at(data: bytes, at: int) -> tuple[str, int]:
    """(the name that begins at ``at``, where it ends)."""
    labels = []
    while size := data[at]:
        labels.append(data[at + 1 : at + 1 + size].decode("ascii"))
        at += 1 + size
    return ".".join(labels).lower(), at + 1


@asynccontextmanager
async def name_server(names: Mapping[str, list[list[str]]], port: int = 0) -> AsyncIterator[NameServer]:
    """A server on 127.0.0.1 that is gone afterwards."""
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: NameServer(names), local_addr=("127.0.0.1", port)
    )
    server.port = transport.get_extra_info("sockname")[1]
    try:
        yield server
    finally:
        transport.close()
