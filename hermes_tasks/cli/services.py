"""The long-running processes that have no launcher file: ``hermes-tasks front`` and ``hermes-tasks flower``."""

from __future__ import annotations

import os

from hermes_tasks.cli.options import ConfigOption, HomeOption


def front(home: HomeOption = None, config: ConfigOption = None) -> None:
    """Run the HTTP front in this process until SIGTERM, as hermes-tasks up and compose do.

    It needs a store, and settings that name it.

    Examples:
      hermes-tasks front

      hermes-tasks front --config production.toml
    """
    from hermes_tasks.wiring.front import run_front

    _name_settings(home, config)
    run_front()


def flower(home: HomeOption = None, config: ConfigOption = None) -> None:
    """Run Flower, the operators' page, in this process until SIGTERM, as hermes-tasks up and compose do.

    It needs the broker's address in the settings, and the file with its page's password.

    Examples:
      hermes-tasks flower

      hermes-tasks flower --config production.toml
    """
    from hermes_tasks.wiring.flower import run_flower

    _name_settings(home, config)
    run_flower()


def _name_settings(home: HomeOption, config: ConfigOption) -> None:
    """The processes read their settings from the environment, like every launcher."""
    if home is not None:
        os.environ["HERMES_TASKS_HOME"] = str(home)
    if config is not None:
        os.environ["HERMES_TASKS_CONFIG"] = str(config)
