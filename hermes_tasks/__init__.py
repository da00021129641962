"""Hermes Tasks: the background work of a personal agent, for thousands of users, on Celery and Redis."""

__version__ = "0.1.0"
