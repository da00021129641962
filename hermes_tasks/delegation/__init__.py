"""Delegation: ``delegate_task`` and the runs it starts."""
