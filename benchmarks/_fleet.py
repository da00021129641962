"""One embedded store, and worker processes started by path, for all benchmarks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from hermes_tasks.testing.server import EmbeddedServer

HERE = Path(__file__).parent


class Workers:
    """Processes of one measurement; ended with the block."""

    def __init__(self, server: EmbeddedServer, log: Path) -> None:
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("HERMES_TASKS_", "OPENAI_"))},
            "HERMES_TASKS_HOME": str(server.paths.home.root),
            "HERMES_TASKS_STORE__PORT": str(server.port),
            "HERMES_TASKS_DEMO_MODEL": "true",
            "HERMES_TASKS_LOG__LEVEL": "warning",
            "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE)]),
        }
        self._log = log
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    @property
    def environment(self) -> dict[str, str]:
        return self._environment

    def start(self, script: str, *arguments: str, extra: dict[str, str] | None = None) -> int:
        """Start ``benchmarks/<script>`` and wait for its line ``ready`` in the log; returns its process id."""
        mark = f"ready-{len(self._processes)}-{time.monotonic_ns()}"
        environment = {**self._environment, **(extra or {}), "BENCH_READY": mark}
        with self._log.open("ab") as log:
            command = [sys.executable, str(HERE / script), *arguments]
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self._processes.append(process)
        deadline = time.monotonic() + 60
        while mark not in self._log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{script} did not start:\n{self._log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.02)
        return process.pid

    def kill(self, pid: int) -> None:
        """SIGKILL one of them and wait for its end."""
        [process] = [one for one in self._processes if one.pid == pid]
        process.kill()
        process.wait()


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
