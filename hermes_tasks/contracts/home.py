"""The home directory: what lies where. Pure paths; nothing is read or made here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Home:
    """One installation's directory. Everything below it belongs to Hermes Tasks, mode 0700 and 0600."""

    root: Path

    @property
    def id_file(self) -> Path:
        """Holds the id that the embedded store is stamped with."""
        return self.root / "id"

    @property
    def config(self) -> Path:
        """The settings file that is read when no other is named."""
        return self.root / "config.toml"

    @property
    def secrets(self) -> Path:
        """One file per generated secret."""
        return self.root / "secrets"

    @property
    def store_password(self) -> Path:
        """The password of the embedded store."""
        return self.secrets / "store-password"

    @property
    def flower_password(self) -> Path:
        """The password of Flower's page."""
        return self.secrets / "flower-password"

    @property
    def admin_key(self) -> Path:
        """The bearer key of the front's administrator."""
        return self.secrets / "admin-key"

    def user_key(self, user: str) -> Path:
        """A bearer key of that user, for the command line on this machine."""
        return self.secrets / f"user-{user}.key"

    @property
    def store(self) -> Path:
        """The data of the embedded store."""
        return self.root / "store"

    @property
    def run(self) -> Path:
        """Sockets, locks and generated configuration of a running ``hermes-tasks up``."""
        return self.root / "run"

    @property
    def logs(self) -> Path:
        """One log per process."""
        return self.root / "logs"

    @property
    def workspaces(self) -> Path:
        """One directory per user for the tools that touch files."""
        return self.root / "workspaces"
