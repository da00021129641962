"""What goes on in the sandbox as ever, and what becomes of the tool where the sandbox lacks a layer."""

from __future__ import annotations

import os
import shutil

import pytest

from hermes_tasks.tools.sandbox.confine import confine
from hermes_tasks.tools.sandbox.layers import sandbox
from tests.integration.sandbox_worker import NEEDS, PATH, Worker, worker

pytestmark = NEEDS


WORK = {
    "python": ("python3 -c 'print(6 * 7)'", "42"),
    "a virtual environment": ("python3 -m venv --without-pip v && v/bin/python -c 'print(6 * 7)'", "42"),
    "text tools": (r"printf 'b 2\na 1\n' | sort | awk '{print $2}' | grep -c .", "2"),
    "temporary files": ("f=$(mktemp) && echo here > $f && cat $f", "here"),
    "python's temporary files": ("python3 -c 'import tempfile; print(tempfile.gettempdir())'", "MINE/.tmp"),
    "three hundred processes": ("i=0; while [ $i -lt 300 ]; do /bin/true && i=$((i+1)); done; echo $i", "300"),
    "modes and links": ("echo 'echo ran' > s; chmod +x s; ln -sf s t; mv t u; ./u; rm s u", "ran"),
    "archives": ("mkdir -p d; touch d/f; chmod 640 d/f; tar cf a d; rm -r d; tar xpf a; stat -c %a d/f", "640"),
    "named pipes": ("rm -f p; mkfifo p; echo through > p & cat p", "through"),
    "pairs of sockets": ("python3 -c 'import asyncio; print(asyncio.run(asyncio.sleep(0, 5)))'", "5"),
    "children of python": ('python3 -c \'import subprocess as s; print(s.check_output(["echo", "x"]))\'', "b'x\\n'"),
    "threads": ("python3 -c 'import threading as t; a = t.Thread(target=print, args=[6]); a.start()'", "6"),
    "ends by signal": ("sleep 60 & kill $!; wait $!; echo $?", "143"),
    "a broken pipe": ("yes | head -1", "y"),
    "the time elsewhere": ("TZ=Asia/Tokyo date +%Z", "JST"),
    "the machine": ("nproc > /dev/null && head -1 /proc/meminfo | cut -d: -f1", "MemTotal"),
    "bash": ("bash -c 'cat <(echo seen)'", "seen"),
    "cc": ("echo 'int main(void) { return 7; }' > m.c; cc m.c -o m && ./m; echo $?", "7"),
    "git": (
        "git init -q g; cd g; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m m; git log --format=%s",
        "m",
    ),
    "perl": ("perl -e 'print 6 * 7'", "42"),
    "node": ("node -e 'console.log(6 * 7)'", "42"),
}
MAY_BE_MISSING = ("bash", "cc", "git", "perl", "node")


@pytest.mark.parametrize("what", WORK)
def test_ordinary_work(held: Worker, what: str) -> None:
    command, expected = WORK[what]
    if what in MAY_BE_MISSING and shutil.which(what, path=PATH) is None:
        pytest.skip(f"no {what} here")
    assert held.run(command).splitlines()[-1] == expected.replace("MINE", str(held.mine))


@pytest.mark.skipif(not sandbox().namespaces, reason="no namespaces here")
def test_with_namespaces_there_are_own_processes_temporary_files_and_shared_memory() -> None:
    with worker("root" if os.geteuid() == 0 else "ordinary") as held:
        said = held.run(
            "echo x > /tmp/y && cat .tmp/y; echo z > /dev/shm/s && ls /dev/shm; ls /proc | grep -c '^[0-9]'"
        )
        assert said.splitlines()[:2] == ["x", "s"]
        assert int(said.splitlines()[2]) < 8
        assert held.run("ls /dev/shm") == "(no output)"
        assert held.run("python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))'") == "[1, 2]"


def test_a_root_in_a_container_has_the_layers_it_needs() -> None:
    with worker("root-container") as held:
        said = held.ask(layers=True)
        states = {layer["name"]: (layer["holds"], layer["needed"]) for layer in said["layers"]}
        needed = dict.fromkeys(("files", "calls", "user"), (True, True))
        assert states == {**needed, "namespaces": (False, False)}
        assert said["available"]


def test_an_ordinary_user_in_a_container_has_no_terminal() -> None:
    with worker("ordinary-container") as held:
        said = held.ask(layers=True)
        assert said["missing"] == ["namespaces"]
        assert not said["available"]
        assert said["said"].startswith("not run: this machine lacks a layer of the sandbox: namespaces: unshare: ")
        assert "run the worker as root" in said["said"]
        assert held.ask(user=held.user, command="echo ran > x", judged=True)["error"]
        assert not (held.mine / "x").exists()


def test_a_workspace_among_the_programs_is_refused() -> None:
    with pytest.raises(OSError, match=r"/usr/share lies among the programs.*move tools\.workspaces"):
        confine("/usr/share", namespaces=False, network=False)


def test_a_workspace_that_its_user_cannot_reach_is_said() -> None:
    with worker("root-container") as held:
        held.outside.parent.chmod(0o700)
        said = held.ask(user=held.user, command="echo ran")
        assert said["code"] == 125
        assert said["content"].endswith("chmod o+x them")
