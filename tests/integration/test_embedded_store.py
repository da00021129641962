"""The embedded store as real processes: what it refuses, what it keeps, and when it ends."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import redis

from hermes_tasks.contracts.errors import Conflict, InvalidRequest, NotFound, StoreUnavailable
from hermes_tasks.observe.ports import check_port, free_port
from hermes_tasks.settings import Settings
from hermes_tasks.store.address import broker_url, store_url
from hermes_tasks.store.client import connect
from hermes_tasks.store.embedded import answers, lock_data, prepare
from hermes_tasks.store.home_files import make_home, read_secret
from hermes_tasks.store.identity import check_identity
from hermes_tasks.testing.server import EmbeddedServer


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)


def client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=2, retry=None, decode_responses=True)


def launcher(home: Path, port: int, *more: str) -> list[str]:
    return [sys.executable, "-m", "hermes_tasks.store.embedded", "--home", str(home), "--port", str(port), *more]


def in_the_log(store: redis.Redis) -> None:
    """Return when every write is in the log file: while an fsync of ``everysec`` is slow, the server keeps acknowledged
    writes in its own memory for up to 2 s, and a kill then loses them."""
    eventually(lambda: store.info("persistence")["aof_buffer_length"] == 0)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_home_is_private_and_keeps_its_secrets(tmp_path):
    home = prepare(tmp_path / "deep" / "home", free_port()).home
    assert mode(home.root) == mode(home.store) == mode(home.secrets) == mode(home.run) == 0o700
    secrets = (home.store_password, home.flower_password, home.admin_key)
    assert all(mode(path) == 0o600 for path in (*secrets, home.id_file, home.run / "valkey.conf"))
    before = [read_secret(path) for path in (*secrets, home.id_file)]
    assert len(set(before)) == 4
    assert all(len(text) >= 32 for text in before)
    home.admin_key.chmod(0o644)
    again = make_home(home.root)
    assert [read_secret(path) for path in (*secrets, again.id_file)] == before
    assert mode(home.admin_key) == 0o600


def test_an_empty_secret_is_made_anew_and_a_missing_one_is_told(tmp_path):
    home = make_home(tmp_path)
    home.admin_key.write_text("")
    with pytest.raises(NotFound, match="is empty"):
        read_secret(home.admin_key)
    assert read_secret(make_home(tmp_path).admin_key)
    with pytest.raises(NotFound, match="start hermes-tasks up on this home first"):
        read_secret(tmp_path / "nothing")


def test_it_is_set_up_to_lose_nothing(store_server, store_url):
    with client(store_url) as store:
        settings = store.config_get("*")
    assert (settings["appendonly"], settings["appendfsync"], settings["save"]) == ("yes", "everysec", "")
    assert (settings["maxmemory-policy"], settings["maxmemory"]) == ("noeviction", str(256 * 1024 * 1024))
    assert (settings["databases"], settings["bind"], settings["protected-mode"]) == ("2", "127.0.0.1", "yes")


def test_it_asks_for_the_password(store_server, store_url):
    with client(f"redis://127.0.0.1:{store_server.port}/0") as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
    assert not answers(store_server.port, "wrong")


def test_what_is_in_the_log_survives_a_kill(tmp_path):
    with EmbeddedServer(tmp_path) as server:
        with client(server.url) as store, client(server.broker_url) as broker:
            for number in range(200):
                store.rpush("numbers", number)
            broker.set("other", "database")
            in_the_log(store)
        server.kill()
        assert not server.running()
        server.start()
        with client(server.url) as store, client(server.broker_url) as broker:
            assert store.lrange("numbers", 0, -1) == [str(number) for number in range(200)]
            assert broker.get("other") == "database"
            assert store.dbsize() == 1


def test_a_cut_off_log_is_read_up_to_its_last_whole_record(tmp_path):
    with EmbeddedServer(tmp_path) as server:
        with client(server.url) as store:
            for number in range(50):
                store.rpush("numbers", number)
            in_the_log(store)
        server.kill()
        (log,) = (server.paths.home.store / "appendonlydir").glob("*.incr.aof")
        with log.open("r+b") as file:
            file.truncate(log.stat().st_size - 5)
        server.start()
        with client(server.url) as store:
            assert store.lrange("numbers", 0, -1) == [str(number) for number in range(49)]


def test_frozen_it_is_silent_and_thawed_it_goes_on(tmp_path):
    with EmbeddedServer(tmp_path) as server:
        password = read_secret(server.paths.home.store_password)
        server.freeze()
        assert server.running()
        assert not answers(server.port, password, timeout_s=0.2)
        server.thaw()
        assert answers(server.port, password)


def test_flush_empties_every_database(tmp_path):
    with EmbeddedServer(tmp_path) as server, client(server.url) as store, client(server.broker_url) as broker:
        store.set("a", 1)
        broker.set("b", 1)
        server.flush()
        assert store.dbsize() == broker.dbsize() == 0


def test_a_taken_port_is_refused_in_one_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(launcher(tmp_path, port), capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert done.stderr == f"store: port {port} on 127.0.0.1 is taken; stop what listens there or set store.port\n"


def test_data_in_use_is_refused_in_one_line_and_the_first_server_goes_on(tmp_path):
    with EmbeddedServer(tmp_path) as server, client(server.url) as store:
        store.set("a", 1)
        done = subprocess.run(launcher(tmp_path, free_port()), capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 1
        assert "is in use by another server (pid " in done.stderr
        assert done.stderr.count("\n") == 1
        assert store.get("a") == "1"
    lock = lock_data(server.paths)  # free again once it is gone
    os.close(lock)


def test_a_rewrite_of_the_log_does_not_hold_the_lock_past_the_server(tmp_path):
    with EmbeddedServer(tmp_path) as server:
        with client(server.url) as store:
            store.config_set("rdb-key-save-delay", 200_000)  # 0.2 s per key: the rewrite outlasts the kill
            for number in range(500):
                store.set(f"key{number}", number)
            in_the_log(store)
            store.bgrewriteaof()
            eventually(lambda: store.info("persistence")["aof_rewrite_in_progress"] == 1)
        server.kill()
        eventually(lambda: _can_start(server), seconds=25)
        with client(server.url) as store:
            assert store.dbsize() == 500


def _can_start(server: EmbeddedServer) -> bool:
    with suppress(StoreUnavailable):
        server.start()
    return server.running()


STARTER = """
import subprocess, sys, time
child = subprocess.Popen(sys.argv[1:])
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("way", [(), ("--watch",)], ids=["exec", "watch"])
def test_it_ends_with_its_parent(tmp_path, how, way):
    port = free_port()
    paths = prepare(tmp_path, port)
    password = read_secret(paths.home.store_password)
    with (tmp_path / "log").open("wb") as log:
        parent = subprocess.Popen(
            [sys.executable, "-c", STARTER, *launcher(tmp_path, port, *way)], stdout=subprocess.PIPE, stderr=log
        )
    family: list[psutil.Process] = []
    try:
        child = psutil.Process(int(parent.stdout.readline()))
        eventually(lambda: answers(port, password))
        family += [child, *child.children(recursive=True)]
        assert len(family) == (2 if way else 1)
        parent.send_signal(how)
        parent.wait(10)
        psutil.wait_procs(family, timeout=10)
        assert not [process for process in family if process.is_running()]
        check_port("127.0.0.1", port, "store.port")
    finally:
        parent.kill()
        parent.stdout.close()
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()


