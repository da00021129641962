"""Every process that comes from one, remembered past its parent's death, so that none can be left behind."""

from __future__ import annotations

from typing import Final

import psutil

_KILL_S: Final = 2.0


class Offspring:
    """Children and children's children of a process, as they were seen."""

    def __init__(self) -> None:
        self._known: set[psutil.Process] = set()

    def look(self, root: int) -> None:
        """Remember whoever comes from ``root`` now; call it while ``root`` lives, again and again."""
        try:
            self._known.update(psutil.Process(root).children(recursive=True))
        except psutil.NoSuchProcess:
            return
        self._known = {process for process in self._known if _lives(process)}

    def alive(self) -> list[psutil.Process]:
        """Those that still run."""
        return [process for process in self._known if _lives(process)]

    def kill(self) -> list[str]:
        """SIGKILL those that still run and return their commands; returns when they are gone."""
        alive = self.alive()
        commands = []
        for process in alive:
            try:
                commands.append(" ".join(process.cmdline()) or process.name())
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(alive, timeout=_KILL_S)
        return commands


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
