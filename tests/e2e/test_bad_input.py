"""Bad input of every kind, given to real processes: one line that names cause and remedy, an exit code other than 0,
nothing stored, nothing left running.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hermes_tasks.cli.errors import ExitCode
from hermes_tasks.contracts.home import Home
from hermes_tasks.demo.reply import Reply
from hermes_tasks.demo.server import ModelServer
from hermes_tasks.deploy import deploy_path
from hermes_tasks.observe.ports import free_port
from hermes_tasks.store.client import Store
from hermes_tasks.store.users import User, Users
from hermes_tasks.testing.server import EmbeddedServer
from tests.e2e.commands import PROGRAM, Up, at_work, free_ports, refusal, run, told


def launcher(path: str) -> tuple[str, ...]:
    return (sys.executable, "-P", str(deploy_path(path)))


WORKER, BEAT = launcher("workers/memory.py"), launcher("beat/beat.py")
COMMANDS = {
    "config": (*PROGRAM, "config"),
    "up": (*PROGRAM, "up"),
    "users": (*PROGRAM, "users", "list"),
    "chat": (*PROGRAM, "chat"),
    "front": (*PROGRAM, "front"),
    "flower": (*PROGRAM, "flower"),
    "worker": WORKER,
    "beat": BEAT,
}


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["up", "users", "worker", "front"])
def test_an_unknown_variable_is_named(name: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    done = run(program=COMMANDS[name], HERMES_TASKS_HOME=str(home), HERMES_TASKS_FRONT__PROT="1")
    assert done.returncode == ExitCode.USAGE
    said = "unknown environment variable HERMES_TASKS_FRONT__PROT; did you mean HERMES_TASKS_FRONT__PORT"
    assert said in told(done)
    assert not home.exists()
    assert at_work(home) == []


@pytest.mark.parametrize("name", ["config", "up", "chat", "beat", "flower"])
def test_an_unknown_key_in_the_file_is_named(name: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[front]\nprot = 1\n")
    done = run(program=COMMANDS[name], HERMES_TASKS_HOME=str(tmp_path))
    assert done.returncode == ExitCode.USAGE
    assert f"unknown setting front.prot in {file}; did you mean front.port" in told(done)
    assert list(tmp_path.iterdir()) == [file]
    assert at_work(tmp_path) == []


# --- a store that is away --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["up", "users", "worker", "beat", "front"])
def test_a_store_that_cannot_be_reached(name: str, tmp_path: Path) -> None:
    port, home = free_port(), tmp_path / "home"
    variables = free_ports() | {
        "HERMES_TASKS_HOME": str(home),
        "HERMES_TASKS_STORE__URL": f"redis://:a-password@127.0.0.1:{port}",
    }
    done = run(program=COMMANDS[name], **variables)
    assert done.returncode == ExitCode.STORE_UNREACHABLE
    line = told(done)
    assert f"cannot use the store at 127.0.0.1:{port} (" in line
    assert "check store.url" in line
    assert "a-password" not in done.stderr + done.stdout
    assert not home.exists()
    assert at_work(home) == []


def test_a_store_that_refuses_the_password(tmp_path: Path, store_server: EmbeddedServer) -> None:
    store_server.start()
    url = f"redis://:wrong@127.0.0.1:{store_server.port}/0"
    done = run("users", "list", "--home", tmp_path, HERMES_TASKS_STORE__URL=url)
    assert done.returncode == ExitCode.STORE_UNREACHABLE
    assert refusal(done).startswith(f"the store at 127.0.0.1:{store_server.port} refused our password")


def test_a_home_that_was_never_started(tmp_path: Path) -> None:
    done = run("users", "list", "--home", tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert refusal(done).endswith("does not exist; start hermes-tasks up on this home first")
    assert list(tmp_path.iterdir()) == []


# --- ports -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["STORE", "FRONT", "FLOWER"])
def test_a_taken_port(what: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("up", "--home", tmp_path, **free_ports() | {f"HERMES_TASKS_{what}__PORT": str(port)})
    assert done.returncode == ExitCode.CONFLICT
    assert refusal(done) == f"port {port} on 127.0.0.1 is taken; stop what listens there or set {what.lower()}.port"
    assert list(Home(tmp_path).logs.iterdir()) == []
    assert at_work(tmp_path) == []


# --- users -----------------------------------------------------------------------------------------------------------


class Registry:
    """The users of a store of its own, through the command line."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.server, self.home = server, server.paths.home.root

    def run(self, *arguments: str | bytes) -> Any:
        variables = {"HERMES_TASKS_HOME": str(self.home), "HERMES_TASKS_STORE__PORT": str(self.server.port)}
        return run("users", *arguments, **variables)

    def all(self) -> tuple[set[str], list[User], set[Path]]:
        """Every key of the store, every user, every file."""

        async def read() -> tuple[set[str], list[User]]:
            store = Store(self.server.url)
            try:
                return set(await store.redis.keys("*")), await Users(store).all()
            finally:
                await store.aclose()

        return *asyncio.run(read()), set(self.home.parent.rglob("*"))


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with EmbeddedServer(tmp_path_factory.mktemp("registry") / "home") as server:
        made = Registry(server)
        assert made.run("add", "ada", "--zone", "Europe/Lisbon").returncode == 0
        yield made


