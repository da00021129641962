"""``hermes-tasks demo`` as a newcomer runs it, with a false model key in the environment: it must not be used."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from hermes_tasks.demo.reply import Reply
from hermes_tasks.demo.server import ModelServer

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]  # alone: it starts every process there is


def remote_addresses(root: psutil.Process) -> set[str]:
    """Where the processes below ``root`` are connected to now."""
    found = set()
    for process in [root, *root.children(recursive=True)]:
        try:
            found |= {connection.raddr.ip for connection in process.net_connections("inet") if connection.raddr}
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def test_the_demo_holds_and_no_key_is_used(tmp_path: Path) -> None:
    with ModelServer.threaded(lambda _request: Reply(text="this must not be asked")) as canary:
        environment = {
            **os.environ,
            "OPENAI_API_KEY": "sk-false-key-that-must-not-travel",
            "OPENAI_BASE_URL": canary.base_url,
            "HOME": str(tmp_path),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "hermes_tasks.cli.app", "demo"], cwd=tmp_path, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        watched, seen = psutil.Process(process.pid), set[str]()
        while process.poll() is None:
            seen |= remote_addresses(watched)
            time.sleep(0.1)  # the pace of looking; the loop ends with the process, the test with its timeout
        output, _ = process.communicate()
        assert process.returncode == 0, output
        assert "every check holds" in output
        assert canary.calls == (), "the model of the environment was asked"
        assert seen, "no connection was seen at all: the look is broken"
        assert all(
            ipaddress.ip_address(address.split("%")[0].removeprefix("::ffff:")).is_loopback for address in seen
        ), seen
        assert "sk-false-key" not in output
    assert list(tmp_path.iterdir()) == [], "the demo leaves nothing behind"
