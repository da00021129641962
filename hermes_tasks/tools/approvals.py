"""Commands that no unattended run may make, refused at once.

This is a seat belt against a model's slip, not a sandbox: it reads the text of a command, and text can be disguised.
What a command can reach is limited by the runner (unprivileged user, limits, workspace) and, in time, by the sandbox.
"""

from __future__ import annotations

import re
from typing import Final

_ROOTS: Final = r"(/|~|\$HOME|/\*|/(bin|boot|dev|etc|home|lib|lib64|opt|proc|root|sbin|srv|sys|usr|var)(/\*?)?)"
_RULES: Final = (
    (rf"\brm\s+(-\S+\s+)*{_ROOTS}(\s|$)", "it deletes outside the workspace"),
    (r"\bmkfs(\.\w+)?\b|\bwipefs\b|\bfdisk\b", "it formats a disk"),
    (r"\bdd\b[^|;&]*\bof=/dev/", "it overwrites a device"),
    (r">\s*/dev/(sd|nvme|vd|mem|kmem)", "it overwrites a device"),
    (r"\b(shutdown|reboot|halt|poweroff|telinit)\b", "it stops the machine"),
    (r":\s*\(\s*\)\s*\{.*\|.*&\s*\}\s*;", "it is a fork bomb"),
    (r"\b(curl|wget)\b[^;&]*\|\s*(sudo\s+)?(ba|z|da|k)?sh\b", "it runs a script from the net"),
    (rf"\b(chmod|chown)\s+(-\S*R\S*|--recursive)\b[^;&]*\s{_ROOTS}(\s|$)", "it changes the system's permissions"),
    (r"/proc/(\d+|\*|self|\$\S+)/(environ|mem)\b", "it reads another process"),
    (r"(^|[;&|(`\s])(sudo|su|doas|pkexec)\s", "it asks for another user's rights"),
    (r"\b(kill|pkill|killall)\s+(-\S+\s+)*(-1|1)(\s|$)", "it ends processes that are not its own"),
    (r"\bhistory\s+-c\b|\bunset\s+HISTFILE\b", "it hides what it does"),
)
_COMPILED: Final = tuple((re.compile(pattern, re.IGNORECASE | re.DOTALL), why) for pattern, why in _RULES)


def refused(command: str) -> str | None:
    """Why this command may not run, or None."""
    return next((why for pattern, why in _COMPILED if pattern.search(command)), None)
