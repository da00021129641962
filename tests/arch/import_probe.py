"""Run as a program: imports each module of the package in a process of its own and reports what the import did.

The libraries are loaded first and only once; each module is then imported in a fork that has seen none of ours.
Prints one line per fault: ``module: what it did``.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

PACKAGE = Path(sys.argv[1]).resolve()
LIBRARIES = sys.argv[2:]
WATCHED = ("open", "socket.", "subprocess.", "os.system", "os.mkdir", "os.remove")


def ours_is_nearest() -> str:
    """The file of ours that did what is being audited, unless the import machinery or a library did it by itself."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return ""
        if file.startswith(str(PACKAGE)):
            return file
        frame = frame.f_back
    return ""


def faults_of(module: str) -> list[str]:
    found: list[str] = []

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event.startswith(WATCHED) and (file := ours_is_nearest()):
            found.append(f"{module}: {event} {args[:1]} in {Path(file).relative_to(PACKAGE)}")

    sys.addaudithook(audit)
    warnings.simplefilter("error")
    start = threading.Thread.start

    def heard(thread: threading.Thread) -> None:
        found.append(f"{module}: started the thread {thread.name}")
        start(thread)

    threading.Thread.start = heard  # type: ignore[method-assign]
    try:
        importlib.import_module(module)
    except BaseException as fault:  # noqa: BLE001 - whatever it is, it is the finding
        found.append(f"{module}: {type(fault).__name__}: {fault}")
    return found


def in_a_fork(module: str) -> list[str]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.write(write, "\n".join(faults_of(module))[:60_000].encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text.splitlines()


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def main() -> None:
    for library in LIBRARIES:
        importlib.import_module(library)
    gc.disable()  # the forks are short, and a collection would copy the libraries' pages
    names = [module_name(path) for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__main__.py"]
    for name in names:
        for fault in in_a_fork(name):
            print(fault)
    print(f"{len(names)} modules", file=sys.stderr)


if __name__ == "__main__":
    main()
