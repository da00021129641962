"""The stack of processes behind ``hermes-tasks up``, with stand-ins for store, front and workers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from hermes_tasks.cli.probes import http_ok, listening
from hermes_tasks.cli.processes import Listens, Process, processes
from hermes_tasks.cli.supervise import Stack
from hermes_tasks.contracts.errors import Conflict, InvalidRequest, Retryable
from hermes_tasks.observe.ports import check_port, free_port
from hermes_tasks.settings import Settings

#: Says what it does in a file, serves /healthz, and on SIGTERM takes a while to stop.
SERVER = """
import http.server, os, signal, sys, threading, time
from hermes_tasks.observe.parent import die_with_parent
die_with_parent(2.0)
name, port, events, stop_s = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
def say(what):
    with open(events, "a") as file:
        file.write(f"{what} {name}\\n")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()
    def log_message(self, *_):
        pass
def stop(*_):
    def later():
        time.sleep(stop_s)
        say("stopped")
        os._exit(0)
    threading.Thread(target=later).start()
signal.signal(signal.SIGTERM, stop)
server = http.server.HTTPServer(("127.0.0.1", port), Handler)
say("started")
print(name, "speaks", flush=True)
server.serve_forever()
"""


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.05)


def gone(pids: list[int]) -> bool:
    return not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids)


class Bench:
    """Makes stand-ins that write into one file of events."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings = Settings(home=root / "home")
        self.events_file = root / "events"
        self.script = root / "server.py"
        self.script.write_text(SERVER)

    def server(self, name: str, stop_s: float = 0.0, **fields) -> Process:
        port = free_port()
        return Process(
            name=name,
            command=(sys.executable, str(self.script), name, str(port), str(self.events_file), str(stop_s)),
            listens=Listens("127.0.0.1", port, f"{name}.port"),
            ready=lambda: http_ok("127.0.0.1", port, "/healthz"),
            **fields,
        )

    def script_process(self, name: str, code: str, **fields) -> Process:
        path = self.root / f"{name}.py"
        path.write_text(textwrap.dedent(code))
        return Process(name=name, command=(sys.executable, str(path)), **fields)

    def events(self) -> list[str]:
        return self.events_file.read_text().splitlines() if self.events_file.exists() else []


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def pids(stack: Stack) -> list[int]:
    return [state.pid for state in stack.states().values()]


def test_it_starts_in_order_and_stops_in_reverse(bench):
    first = bench.server("first")
    second = bench.server("second", stop_s=0.6, depends=("first",))
    stack = Stack(bench.settings, (second, first))
    with stack:
        assert bench.events() == ["started first", "started second"]
        assert {state.state for state in stack.states().values()} <= {"STARTING", "RUNNING"}
        running = pids(stack)
        assert stack.tend() == []
        began = time.monotonic()
        assert stack.stop() == []
        assert time.monotonic() - began < 10
    assert bench.events()[2:] == ["stopped second", "stopped first"]
    assert gone(running)
    assert "first speaks" in (bench.settings.paths.logs / "first.log").read_text()
    assert stack.stop() == []


def test_several_of_one_have_numbers_and_logs_of_their_own(bench):
    worker = bench.script_process("worker", "print('here', flush=True)\nimport time\ntime.sleep(99)", count=2)
    with Stack(bench.settings, (worker,)) as stack:
        assert sorted(stack.states()) == ["worker-1", "worker-2"]
        assert len(set(pids(stack))) == 2
        running = pids(stack)
    assert gone(running)
    assert (bench.settings.paths.logs / "worker-2.log").read_text() == "here\n"


def test_running_is_not_ready_until_each_of_several_says_so(bench):
    code = f"""
    import time
    from hermes_tasks.observe.ready import tell_ready
    time.sleep(2)
    with open({str(bench.events_file)!r}, "a") as file:
        file.write("ready\\n")
    tell_ready()
    time.sleep(99)
    """
    worker = bench.script_process("worker", code, count=2, tells_ready=True)
    with Stack(bench.settings, (worker,)):
        assert bench.events() == ["ready", "ready"]


def test_what_is_killed_is_started_again(bench):
    with Stack(bench.settings, (bench.server("one"),)) as stack:
        eventually(lambda: stack.states()["one"].state == "RUNNING")
        stack.tend()
        before = stack.states()["one"].pid
        os.kill(before, signal.SIGKILL)
        notes: list[str] = []
        eventually(lambda: bool(notes.extend(stack.tend()) or notes))
        after = stack.states()["one"].pid
        assert notes == [f"one ended and was started again (pid {after})"]
        assert after != before
        assert bench.events() == ["started one", "started one"]


