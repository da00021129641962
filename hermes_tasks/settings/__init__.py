"""Settings: one frozen object; environment over file over default. Only entry points call :func:`load`."""

from hermes_tasks.settings.load import load
from hermes_tasks.settings.models import Models, ModelSettings
from hermes_tasks.settings.root import Settings
from hermes_tasks.settings.sources import Source, sources

__all__ = ["ModelSettings", "Models", "Settings", "Source", "load", "sources"]
