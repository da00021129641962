"""Composition root: the only place that joins store, strategies, tools, Celery and front. One file per process."""
