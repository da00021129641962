"""``python -m hermes_tasks.demo``: it serves the script, stops when told to, and does not outlive its starter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

#: Starts the demo model, prints its pid, and stays until it is killed.
STARTER = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-m", "hermes_tasks.demo", "--delay", "0", "--port-file", sys.argv[1]])
print(child.pid, flush=True)
time.sleep(600)
"""


def eventually(reached: Callable[[], bool], what: str, within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < deadline, f"{what} did not happen within {within_s} s"
        time.sleep(0.02)


def ask(port_file: Path, text: str) -> str:
    body = {"model": "demo", "messages": [{"role": "user", "content": text}]}
    url = f"http://127.0.0.1:{int(port_file.read_text())}/v1/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode()), timeout=10) as got:
        return str(json.load(got)["choices"][0]["message"]["content"])


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_it_serves_and_stops_when_told(tmp_path) -> None:
    port_file = tmp_path / "port"
    command = [sys.executable, "-m", "hermes_tasks.demo", "--delay", "0", "--port-file", str(port_file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            eventually(port_file.exists, "the port file")
            assert ask(port_file, "Hello") == "You said: Hello\n\n[demo model: scripted answers, no AI]"
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"http://127.0.0.1:{int(port_file.read_text())}/_log", timeout=10)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, err) == (0, "")
    assert out.startswith("demo model at http://127.0.0.1:")


def test_it_dies_with_its_parent(tmp_path) -> None:
    port_file = tmp_path / "port"
    command = [sys.executable, "-c", STARTER, str(port_file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        try:
            eventually(port_file.exists, "the port file")
            assert ask(port_file, "Hello").startswith("You said: Hello")
            starter.kill()
            starter.wait(timeout=10)
            eventually(lambda: not runs(pid), "the end of the demo model")
        finally:
            starter.kill()
            if runs(pid):
                os.kill(pid, signal.SIGKILL)


def test_a_taken_port_is_one_clear_line(tmp_path) -> None:
    port_file = tmp_path / "port"
    base = [sys.executable, "-m", "hermes_tasks.demo", "--delay", "0"]
    with subprocess.Popen([*base, "--port-file", str(port_file)], stdout=subprocess.DEVNULL) as first:
        try:
            eventually(port_file.exists, "the port file")
            port = port_file.read_text().strip()
            second = subprocess.run([*base, "--port", port], capture_output=True, text=True, timeout=60, check=False)
        finally:
            first.terminate()
            first.wait(timeout=20)
    assert second.returncode == 1
    assert second.stderr.count("\n") == 1
    assert port in second.stderr
