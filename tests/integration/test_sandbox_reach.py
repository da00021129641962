"""What a command can reach, whoever its worker is. The approval rules are left out: they are not what holds."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from hermes_tasks.testing.server import EmbeddedServer
from hermes_tasks.tools.sandbox.layers import sandbox
from tests.integration.sandbox_worker import NEEDS, Worker, not_refused, tried, without, worker

pytestmark = NEEDS


READING = {
    "a neighbour": "open(os.path.relpath('{theirs}', '{mine}') + '/vault').read()",
    "a neighbour by its path": "open('{theirs}/vault').read()",
    "a neighbour through a link": "os.symlink('{theirs}', 'link{n}'); open('link{n}/vault').read()",
    "the names of neighbours": "assert os.listdir('{ws}') == ['{mine}'.split('/')[-3]]; raise OSError('only mine')",
    "a file of the worker that all may read": "open('{outside}/secret').read()",
    "it by a hard link": "os.link('{outside}/secret', 'hard{n}'); open('hard{n}').read()",
    "it through the worker": "open('/proc/{pid}/root{outside}/secret').read()",
    "it through the runner": "open('/proc/%d/root{outside}/secret' % runner).read()",
    "it through the first process": "open('/proc/1/root{outside}/secret').read()",
    "it by a handle": "syscall(304, 265, -100, bytes(64), 0)",
    "the worker's environment": "assert open('/proc/{pid}/environ', 'rb').read()",
    "the first process's environment": "open('/proc/1/environ', 'rb').read()",
    "the worker's memory": "open('/proc/{pid}/mem', 'rb')",
    "passwords of the machine": "open('/etc/shadow').read()",
    "settings of package managers": "open('/etc/pip.conf').read()",
    "memory as a device": "os.open('/dev/mem', 0)",
    "a disk": "os.open('/dev/vda', 0); os.open('/dev/sda', 0)",
    "the kernel's log": "syscall(103, 116, 3, bytes(100), 100)",
    "the home of root": "os.listdir('/root')",
    "names below the root": "os.listdir('/')",
}
#: What an ordinary worker's commands reach without a sandbox: the attempts are real.
READ_WITHOUT = ("a neighbour", "a neighbour through a link", "it by a hard link", "it through the worker")


def test_reading(held: Worker) -> None:
    assert not_refused(tried(held, READING)) == {}
    if held.uid != 0:
        assert without(held, READING, READ_WITHOUT) == dict.fromkeys(READ_WITHOUT, "REACHED")


WRITING = {
    "a new file": "open('{outside}/new', 'w').write('x')",
    "an old file": "open('{outside}/secret', 'w').write('x')",
    "the end of a file": "open('{outside}/secret', 'a').write('x')",
    "truncating": "os.truncate('{outside}/secret', 0)",
    "a mode": "os.chmod('{outside}/secret', 0o777)",
    "the mode of a directory": "os.chmod('{outside}', 0o777)",
    "the mode of a neighbour": "os.chmod('{theirs}', 0)",
    "the mode of all workspaces": "os.chmod('{ws}', 0)",
    "an owner": "os.chown('{outside}/secret', os.getuid(), -1)",
    "times": "os.utime('{outside}/secret', (0, 0))",
    "an attribute": "os.setxattr('{outside}/secret', 'user.x', b'x')",
    "a link": "os.symlink('x', '{outside}/link')",
    "a directory": "os.mkdir('{outside}/dir')",
    "taking a file away": "os.rename('{outside}/secret', 'mine')",
    "deleting": "os.unlink('{outside}/secret')",
    "through a link": "os.symlink('{outside}', 'out{n}'); open('out{n}/new', 'w')",
    "through the worker's directory": "open('/proc/{pid}/root{outside}/new', 'w')",
    "a neighbour": "open('{theirs}/new', 'w')",
    "programs": "open('/usr/bin/new', 'w')",
    "settings": "open('/etc/new', 'w')",
    "the kernel's settings": "open('/proc/sys/kernel/hostname', 'w').write('x')",
    "other temporary files": "open('/var/tmp/new', 'w')",
}
WRITTEN_WITHOUT = ("a new file", "a mode", "the mode of a directory", "times", "through a link")


def state_of(held: Worker) -> list[object]:
    places = (held.outside, held.outside / "secret", held.theirs, held.theirs / "vault", held.workspaces)
    return [(seen.st_mode, seen.st_mtime, seen.st_uid) for seen in (place.stat() for place in places)]


def test_writing(held: Worker) -> None:
    before = state_of(held)
    assert not_refused(tried(held, WRITING)) == {}
    assert state_of(held) == before
    assert [path.name for path in held.outside.iterdir()] == ["secret"]
    assert (held.outside / "secret").read_text() == "SECRET-OUTSIDE\n"


def test_writing_works_without_a_sandbox() -> None:
    with worker("ordinary") as held:
        held.run("true")
        assert without(held, WRITING, WRITTEN_WITHOUT) == dict.fromkeys(WRITTEN_WITHOUT, "REACHED")


def test_the_directory_for_temporary_files_leads_nowhere_else(held: Worker) -> None:
    held.run(f"rm -rf .tmp; ln -s {held.outside} .tmp")
    said = held.run("echo x > $TMPDIR/new; cat $TMPDIR/secret; cat /tmp/secret; ls -A $TMPDIR; stat -c %F .tmp")
    assert "SECRET" not in said
    assert said.splitlines()[-2:] == ["new", "directory"]
    assert [path.name for path in held.outside.iterdir()] == ["secret"]
    held.run("rm -rf .tmp; echo x > .tmp")
    assert held.run("mktemp -d").startswith(f"{held.mine}/.tmp/")


TALKING = {
    "the store": "socket.create_connection(('127.0.0.1', {store}))",
    "tcp": "socket.create_connection(('127.0.0.1', {tcp}))",
    "udp": "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {udp}))",
    "names": "socket.getaddrinfo('example.org', 80)",
    "a path socket": "socket.socket(socket.AF_UNIX).connect('{outside}/socket')",
    "a path socket of our own": "socket.socket(socket.AF_UNIX).connect('{mine}/socket')",
    "a path for datagrams": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', '{mine}/datagrams')",
    "a pair bent to a path": "socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b'x', '{mine}/datagrams')",
    "a pair sent to a path": "socket.socketpair()[0].sendto(b'x', '{mine}/datagrams')",
    "an abstract socket": "socket.socket(socket.AF_UNIX).connect(b'\\0{abstract}')",
    "ipv6": "socket.create_connection(('::1', {store}))",
    "raw packets": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "to the host of a virtual machine": "socket.socket(40, socket.SOCK_STREAM)",
    "kernel crypto": "socket.socket(38, socket.SOCK_SEQPACKET)",
    "listening": "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()",
    "a ring of calls": "syscall(425, 425, 8, bytes(200))",
}
TALKED_WITHOUT = (
    *("the store", "tcp", "udp", "a path socket of our own", "a path for datagrams", "a pair bent to a path"),
    *("an abstract socket", "listening"),
)


@pytest.fixture(scope="module")
def places(held: Worker, store_server: EmbeddedServer) -> Iterator[dict[str, Any]]:
    """Where somebody listens: the store, and sockets of each kind."""
    name = f"hermes-{os.urandom(6).hex()}"
    addresses: dict[str, tuple[int, int, Any]] = {
        "udp": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        "tcp": (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        "abstract": (socket.AF_UNIX, socket.SOCK_STREAM, f"\0{name}"),
        "own": (socket.AF_UNIX, socket.SOCK_STREAM, f"{held.mine}/socket"),
        "outside": (socket.AF_UNIX, socket.SOCK_STREAM, f"{held.outside}/socket"),
        "datagrams": (socket.AF_UNIX, socket.SOCK_DGRAM, f"{held.mine}/datagrams"),
    }
    with ExitStack() as stack:
        opened = {key: stack.enter_context(closing(socket.socket(*what[:2]))) for key, what in addresses.items()}
        for key, (family, kind, address) in addresses.items():
            opened[key].bind(address)
            opened[key].setblocking(False)
            if kind == socket.SOCK_STREAM:
                opened[key].listen()
            if family == socket.AF_UNIX and key != "abstract":
                Path(address).chmod(0o777)
        store = urlsplit(store_server.url).port
        ports = {key: opened[key].getsockname()[1] for key in ("udp", "tcp")}
        yield {"abstract": name, "store": store, "opened": opened, **ports}
        (held.outside / "socket").unlink()


def heard(places: dict[str, Any]) -> list[str]:
    """Who was talked to."""
    found = []
    for name, one in places["opened"].items():
        with suppress(BlockingIOError):
            while True:
                one.recv(10) if one.type == socket.SOCK_DGRAM else one.accept()[0].close()
                found.append(name)
    return sorted(set(found))


def test_talking(held: Worker, places: dict[str, Any]) -> None:
    assert not_refused(tried(held, TALKING, places=places)) == {}
    assert heard(places) == []
    if "container" not in held.how:  # whose worker has a filter itself
        assert without(held, TALKING, TALKED_WITHOUT, places=places) == dict.fromkeys(TALKED_WITHOUT, "REACHED")
        assert heard(places) == ["abstract", "datagrams", "own", "tcp", "udp"]


WEB = {
    "the store": ("socket.create_connection(('127.0.0.1', {store}))", "REFUSED"),
    "tcp": ("socket.create_connection(('127.0.0.1', {tcp}))", "REFUSED"),
    "tcp at once": ("socket.socket().sendto(b'x', socket.MSG_FASTOPEN, ('127.0.0.1', {tcp}))", "REFUSED"),
    "tcp at once, as a message": (
        "socket.socket().sendmsg([b'x'], [], socket.MSG_FASTOPEN, ('127.0.0.1', {tcp}))",
        "REFUSED",
    ),
    "tcp by many paths": ("socket.socket(2, 1, 262).connect(('127.0.0.1', {tcp}))", "REFUSED"),
    "a path socket": ("socket.socket(socket.AF_UNIX).connect('{mine}/socket')", "REFUSED"),
    "an abstract socket": ("socket.socket(socket.AF_UNIX).connect(b'\\0{abstract}')", "REFUSED"),
    "netlink": ("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)", "REFUSED"),
    "serving": ("s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()", "REFUSED"),
    "serving anywhere": ("socket.socket().listen()", "REFUSED"),
    "the web": ("assert socket.socket().connect_ex(('127.0.0.1', 80)) in (0, errno.ECONNREFUSED)", "REACHED"),
    "udp": ("socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {udp}))", "REACHED"),
    "a neighbour": ("open('{theirs}/vault').read()", "REFUSED"),
}


@pytest.mark.skipif(bool(sandbox(network=True).missing), reason="no rules about ports here")
def test_the_network_is_the_web(held: Worker, places: dict[str, Any]) -> None:
    found = tried(held, {name: code for name, (code, _) in WEB.items()}, places=places, network=True)
    expected = {name: word for name, (_, word) in WEB.items()}
    assert {name: said for name, said in found.items() if not said.startswith(expected[name])} == {}
    assert heard(places) == ["udp"]


GAINING = {
    "tracing the worker": "call('ptrace', 16, {pid}, 0, 0)",
    "tracing the runner": "call('ptrace', 16, runner, 0, 0)",
    "being traced": "call('ptrace', 0, 0, 0, 0)",
    "reading another's memory": "syscall(310, 270, {pid}, 0, 0, 0, 0, 0)",
    "another's descriptors": "syscall(438, 438, syscall(434, 434, os.getpid(), 0), 0, 0)",
    "a user namespace": "call('unshare', 0x10000000)",
    "a user namespace by clone": "syscall(56, 220, 0x10000000 | 17, 0, 0, 0, 0) or os._exit(0)",
    "a namespace by the newer clone": "syscall(435, 435, bytes(88), 88)",
    "a namespace of others": "call('setns', os.open('.', 0), 0)",
    "a mount": "call('mount', b'tmpfs', b'/tmp', b'tmpfs', 0, None)",
    "a mount the newer way": "syscall(430, 430, b'tmpfs', 0)",
    "taking a mount away": "call('umount2', b'/', 2)",
    "another root": "os.chroot('.')",
    "another user": "os.setuid(0)",
    "another group": "os.setgroups([0])",
    "a device": "os.mknod('null{n}', 0o20600, os.makedev(1, 3))",
    "a program in the kernel": "syscall(321, 280, 0, bytes(100), 100)",
    "a module": "syscall(175, 105, b'', 0, b'')",
    "keys": "syscall(250, 219, 0, -3, 1)",
    "measuring": "syscall(298, 241, bytes(120), 0, -1, -1, 0)",
    "faults of memory": "syscall(323, 282, 0)",
    "the clock": "call('settimeofday', bytes(16), None)",
    "the name of the machine": "call('sethostname', b'x', 1)",
    "a higher rank": "os.setpriority(os.PRIO_PROCESS, 0, -5)",
    "a call that is newer than the filter": "missing(syscall, 463, 463, 0, 0, 0, 0, 0, 0)",
    "the second table of calls": "missing(syscall, 0x40000000 + 39, 9999)",
}
GAINED_WITHOUT = ("being traced", "another's descriptors", "keys")


def test_gaining_rights(held: Worker) -> None:
    assert not_refused(tried(held, GAINING)) == {}
    if "container" not in held.how:
        assert without(held, GAINING, GAINED_WITHOUT) == dict.fromkeys(GAINED_WITHOUT, "REACHED")


def test_programs_that_give_rights_give_none(held: Worker) -> None:
    said = held.run("su -c id root < /dev/null; unshare -Ur id; cp $(command -v id) . && chmod u+s id && ./id -u")
    assert said.splitlines()[-1] == str(held.mine.stat().st_uid)
    assert "uid=0" not in said


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the older table of calls is a thing of x86")
def test_the_older_table_of_calls_ends_the_process(held: Worker) -> None:
    code = (
        "import mmap; memory = mmap.mmap(-1, 4096, prot=7)\n"
        "memory.write(bytes.fromhex('b814000000cd80c3'))  # getpid, in the way of 32 bits\n"
        "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))()"
    )
    assert tried(held, {"it": code}) == {"it": "DIED"}
