"""The truth in Redis: one file per record kind, every key in ``keys.py``, every write a script in ``lua/``."""
