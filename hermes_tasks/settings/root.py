"""The one settings object."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from hermes_tasks.contracts.home import Home
from hermes_tasks.settings.models import DEFAULT, Models, ModelSettings
from hermes_tasks.settings.sections import (
    BrokerSettings,
    BudgetSettings,
    CronSettings,
    DelegationSettings,
    DemoSettings,
    FlowerSettings,
    FrontSettings,
    LeaseSettings,
    LogSettings,
    MemorySettings,
    PoliciesSettings,
    RecoverySettings,
    StoreSettings,
    ToolSettings,
    WindowSettings,
    WorkersSettings,
)
from hermes_tasks.settings.types import FullPath

DEFAULT_HOME: Final = Path("~/.hermes-tasks")


class Settings(BaseSettings):
    """Everything an operator may set, frozen. Entry points get it from :func:`hermes_tasks.settings.load`.

    Built directly (``Settings(home=…)``, as tests do) it reads neither environment nor file.
    """

    model_config = SettingsConfigDict(frozen=True, extra="forbid", validate_default=True)

    home: FullPath = DEFAULT_HOME
    demo_model: bool = False
    store: StoreSettings = StoreSettings()
    broker: BrokerSettings = BrokerSettings()
    front: FrontSettings = FrontSettings()
    models: Models = Field(default_factory=Models)
    lease: LeaseSettings = LeaseSettings()
    recovery: RecoverySettings = RecoverySettings()
    windows: WindowSettings = WindowSettings()
    policies: PoliciesSettings = PoliciesSettings()
    budget: BudgetSettings = BudgetSettings()
    delegation: DelegationSettings = DelegationSettings()
    memory: MemorySettings = MemorySettings()
    cron: CronSettings = CronSettings()
    tools: ToolSettings = ToolSettings()
    workers: WorkersSettings = WorkersSettings()
    flower: FlowerSettings = FlowerSettings()
    demo: DemoSettings = DemoSettings()
    log: LogSettings = LogSettings()

    #: key → where its value came from; keys at their default are not in it.
    _origins: dict[str, str] = PrivateAttr(default_factory=dict)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is handed in: ``load`` reads environment and file itself, to tell all faults of both at once."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    @field_validator("home")
    @classmethod
    def _home_fits_configuration_files(cls, value: Path) -> Path:
        # The path is written into configuration files of the store's server and of the supervisor.
        text = str(value)
        if not text.isprintable() or any(mark in text for mark in (" ;", " #", '"', "%")):
            raise ValueError("should be a path without control characters, double quotes, %, ' ;' and ' #'")
        return value

    @model_validator(mode="after")
    def _models_or_demo(self) -> Self:
        named = self.models.named
        if not self.demo_model and DEFAULT in named:
            return self
        if not self.demo_model and named:
            raise ValueError(f"models: {', '.join(named)} configured, but no models.{DEFAULT}; add it")
        demo = ModelSettings(base_url=f"http://127.0.0.1:{self.demo.port}/v1", model="demo")
        # The object is not handed out yet; after this it stays as it is.
        object.__setattr__(self, "models", Models.model_validate({DEFAULT: demo}))
        object.__setattr__(self, "demo_model", True)
        return self

    @classmethod
    def from_layers(cls, values: Mapping[str, Any], origins: Mapping[str, str]) -> Self:
        """Settings of nested ``values`` that remember where each key came from."""
        settings = cls(**values)
        settings._origins.update(origins)
        return settings

    def origin(self, key: str) -> str:
        """Where the value of ``key`` came from: a variable's name, a file's path, ``--home`` or ``default``."""
        if self.demo_model and key.partition(".")[0] in ("models", "demo_model") and key not in self._origins:
            return "default (the demo model)"
        return self._origins.get(key, "default")

    @property
    def paths(self) -> Home:
        """What lies where in the home."""
        return Home(self.home)

    @property
    def workspaces(self) -> Path:
        """The directory that holds one workspace per user."""
        return self.tools.workspaces or self.paths.workspaces

    @property
    def admin_key_file(self) -> Path:
        """The file with the administrator's bearer key."""
        return self.front.admin_key_file or self.paths.admin_key

    @property
    def flower_password_file(self) -> Path:
        """The file with the password of Flower's page."""
        return self.flower.password_file or self.paths.flower_password
