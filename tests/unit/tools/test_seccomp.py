"""The numbers of the system calls, beside what the kernel's headers on this machine say."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from hermes_tasks.tools.sandbox import seccomp

HEADERS = {
    0: "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    1: "/usr/include/asm-generic/unistd.h",  # arm64 takes the generic table as it is
}
DEFINITION = re.compile(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", re.MULTILINE)


@pytest.mark.parametrize("column", HEADERS)
def test_the_numbers_are_the_kernels(column: int) -> None:
    header = Path(HEADERS[column])
    if not header.is_file():
        pytest.skip(f"no {header} here")
    known = {name: int(number) for name, number in DEFINITION.findall(header.read_text())}
    ours = {name: numbers[column] for name, numbers in seccomp._CALLS.items() if numbers[column] is not None}
    assert {name: number for name, number in ours.items() if known[name] != number} == {}
    assert {name for name, numbers in seccomp._CALLS.items() if numbers[column] is None}.isdisjoint(known)


@pytest.mark.skipif(os.uname().machine not in seccomp._MACHINES, reason="no table of this machine")
@pytest.mark.parametrize("network", [False, True])
def test_every_call_of_the_table_is_judged(network: bool) -> None:
    _, column = seccomp._MACHINES[os.uname().machine]
    program = seccomp._program(network=network, truncate=False)
    compared = {int.from_bytes(step[4:], "little") for step in program if step[0] == seccomp._EQUAL}
    open_then = {"connect", "bind"} if network else {"sendto", "sendmsg", "sendmmsg"}
    judged = {name: numbers[column] for name, numbers in seccomp._CALLS.items() if name not in open_then}
    assert {name for name, number in judged.items() if number is not None and number not in compared} == set()
    assert len(program) < 4096, "the kernel takes no more"