def test_a_watcher_passes_the_stop_on_and_returns_the_servers_code(tmp_path):
    port = free_port()
    password = read_secret(prepare(tmp_path, port).home.store_password)
    with subprocess.Popen(launcher(tmp_path, port, "--watch"), stdout=subprocess.DEVNULL) as watcher:
        eventually(lambda: answers(port, password))
        watcher.terminate()
        assert watcher.wait(10) == 0
    check_port("127.0.0.1", port, "store.port")


def test_it_refuses_to_start_when_its_starter_is_gone_already(tmp_path):
    done = subprocess.run(
        launcher(tmp_path, free_port()),
        env={**os.environ, "HT_PARENT_PID": "1"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert "(pid 1) is gone" in done.stderr


@pytest.mark.anyio
async def test_a_store_is_stamped_once_and_a_foreign_one_refused(store_url):
    store = connect(store_url, connections=1)
    try:
        await check_identity(store, "home-1")
        await check_identity(store, "home-1")
        with pytest.raises(Conflict, match="belongs to another home \\(id home-1, ours is home-2\\)"):
            await check_identity(store, "home-2")
    finally:
        await store.aclose(close_connection_pool=True)


@pytest.mark.anyio
async def test_a_store_with_another_password_is_not_ours(store_server, store_url):
    store = connect(f"redis://:wrong@127.0.0.1:{store_server.port}/0", connections=1)
    try:
        with pytest.raises(Conflict, match="refuses this home's password"):
            await check_identity(store, "home-1")
    finally:
        await store.aclose(close_connection_pool=True)


@pytest.mark.anyio
async def test_identity_of_a_store_that_is_away(tmp_path):
    store = connect(f"redis://127.0.0.1:{free_port()}/0", connections=1)
    try:
        with pytest.raises(StoreUnavailable, match="is it running"):
            await check_identity(store, "home-1")
    finally:
        await store.aclose(close_connection_pool=True)


def test_addresses_of_store_and_broker(tmp_path):
    settings = Settings(home=tmp_path, store={"port": 7001})
    with pytest.raises(NotFound):
        store_url(settings)
    password = read_secret(make_home(tmp_path).store_password)
    assert store_url(settings) == f"redis://:{password}@127.0.0.1:7001/0"
    assert broker_url(settings) == f"redis://:{password}@127.0.0.1:7001/1"
    external = Settings(home=tmp_path, store={"url": "rediss://u:p@h:1/3?ssl_cert_reqs=none"})
    assert store_url(external) == "rediss://u:p@h:1/3?ssl_cert_reqs=none"
    assert broker_url(external) == "rediss://u:p@h:1/4?ssl_cert_reqs=none"
    assert broker_url(Settings(store={"url": "redis://h"})) == "redis://h/1"
    assert broker_url(Settings(broker={"url": "amqp://h//"})) == "amqp://h//"
    with pytest.raises(InvalidRequest, match=r"set broker\.url"):
        broker_url(Settings(store={"url": "redis://h/?db=3"}))
