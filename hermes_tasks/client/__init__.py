"""The Python client over the HTTP API: ``Client`` and what it returns."""

from __future__ import annotations

from hermes_tasks.client.client import Client
from hermes_tasks.client.live import LiveText, StepText
from hermes_tasks.client.words import Answer, Event, Sent, answer_of

__all__ = ["Answer", "Client", "Event", "LiveText", "Sent", "StepText", "answer_of"]
