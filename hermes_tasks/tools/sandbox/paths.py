"""Which files of the machine a command needs. Everything else but its workspace is out of its reach."""

from __future__ import annotations

import os

#: Programs and their libraries: read and execute.
PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")

ETC = "/etc"
RESOLVER = "/etc/resolv.conf"
#: Of the settings only what programs ask for and what is meant for everybody. Not in it, on purpose: the settings of
#: package managers and clients (pip.conf, npmrc, gitconfig), which may hold passwords.
_NAMES = frozenset(
    (
        "alternatives",
        "bash.bashrc",
        "ca-certificates",
        "debian_version",
        "fonts",
        "gai.conf",
        "group",
        "host.conf",
        "hostname",
        "hosts",
        "inputrc",
        "ld.so.cache",
        "ld.so.conf",
        "ld.so.conf.d",
        "locale.alias",
        "locale.conf",
        "localtime",
        "magic",
        "magic.mime",
        "mime.types",
        "nsswitch.conf",
        "os-release",
        "passwd",
        "perl",
        "pki/ca-trust",
        "pki/tls/certs",
        "profile",
        "protocols",
        "python3",
        "resolv.conf",
        "rpc",
        "services",
        "ssl/cert.pem",
        "ssl/certs",
        "ssl/openssl.cnf",
        "terminfo",
        "timezone",
        "vim",
    )
)
_PREFIXES = ("java-",)

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

#: Where a command sees the processes of others as well: what describes the machine only.
MACHINE = tuple(
    f"/proc/{name}" for name in ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version")
)
PROC = "/proc"


def settings() -> list[str]:
    """Those that are there."""
    there = [name for name in os.listdir(ETC) if name.startswith(_PREFIXES)]
    return [f"{ETC}/{name}" for name in (*_NAMES, *there)]
