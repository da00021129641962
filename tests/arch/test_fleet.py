"""The fleet covers every queue: queues, roles, launchers and compose services are one list."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from hermes_tasks.cli.app import app
from hermes_tasks.contracts.kinds import Queue
from hermes_tasks.deploy import Launcher, launchers
from hermes_tasks.runtime.roles import ROLES
from hermes_tasks.wiring.sandbox import may_run_commands
from tests.arch.tree import ROOT, imported
from tests.integration import commands_as

LAUNCHERS = launchers()
#: Of the roles that run commands.
CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"]


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return document["services"]


def test_each_queue_is_served_by_exactly_one_role() -> None:
    served = Counter(queue for role in ROLES.values() for queue in role.queues)
    assert served == Counter(Queue)


def test_each_role_has_its_launcher() -> None:
    assert {one.role for one in LAUNCHERS} == set(ROLES)


@pytest.mark.parametrize("one", LAUNCHERS, ids=lambda one: one.role)
def test_a_launcher_is_a_small_script_with_its_numbers_and_its_reason(one: Launcher) -> None:
    source = one.path.read_text()
    assert one.slots >= 1
    assert one.processes >= 1
    assert "\nSeparate because " in source
    assert f'run_worker(role="{one.role}", slots=SLOTS)' in source
    assert imported(source) == {"hermes_tasks.wiring.worker"}


def test_compose_runs_each_launcher_by_path_as_often_as_it_says(services: dict[str, dict[str, Any]]) -> None:
    run = {name: service for name, service in services.items() if "workers/" in str(service.get("command"))}
    assert set(run) == {one.role for one in LAUNCHERS}
    for one in LAUNCHERS:
        assert run[one.role]["command"] == ["python", "-P", f"workers/{one.role}.py"]
        assert run[one.role].get("deploy", {}).get("replicas", 1) == one.processes


def test_compose_has_the_rest_of_the_fleet(services: dict[str, dict[str, Any]]) -> None:
    assert set(services) - {one.role for one in LAUNCHERS} == {"store", "front", "beat", "flower"}


def test_compose_uses_commands_that_exist(services: dict[str, dict[str, Any]]) -> None:
    known = set(typer.main.get_group(app).commands)
    used = {
        name: service["command"][1] for name, service in services.items() if service["command"][0] == "hermes-tasks"
    }
    assert set(used) == {"front", "flower"}
    assert set(used.values()) - known == set()


def test_compose_publishes_on_loopback_only(services: dict[str, dict[str, Any]]) -> None:
    ports = [str(port) for service in services.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_compose_holds_no_secret_and_no_root(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        for key, value in service.get("environment", {}).items():
            secret = any(word in key.lower() for word in ("password", "secret", "token", "key"))
            assert not secret or str(value).startswith("/run/secrets/"), (name, key)
        if may_run_commands(name):
            assert service["user"] == "0", "each user's commands need a user id of their own"
            assert service["cap_add"] == CAPABILITIES
        else:
            assert service.get("user", "root") not in ("root", "0"), name
            assert "cap_add" not in service, name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert "healthcheck" in service, name


def test_the_capabilities_are_those_that_the_sandbox_was_tried_with() -> None:
    header = Path("/usr/include/linux/capability.h")
    if not header.is_file():
        pytest.skip(f"no {header} here")
    numbers = dict(re.findall(r"^#define CAP_(\w+)\s+(\d+)$", header.read_text(), re.MULTILINE))
    assert sorted(int(numbers[name]) for name in CAPABILITIES) == sorted(commands_as.CAPABILITIES)


def test_system_entries_go_to_a_queue_that_exists() -> None:
    entries = tomllib.loads((ROOT / "beat/schedule.toml").read_text())["entries"]
    for name, entry in entries.items():
        assert set(entry) == {"every_s", "task", "queue"}, name
        assert entry["every_s"] >= 1
        assert entry["queue"] in set(Queue)