ODD_IDS = ["", ".", "-x", "Ada", "a b", "../../etc/passwd", "a{b}", "a\nb", "ünï", "a" * 65, "a" * 300]


@pytest.mark.parametrize("name", ODD_IDS, ids=[repr(name)[:20] for name in ODD_IDS])
def test_an_odd_user_id(name: str, registry: Registry) -> None:
    before = registry.all()
    done = registry.run("add", "--", name) if name.startswith("-") else registry.run("add", name)
    assert done.returncode == ExitCode.USAGE
    line = refusal(done)
    assert line.startswith("invalid user id '")
    assert line.endswith(": use 1 to 64 of a-z 0-9 . _ - and begin with a letter or digit")
    assert registry.all() == before


WRONG_USERS = {
    "not UTF-8": (["add", b"\xff"], "argument 3 is not UTF-8 text"),
    "no option": (["add", "-x"], "No such option: -x; see: "),
    "no name": (["add"], "Missing argument 'NAME'; see: "),
    "zone": (["add", "bob", "--zone", "Mars/Phobos"], "unknown time zone 'Mars/Phobos': use an IANA name such as"),
    "empty zone": (["add", "bob", "--zone", ""], "unknown time zone '': use an IANA name such as"),
    "path as zone": (["add", "bob", "--zone", "../../etc/passwd"], "unknown time zone '../../etc/passwd'"),
    "language": (["add", "bob", "--language", "x y"], "unknown language 'x y': use a tag such as pt or pt-BR"),
    "zone of a user": (["set", "ada", "--zone", "Mars/Phobos"], "unknown time zone 'Mars/Phobos'"),
    "language of a user": (["set", "ada", "--language", "a" * 300], "unknown language 'aaa"),
    "nothing to set": (["set", "ada"], "nothing to change: give --zone or --language"),
    "nobody": (["set", "nobody", "--zone", "UTC"], "there is no user nobody; make one with: hermes-tasks users add"),
}


@pytest.mark.parametrize("case", WRONG_USERS)
def test_what_a_user_cannot_be(case: str, registry: Registry) -> None:
    arguments, said = WRONG_USERS[case]
    before = registry.all()
    done = registry.run(*arguments)
    assert done.returncode == ExitCode.USAGE
    assert refusal(done).startswith(said)
    assert registry.all() == before


def test_a_user_that_exists(registry: Registry) -> None:
    before = registry.all()
    done = registry.run("add", "ada", "--zone", "Asia/Tokyo")
    assert done.returncode == ExitCode.CONFLICT
    assert refusal(done) == "user ada exists; change it with: hermes-tasks users set ada"
    assert registry.all() == before


# --- the whole stack -------------------------------------------------------------------------------------------------


class Endpoint:
    """The model's provider: answers everything with ``reply``."""

    def __init__(self) -> None:
        self.reply = Reply(text="Fine.")
        self.server: ModelServer

    def __call__(self, _request: dict[str, Any]) -> Reply:
        return self.reply


KEY = "sk-test-0123456789-refused"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    with ModelServer.threaded(made) as server:
        made.server = server
        yield made


