"""Older versions of Landlock, as far as a newer kernel can play them: what they do not know is left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hermes_tasks.tools.sandbox import landlock
from hermes_tasks.tools.sandbox.layers import sandbox

TRY = """
import os, sys
from hermes_tasks.tools.sandbox import kernel, landlock, seccomp
own, other, known = sys.argv[1], sys.argv[2], int(sys.argv[3])
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
rules = [("/usr", landlock.READ), ("/nowhere", landlock.READ), ("/dev/null", landlock.DEVICE), (own, landlock.CHANGE)]
landlock.restrict(rules, (), known)
seccomp.install(network=False, truncate=known >= landlock.VERSION_TRUNCATE)
def refused(attempt, *args):
    try:
        attempt(*args)
    except OSError:
        return
    raise SystemExit(f"{attempt.__name__} was not refused")
os.mkdir(f"{own}/d")
with open(f"{own}/f", "w") as file:
    file.write("abc")
    file.truncate(1)
os.rename(f"{own}/f", f"{own}/g")
os.symlink("g", f"{own}/link")
os.listdir("/usr"), os.listdir(own)
open("/dev/null", "w").write("x")
if known >= 2:
    os.rename(f"{own}/g", f"{own}/d/g")
for attempt, *args in (
    (open, f"{other}/f"), (open, f"{other}/f", "a"), (open, f"{other}/new", "w"), (os.truncate, f"{other}/f", 0),
    (os.rename, f"{other}/f", f"{own}/stolen"), (os.link, f"{other}/f", f"{own}/hard"), (os.mkdir, f"{other}/d"),
    (os.unlink, f"{other}/f"), (os.listdir, other), (os.mknod, f"{own}/device", 0o20600, 259),
):
    refused(attempt, *args)
print("held")
"""
NEWEST = 0 if any(layer.name == "files" for layer in sandbox().missing) else landlock.version()


@pytest.mark.parametrize("known", range(1, NEWEST + 1))
def test_each_version_holds(tmp_path: Path, known: int) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    (other / "f").write_text("SECRET")
    done = subprocess.run(
        [sys.executable, "-c", TRY, str(own), str(other), str(known)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "held\n", done.stderr
    assert [path.name for path in other.iterdir()] == ["f"]
    assert (other / "f").read_text() == "SECRET"
