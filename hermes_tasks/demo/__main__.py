"""``python -m hermes_tasks.demo``: the demo model as a process of its own, which ends with its parent."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

from hermes_tasks.demo.script import DELAY_S, DemoScript
from hermes_tasks.demo.server import ModelServer
from hermes_tasks.observe.parent import die_with_parent


async def _serve(server: ModelServer, port_file: Path | None) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with server:
        print(f"demo model at {server.base_url}", flush=True)  # noqa: T201 - what a process says to its starter
        if port_file is not None:
            # Whoever waits for the file must never see half of it.
            written = port_file.with_name(f"{port_file.name}.{os.getpid()}")
            written.write_text(f"{server.port}\n", encoding="ascii")
            written.replace(port_file)
        await stop.wait()


def main() -> int:
    """Serve until SIGTERM, SIGINT or the parent's death; 1 when the port cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m hermes_tasks.demo", description="The demo model: scripted, no AI.")
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0 = a free one (default)")
    parser.add_argument("--delay", type=float, default=DELAY_S, help=f"seconds it seems to think (default {DELAY_S})")
    parser.add_argument("--port-file", type=Path, help="written with the port once it listens")
    parser.add_argument("--log", action="store_true", help="show the calls at /_log; conversations are in it")
    options = parser.parse_args()
    die_with_parent()
    keep = 100 if options.log else 0  # what nobody may read is not kept either
    server = ModelServer(DemoScript(options.delay), port=options.port, show_log=options.log, keep=keep)
    try:
        asyncio.run(_serve(server, options.port_file))
    except OSError as error:
        print(f"the demo model cannot listen on port {options.port}: {error.strerror or error}", file=sys.stderr)  # noqa: T201
        return 1
    except AssertionError as error:
        print(f"the demo model answered wrongly: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
