"""``hermes-tasks health`` on a real store."""

from __future__ import annotations

import json
from pathlib import Path

from redis import Redis
from typer.testing import CliRunner, Result

from hermes_tasks.cli.app import app
from hermes_tasks.cli.errors import ExitCode
from hermes_tasks.testing.server import EmbeddedServer
from hermes_tasks.tools.sandbox.layers import sandbox


def health(tmp_path: Path, url: str, *arguments: str, **more: str) -> Result:
    variables = {"HERMES_TASKS_STORE__URL": url, **more}
    return CliRunner().invoke(app, ["health", "--home", str(tmp_path), *arguments], env=variables)


def states(result: Result) -> dict[str, str]:
    return {finding["part"]: finding["state"] for finding in json.loads(result.stdout)}


def test_every_part_is_shown(tmp_path: Path, store_url: str) -> None:
    result = health(tmp_path, store_url, "--json")
    found = states(result)
    assert found["store"] == "ok"
    layers = {f"sandbox: {layer.name}": layer for layer in sandbox().layers}
    assert set(found) == {"store", *layers}
    assert {name for name, state in found.items() if state == "ok"} - {"store"} == {
        name for name, layer in layers.items() if layer.holds
    }
    assert result.exit_code == (ExitCode.FAILED if sandbox().missing else ExitCode.OK)
    table = health(tmp_path, store_url).stdout.splitlines()
    assert table[0].split() == ["part", "state", "what", "it", "does,", "or", "what", "to", "do"]
    assert len(table) == 1 + len(found)


def test_a_store_that_is_away_is_missing_and_the_rest_is_still_shown(tmp_path: Path) -> None:
    result = health(tmp_path, "redis://127.0.0.1:1/0", "--json")
    assert result.exit_code == ExitCode.FAILED
    assert states(result)["store"] == "missing"
    assert "sandbox: files" in states(result)


def test_a_home_without_a_store_is_missing_one(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["health", "--home", str(tmp_path), "--json"])
    assert result.exit_code == ExitCode.FAILED
    assert states(result)["store"] == "missing"


def test_a_store_that_may_forget_is_missing_something(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "store") as server:
        with Redis.from_url(server.url) as redis:
            redis.config_set("maxmemory-policy", "allkeys-lru")
        assert states(health(tmp_path, server.url, "--json"))["store"] == "missing"


def test_no_sandbox_is_off_and_asked_for(tmp_path: Path, store_url: str) -> None:
    result = health(tmp_path, store_url, "--json", HERMES_TASKS_TOOLS__SANDBOX="none")
    assert states(result) == {"store": "ok", "sandbox": "off"}
    assert result.exit_code == ExitCode.OK


def test_the_network_asks_for_one_layer_more(tmp_path: Path, store_url: str) -> None:
    found = states(health(tmp_path, store_url, "--json", HERMES_TASKS_TOOLS__TERMINAL_NETWORK="true"))
    assert "sandbox: ports" in found
