"""The HTTP API: messages in, events and records out."""

from __future__ import annotations

from hermes_tasks.front.app import create_app
from hermes_tasks.front.services import AddJob, FrontServices, StartTurn
from hermes_tasks.front.serving import FrontServer, serve

__all__ = ["AddJob", "FrontServer", "FrontServices", "StartTurn", "create_app", "serve"]