def test_what_cannot_start_is_told_with_its_last_words_and_nothing_is_left(bench):
    good = bench.server("good")
    bad = bench.script_process("bad", "print('no such thing: 42')\nraise SystemExit(3)", depends=("good",))
    stack = Stack(bench.settings, (good, bad))
    with pytest.raises(Retryable, match=r"bad ends again and again: no such thing: 42 \(see .*bad\.log\)"):
        stack.start()
    assert bench.events() == ["started good", "stopped good"]
    check_port("127.0.0.1", good.listens.port, "good.port")
    assert stack.stop() == []


def test_what_is_never_ready_is_named_and_nothing_is_left(bench):
    mute = bench.script_process(
        "mute", "import time\nprint('tuning up', flush=True)\ntime.sleep(99)", ready=lambda: False
    )
    fine = bench.server("fine")
    with pytest.raises(
        Retryable, match=r"not ready after 3 s: .*mute \((tuning up|it said nothing)\).*; see the logs in"
    ):
        Stack(bench.settings, (fine, mute), ready_s=3).start()
    check_port("127.0.0.1", fine.listens.port, "fine.port")


DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(99)
"""


def test_what_does_not_stop_is_killed_by_the_supervisor(bench):
    deaf = bench.script_process("deaf", DEAF, stop_seconds=1)
    with Stack(bench.settings, (deaf,)) as stack:
        running = pids(stack)
        assert stack.stop() == []
        assert gone(running)


def test_what_outlives_the_stop_is_killed_and_named(bench):
    """A process that left for a session of its own and does not listen either."""
    code = f"""
    import subprocess, sys, time
    child = subprocess.Popen([sys.executable, "-c", {DEAF!r}], start_new_session=True, stdout=subprocess.PIPE)
    child.stdout.readline()
    open({str(bench.events_file)!r}, "w").write(str(child.pid))
    time.sleep(99)
    """
    with Stack(bench.settings, (bench.script_process("parent", code),), stop_s=4) as stack:
        eventually(lambda: bool(bench.events()))
        began = time.monotonic()
        (killed,) = stack.stop()
        assert time.monotonic() - began < 7
    assert "SIG_IGN" in killed
    assert gone([int(bench.events()[0])])


def test_a_second_stack_on_the_same_home_is_refused_and_the_first_goes_on(bench):
    with Stack(bench.settings, (bench.server("one"),)) as stack:
        other = Stack(bench.settings, (bench.server("two"),))
        with pytest.raises(Conflict, match=rf"already runs on {bench.settings.home} \(pid {os.getpid()}\)"):
            other.start()
        assert bench.events() == ["started one"]
        assert stack.tend() == []
    with Stack(bench.settings, (bench.server("three"),)):
        assert bench.events()[-1] == "started three"


def test_a_taken_port_is_refused_before_anything_starts(bench):
    one, two = bench.server("one"), bench.server("two")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", two.listens.port))
        taken.listen()
        with pytest.raises(Conflict, match=rf"port {two.listens.port} on 127.0.0.1 is taken; .* set two.port"):
            Stack(bench.settings, (one, two)).start()
    assert bench.events() == []


def test_two_processes_on_one_port_are_refused(bench):
    one = bench.server("one")
    two = Process("two", ("true",), listens=Listens("127.0.0.1", one.listens.port, "two.port"))
    with pytest.raises(Conflict, match=r"one\.port and two\.port are both"):
        Stack(bench.settings, (one, two)).start()
    assert bench.events() == []


def test_a_table_that_cannot_be_ordered_is_refused(bench):
    with pytest.raises(InvalidRequest, match="a depends on nobody"):
        Stack(bench.settings, (Process("a", ("true",), depends=("nobody",)),))
    with pytest.raises(InvalidRequest, match="depends on itself"):
        Stack(bench.settings, (Process("a", ("true",), depends=("b",)), Process("b", ("true",), depends=("a",))))


def test_a_killed_supervisor_takes_everything_with_it(bench):
    with Stack(bench.settings, (bench.server("one"), bench.server("two", stop_s=99))) as stack:
        running = pids(stack)
        supervisor = psutil.Process(running[0]).ppid()
        os.kill(supervisor, signal.SIGKILL)
        eventually(lambda: gone(running))  # "two" is deaf for longer: it ends by its own watch
        with pytest.raises(Retryable, match="the supervisor has ended"):
            stack.tend()
        assert stack.stop() == []


def test_a_home_with_a_long_path_works(tmp_path):
    bench = Bench(tmp_path)
    home = tmp_path / ("long " * 15).strip() / ("x" * 60)
    bench.settings = Settings(home=home)
    with Stack(bench.settings, (bench.server("one", environment={"ONE": "a %(b)s, 'c'"}),)) as stack:
        environ = psutil.Process(stack.states()["one"].pid).environ()
        short = stack._supervisor._short_dir
        assert environ["ONE"] == "a %(b)s, 'c'"
        assert environ["HERMES_TASKS_HOME"] == str(home)
        assert short.is_dir()
    assert not short.exists()
    assert "one speaks" in (home / "logs" / "one.log").read_text()


def test_the_real_store_starts_and_is_stamped(tmp_path):
    settings = Settings(home=tmp_path / "home", store={"port": free_port()})
    (store,) = (process for process in processes(settings) if process.name == "store")
    with Stack(settings, (store,)) as stack:
        running = pids(stack)
    assert gone(running)
    settings.paths.id_file.write_text("another\n")
    with pytest.raises(Conflict, match="belongs to another home"):
        Stack(settings, (store,)).start()
    check_port("127.0.0.1", settings.store.port, "store.port")


@pytest.mark.soak
@pytest.mark.timeout(180)
def test_what_was_given_up_is_started_again_for_ever(bench):
    flag = bench.root / "flag"
    flag.touch()
    code = f"""
    import os, time
    assert os.path.exists({str(flag)!r}), "the flag is missing"
    time.sleep(999)
    """
    with Stack(bench.settings, (bench.script_process("picky", code),)) as stack:
        stack.tend()
        flag.unlink()
        os.kill(stack.states()["picky"].pid, signal.SIGKILL)
        notes: list[str] = []
        eventually(lambda: bool(notes.extend(stack.tend()) or notes), seconds=60)
        assert "picky keeps ending: AssertionError: the flag is missing" in notes[0]
        flag.touch()
        eventually(lambda: any("was started again" in note for note in stack.tend()), seconds=60)


SERVE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from hermes_tasks.cli.probes import listening
from hermes_tasks.cli.processes import Listens, Process
from hermes_tasks.cli.supervise import Stack
from hermes_tasks.cli.up import serve
from hermes_tasks.settings import Settings
home, port, command = Path(sys.argv[2]), int(sys.argv[3]), tuple(sys.argv[4:])
ready = lambda: listening("127.0.0.1", port)
table = (Process("one", command, listens=Listens("127.0.0.1", port, "one.port"), ready=ready),)
raise SystemExit(serve(Stack(Settings(home=home), table), [("one", f"http://127.0.0.1:{port}")]))
"""