@pytest.fixture(scope="module")
def stack(endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One ``up`` for all of them, with as few processes as they need."""
    few = {f"HERMES_TASKS_WORKERS__{role}__PROCESSES": "1" for role in ("TURNS", "REVIEW", "CRON", "MEMORY")}
    none = {f"HERMES_TASKS_WORKERS__{role}__PROCESSES": "0" for role in ("DELEGATION", "PREFETCH", "CURATOR")}
    model = {"BASE_URL": endpoint.server.base_url, "MODEL": "double", "API_KEY": KEY}
    variables = few | none | {f"HERMES_TASKS_MODELS__DEFAULT__{name}": value for name, value in model.items()}
    home = tmp_path_factory.mktemp("bad") / "home"
    with Up(home, variables | {"HERMES_TASKS_FLOWER__ENABLED": "false"}) as up:
        yield up
        code, _, said = up.interrupt()
        assert (code, said, up.errors.read_text()) == (0, "stopping …\n", "")
    assert at_work(home) == []


def asked(up: Up, method: str, path: str, **request: Any) -> httpx.Response:
    with httpx.Client(base_url=up.url, headers={"Authorization": f"Bearer {up.key}"}, trust_env=False) as client:
        return client.request(method, path, **request)


def turns(up: Up, session: str) -> list[dict[str, Any]]:
    return list(asked(up, "GET", f"/v1/sessions/{session}/history").json()["turns"])


@pytest.mark.crash
@pytest.mark.timeout(300)
@pytest.mark.parametrize("wrong", ["refused key", "garbage"])
def test_a_model_that_cannot_answer(wrong: str, stack: Up, endpoint: Endpoint) -> None:
    place = f"model 'default' (double at 127.0.0.1:{endpoint.server.port})"
    if wrong == "refused key":
        said = {"error": {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key"}}
        endpoint.reply = Reply(status=401, body=said)
        cause = f"refused by the model's provider: {place} refused (HTTP 401): check models.default.api_key"
    else:
        endpoint.reply = Reply(body="<html><body>Welcome!</body></html>", content_type="text/html")
        cause = f"not a model's answer: {place} did not answer as a chat-completions endpoint: "
    session, before = wrong.replace(" ", "-"), endpoint.server.total
    try:
        done = stack.run("chat", "--session", session, given="hello\nnever sent\n")
    finally:
        endpoint.reply = Reply(text="Fine.")
    assert done.returncode == ExitCode.FAILED
    assert done.stdout == ""
    assert refusal(done).startswith(f"the turn is failed: {cause}")
    assert "check models.default." in refusal(done)
    assert KEY not in done.stderr
    assert endpoint.server.total == before + 1, "repeating cannot help"
    [turn] = turns(stack, session)
    assert (turn["user"], turn["assistant"], turn["state"]) == ("hello", "", "failed")
    assert refusal(done) == f"the turn is failed: {turn['error']}"
    runs = {one["run"]: one for one in stack.json("runs", "list")}
    assert (runs[turn["run"]]["state"], runs[turn["run"]]["error"]) == ("failed", turn["error"])
    assert f"review.{session}.1" not in runs, "a failed turn is not reviewed"
    done = stack.run("chat", "--session", session, given="again\n")
    assert (done.returncode, done.stdout) == (0, "Fine.\n"), "the session goes on"


@pytest.mark.crash
@pytest.mark.timeout(300)
def test_a_message_that_is_too_long_or_empty(stack: Up, endpoint: Endpoint) -> None:
    asked(stack, "POST", "/v1/sessions", json={"session": "sizes"})
    before, runs = endpoint.server.total, stack.json("runs", "list")
    path = "/v1/sessions/sizes/messages"
    long = asked(stack, "POST", path, json={"text": "x" * 32_001})
    assert long.status_code == 413
    assert long.json()["error"] == {
        "type": "too_large", "field": "text",
        "message": "the message has 32001 characters and 32000 are allowed (front.max_message_chars)",
    }  # fmt: skip
    huge = asked(stack, "POST", path, content=b'{"text": "' + b"x" * 1_048_576 + b'"}')
    assert huge.status_code == 413
    assert huge.json()["error"]["message"] == "the body is larger than 1048576 bytes (front.max_body_bytes); send less"
    empty = asked(stack, "POST", path, json={"text": " \n"})
    assert (empty.status_code, empty.json()["error"]["message"]) == (400, "the message is empty; write something")
    done = stack.run("chat", "--session", "sizes", given="x" * 32_001 + "\n")
    assert done.returncode == ExitCode.USAGE
    assert refusal(done) == long.json()["error"]["message"]
    assert turns(stack, "sizes") == []
    session = asked(stack, "GET", "/v1/sessions/sizes").json()
    assert (session["turns"], session["waiting"]) == (0, [])
    assert stack.json("runs", "list") == runs
    assert endpoint.server.total == before


@pytest.mark.crash
@pytest.mark.timeout(300)
def test_a_second_up(stack: Up, tmp_path: Path) -> None:
    before = {process.pid for process in stack.family()}
    done = run("up", "--home", stack.home, **free_ports())
    assert done.returncode == ExitCode.CONFLICT
    assert refusal(done) == (
        f"Hermes Tasks already runs on {stack.home} (pid {stack.process.pid}); stop that one or use another --home"
    )
    done = run("up", "--home", tmp_path / "other", **stack.variables)
    assert done.returncode == ExitCode.CONFLICT
    port = stack.variables["HERMES_TASKS_STORE__PORT"]
    assert refusal(done) == f"port {port} on 127.0.0.1 is taken; stop what listens there or set store.port"
    assert at_work(tmp_path / "other") == []
    assert {process.pid for process in stack.family()} == before
    assert stack.run("chat", given="are you there?\n").stdout == "Fine.\n"


WRONG_JOBS = {
    "none": ([], "give either every"),
    "both": (["--every", "2m", "--at", "2090-01-01T09:00"], "give either every"),
    "zero": (["--every", "0m"], "the interval '0m' is too short: the smallest allowed is 60s"),
    "negative": (["--every", "-5m"], "cannot read the interval '-5m': use a whole number and s, m, h or d"),
    "too short": (["--every", "30s"], "the interval '30s' is too short: the smallest allowed is 60s"),
    "nonsense": (["--every", "nonsense"], "cannot read the interval 'nonsense': use a whole number and"),
    "too long": (["--every", "4000d"], "the interval '4000d' is longer than ten years"),
    "past": (["--at", "2020-01-31T09:00"], "the moment '2020-01-31T09:00' has passed; it is "),
    "no moment": (["--at", "soon"], "cannot read the moment 'soon': use ISO such as 2030-01-31T09:00"),
    "no day": (["--at", "2030-02-31T09:00"], "cannot read the moment '2030-02-31T09:00'"),
}


@pytest.mark.crash
@pytest.mark.timeout(300)
def test_a_job_that_cannot_be(stack: Up) -> None:
    for case, (when, said) in WRONG_JOBS.items():
        done = stack.run("jobs", "add", *when, "look at the build")
        assert done.returncode == ExitCode.USAGE, case
        assert refusal(done).startswith(said), case
    for prompt, said in (("", "the prompt is empty"), (b"\xff", "argument 5 is not UTF-8 text")):
        done = stack.run("jobs", "add", "--every", "2m", prompt)
        assert (done.returncode, refusal(done).partition(";")[0]) == (ExitCode.USAGE, said)
    assert stack.json("jobs", "list") == []


@pytest.mark.crash
@pytest.mark.timeout(300)
def test_a_client_that_is_wrong(stack: Up, tmp_path: Path) -> None:
    bad = tmp_path / "bad.key"
    bad.write_text("ht_not-a-key\n")
    for arguments, code, said in (
        (["chat", "--key-file", bad], ExitCode.USAGE, "unknown key; check it or ask for a new one"),
        (["chat", "--key-file", tmp_path / "none"], ExitCode.USAGE, f"{tmp_path / 'none'} does not exist"),
        (["chat", "--session", "a b"], ExitCode.USAGE, "session: invalid session 'a b': use 1 to 128 of"),
        (["chat", "--url", "nonsense"], ExitCode.USAGE, "'nonsense' should be a URL of the form http://host:port"),
        (["inbox", "--url", f"http://127.0.0.1:{free_port()}"], ExitCode.FAILED, "no answer from http://127.0.0.1:"),
        (["runs", "show", "nothing"], ExitCode.USAGE, "there is no run nothing"),
        (["runs", "cancel", "../me"], ExitCode.USAGE, "there is nothing with the id '../me'"),
    ):
        done = stack.run(*arguments, given="hello\n")
        assert done.returncode == code, arguments
        assert refusal(done).startswith(said), arguments
        assert done.stdout == ""
