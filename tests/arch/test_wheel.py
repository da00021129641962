"""What is installed: one import name, and the deploy files as its data."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import hermes_tasks
from tests.arch.tree import ROOT, build_wheel, files, named


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_it_installs_one_name(names: set[str]) -> None:
    info = f"hermes_tasks-{hermes_tasks.__version__}.dist-info"
    assert {name.split("/", 1)[0] for name in names} == {"hermes_tasks", info}
    assert f"{info}/licenses/LICENSE" in names


def test_it_holds_every_file_of_the_package_and_says_it_is_typed(names: set[str]) -> None:
    package = {named(path) for path in files() if named(path).startswith("hermes_tasks/")}
    assert "hermes_tasks/py.typed" in package
    assert package - names == set()


def test_the_deploy_files_are_the_repository_s_own(names: set[str], wheel: Path) -> None:
    deploy = {named(path) for path in files() if named(path).split("/", 1)[0] in ("workers", "beat", "config")}
    shipped = {name.removeprefix("hermes_tasks/_deploy/") for name in names if "/_deploy/" in name}
    assert shipped == deploy
    with zipfile.ZipFile(wheel) as archive:
        for name in deploy:
            assert archive.read(f"hermes_tasks/_deploy/{name}") == (ROOT / name).read_bytes()


def test_an_installed_copy_finds_them(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "import hermes_tasks.deploy as d; print(d.__file__); print(d.deploy_path('beat/schedule.toml'));"
        "print(*[one.role for one in d.launchers()])"
    )
    shown = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout.splitlines()
    assert shown[0].startswith(str(tmp_path))
    assert shown[1] == str(tmp_path / "site/hermes_tasks/_deploy/beat/schedule.toml")
    assert shown[2].split() == sorted(path.stem for path in (ROOT / "workers").glob("*.py"))


def test_what_it_needs_is_what_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    declared = {name_of(line) for line in project["project"]["dependencies"]}
    developer = {name_of(line) for line in project["dependency-groups"]["dev"]}
    assert declared - locked("requirements.lock") == set()
    assert (declared | developer | locked("requirements.lock")) - locked("requirements-dev.lock") == set()


def name_of(requirement: str) -> str:
    return requirement.split("[", 1)[0].split(">", 1)[0].split("=", 1)[0].strip().lower().replace("_", "-")


def locked(file: str) -> set[str]:
    lines = (ROOT / file).read_text().splitlines()
    return {name_of(line) for line in lines if line and not line.startswith((" ", "#"))}
