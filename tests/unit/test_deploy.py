"""Deploy files are found by name, in a checkout as in an installation (tests/arch/test_wheel.py shows the latter)."""

from __future__ import annotations

import pytest

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.deploy import deploy_path, launcher, launchers


def test_a_deploy_file_is_found() -> None:
    assert deploy_path("beat/schedule.toml").read_text().startswith("# System entries only")


@pytest.mark.parametrize("name", ["workers/nobody.py", "hermes_tasks/deploy.py", "pyproject.toml", ""])
def test_anything_else_is_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidRequest, match="no deploy file"):
        deploy_path(name)


def test_a_launcher_tells_its_numbers_without_starting_a_worker() -> None:
    one = launcher("memory")
    assert (one.role, one.path.name) == ("memory", "memory.py")
    assert one.slots >= 1
    assert one.processes >= 1


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"workers/nobody\.py"):
        launcher("nobody")


def test_all_launchers_are_listed_by_name() -> None:
    roles = [one.role for one in launchers()]
    assert roles == sorted(roles)
    assert "turns" in roles