def serve(bench: Bench, one: Process) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-c",
        SERVE,
        str(Path.cwd()),
        str(bench.settings.home),
        str(one.listens.port),
        *one.command,
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_everything_within_ten_seconds(bench, number):
    one = bench.server("one", stop_s=1.0)
    with serve(bench, one) as command:
        lines = [command.stdout.readline().rstrip() for _ in range(3)]
        assert lines == ["starting …", f"one     http://127.0.0.1:{one.listens.port}", "Ctrl-C stops everything"]
        family = [process.pid for process in psutil.Process(command.pid).children(recursive=True)]
        assert len(family) == 2
        began = time.monotonic()
        command.send_signal(number)
        command.send_signal(number)  # an impatient second one changes nothing
        assert command.wait(15) == 0
        assert time.monotonic() - began < 10
        assert command.stdout.read() == "stopping …\n"
    assert gone(family)
    assert bench.events() == ["started one", "stopped one"]


def test_a_signal_while_it_starts_leaves_nothing(bench):
    slow = bench.script_process("slow", "import time\ntime.sleep(99)", listens=Listens("127.0.0.1", free_port(), "x"))
    with serve(bench, slow) as command:
        eventually(lambda: len(psutil.Process(command.pid).children(recursive=True)) == 2)
        family = [process.pid for process in psutil.Process(command.pid).children(recursive=True)]
        command.send_signal(signal.SIGINT)
        assert command.wait(15) == 0
    assert gone(family)


def test_a_killed_command_takes_everything_with_it_and_the_home_is_free_again(bench):
    one = bench.server("one", stop_s=1.0)
    with serve(bench, one) as command:
        eventually(lambda: listening("127.0.0.1", one.listens.port))
        family = [process.pid for process in psutil.Process(command.pid).children(recursive=True)]
        command.kill()
        command.wait()
        # At once, while the old processes still stop: waits for them.
        with Stack(bench.settings, (bench.server("two"),)):
            assert bench.events() == ["started one", "stopped one", "started two"]
        assert gone(family)
