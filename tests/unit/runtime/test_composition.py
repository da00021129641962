"""What the composition root decides: the policy of each kind, beat's entries, and how a process begins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.contracts.kinds import Queue, RunKind
from hermes_tasks.deploy import deploy_path
from hermes_tasks.runtime.beat import SystemEntry
from hermes_tasks.runtime.roles import ROLES
from hermes_tasks.settings import Settings
from hermes_tasks.wiring.base import TOOLSETS, policies, store_config
from hermes_tasks.wiring.beat import system_entries
from hermes_tasks.wiring.worker import RUNLESS

ROOT = Path(__file__).parents[3]


def settings(**more: object) -> Settings:
    return Settings(home=Path("/nonexistent"), **more)


def test_each_kind_has_the_limits_of_the_settings() -> None:
    chosen = settings(policies={"child": {"iterations": 7, "deadline_s": 9, "queue_deadline_s": 11}})
    child = policies(chosen)["child"]
    assert (child.iterations, child.deadline_s, child.queue_deadline_s) == (7, 9, 11)
    assert policies(chosen)["turn"].iterations == chosen.policies.turn.iterations
    assert {policy.model for policy in policies(chosen).values()} == {"default"}


def test_each_kind_may_use_its_model() -> None:
    endpoint = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}
    chosen = settings(models={"default": endpoint, "small": endpoint, "use": {"child": "small"}})
    assert policies(chosen)["child"].model == "small"
    assert policies(chosen)["turn"].model == "default"


def test_only_turns_delegate_and_only_turns_and_reviews_write_memory() -> None:
    found = policies(settings())
    assert [kind for kind, policy in found.items() if "delegation" in policy.toolsets] == ["turn"]
    assert [kind for kind, policy in found.items() if policy.memory == "write"] == ["turn", "review"]
    assert found["cron"].memory == "read"
    assert found["child"].memory == "none"
    assert found["review"].toolsets == ("memory",)
    for kind in ("turn", "review"):
        assert set(found[kind].toolsets).isdisjoint({"terminal", "file", "web"}), "no command runs in the front"


def test_the_scripts_get_windows_and_policies() -> None:
    config = store_config(settings(windows={"child": 5, "children_per_parent": 2}))
    assert config.windows["child"] == 5
    assert config.children_per_parent == 2
    assert "children_per_parent" not in config.windows
    assert set(config.policies) == {str(kind) for kind in TOOLSETS}


def test_roles_without_runs_serve_no_queue_of_runs() -> None:
    runless = {name for name, role in ROLES.items() if RUNLESS.issuperset(role.queues)}
    assert runless == {"memory", "prefetch", "curator", "delivery"}


def test_the_schedule_that_ships_can_be_read() -> None:
    entries = system_entries(deploy_path("beat/schedule.toml").read_text(encoding="utf-8"))
    assert SystemEntry("reindex", 3600, "reindex", Queue.CURATOR) in entries


def test_an_empty_schedule_has_no_entries() -> None:
    assert system_entries("") == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[entries.x]\nevery_s = 0\ntask = "t"\nqueue = "curator"', "every_s = 0"),
        ('[entries.x]\nevery_s = "1h"\ntask = "t"\nqueue = "curator"', "every_s = '1h'"),
        ('[entries.x]\nevery_s = 60\nqueue = "curator"', "task = None"),
        ('[entries.x]\nevery_s = 60\ntask = "t"\nqueue = "elsewhere"', "turns, delegation"),
        ("[entries.x", "cannot be read"),
    ],
)
def test_an_entry_that_cannot_be_used_is_refused_by_name(text: str, says: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        system_entries(text)
    assert says in str(refused.value)
    assert "schedule.toml" in str(refused.value)


@pytest.mark.parametrize(("launcher", "process"), [("workers/memory.py", "worker:memory"), ("beat/beat.py", "beat")])
def test_a_process_with_wrong_settings_says_so_in_one_line_each(launcher: str, process: str, tmp_path: Path) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HERMES_TASKS_")},
        "HERMES_TASKS_HOME": str(tmp_path), "HERMES_TASKS_LEASE__LENGTH": "5", "HERMES_TASKS_STORE__PORT": "many",
    }  # fmt: skip
    ended = subprocess.run(
        [sys.executable, "-P", str(ROOT / launcher)],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    lines = ended.stderr.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"{process} not started: ") for line in lines)
    assert "length" in ended.stderr.lower()
    assert "port" in ended.stderr


def test_each_kind_with_a_strategy_has_its_queue() -> None:
    assert set(TOOLSETS) == {RunKind.TURN, RunKind.CHILD, RunKind.REVIEW, RunKind.CRON}
