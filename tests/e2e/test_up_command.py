"""The command line: what ``config`` prints, and how ``up`` refuses a home, in one line and with nothing started."""

from __future__ import annotations

import json
import os

import pytest

from hermes_tasks.cli.errors import ExitCode
from hermes_tasks.cli.home_lock import take_home
from hermes_tasks.cli.processes import addresses, processes
from hermes_tasks.deploy import launchers
from hermes_tasks.settings import Settings
from hermes_tasks.store.home_files import make_home
from tests.e2e.commands import free_ports, refusal, run


def test_config_prints_value_and_source_of_each_key(tmp_path):
    (tmp_path / "config.toml").write_text("[windows]\nturn = 6\n")
    done = run("config", "--home", tmp_path, OPENAI_API_KEY="sk-hidden")
    assert done.returncode == ExitCode.OK
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in done.stdout.splitlines()}
    assert rows["windows.turn"].split(maxsplit=1) == ["6", str(tmp_path / "config.toml")]
    assert rows["models.default.api_key"].split() == ["(set)", "OPENAI_API_KEY"]
    assert "hidden" not in done.stdout


def test_config_as_json(tmp_path):
    done = run("config", "--json", "--home", tmp_path, HERMES_TASKS_LOG__LEVEL="debug")
    rows = {row["key"]: row for row in json.loads(done.stdout)}
    assert rows["log.level"] == {"key": "log.level", "value": "debug", "source": "HERMES_TASKS_LOG__LEVEL"}
    assert rows["demo_model"]["value"] == "true"


def test_config_tells_every_fault_on_a_line_of_its_own(tmp_path):
    done = run("config", "--home", tmp_path, HERMES_TASKS_LOG__LEVEL="loud", HERMES_TASKS_LOG__LEVLE="debug")
    assert done.returncode == ExitCode.USAGE
    first, second = done.stderr.splitlines()
    assert first.endswith("did you mean HERMES_TASKS_LOG__LEVEL?")
    assert "log.level = 'loud'" in second


def test_up_refuses_a_home_it_cannot_make(tmp_path):
    (tmp_path / "file").touch()
    done = run("up", "--home", tmp_path / "file" / "home", **free_ports())
    assert done.returncode == ExitCode.USAGE
    assert refusal(done).startswith(f"cannot use {tmp_path / 'file' / 'home'} as home (Not a directory")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_up_refuses_a_home_it_cannot_write(tmp_path):
    tmp_path.chmod(0o500)
    done = run("up", "--home", tmp_path / "home", **free_ports())
    assert done.returncode == ExitCode.USAGE
    assert "Permission denied" in refusal(done)


def test_up_refuses_a_home_in_use(tmp_path):
    home = make_home(tmp_path / "home")
    lock = take_home(home.run / "up.lock")
    try:
        done = run("up", "--home", home.root, **free_ports())
    finally:
        os.close(lock)
    assert done.returncode == ExitCode.CONFLICT == 4
    expected = f"Hermes Tasks already runs on {home.root} (pid {os.getpid()}); stop that one or use another --home"
    assert refusal(done) == expected
    assert not any(home.logs.iterdir())


@pytest.mark.parametrize(
    "section",
    ['[models.default]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\napi_key_file', "[tools]\nbrave_key_file"],
)
def test_up_refuses_a_key_file_that_is_not_there(tmp_path, section):
    (tmp_path / "config.toml").write_text(f'{section} = "{tmp_path / "key"}"\n')
    done = run("up", "--home", tmp_path, **free_ports())
    assert done.returncode == ExitCode.USAGE
    assert f"cannot read the key file {tmp_path / 'key'} (No such file or directory)" in refusal(done)


def test_the_table_has_every_role_and_what_the_settings_ask_for(tmp_path):
    table = {process.name: process for process in processes(Settings(home=tmp_path))}
    assert {"store", "model", "front", "beat", "flower"} <= set(table)
    assert {(role.role, role.processes) for role in launchers()} <= {(p.name, p.count) for p in table.values()}
    assert all(table[role.role].depends == ("store", "model") for role in launchers())
    settings = Settings(
        home=tmp_path,
        store={"url": "redis://h"},
        models={"default": {"base_url": "http://h/v1", "model": "m"}},
        flower={"enabled": False},
        workers={"turns": {"processes": 0}, "memory": {"processes": 5}},
    )
    table = {process.name: process for process in processes(settings)}
    assert {"store", "model", "flower", "turns"}.isdisjoint(table)
    assert table["memory"].count == 5
    assert table["memory"].depends == ()


def test_addresses_name_the_password_file_and_no_password(tmp_path):
    home = make_home(tmp_path)
    found = dict(addresses(Settings(home=tmp_path)))
    assert found["flower"] == f"http://127.0.0.1:5555  user admin, password in {home.flower_password}"
    assert found["front"].startswith("http://127.0.0.1:8642")
    assert "demo model" in found["model"]
    assert home.flower_password.read_text().strip() not in str(found)
