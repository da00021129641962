"""Where ``web_search`` is asked: one file per service, all with the same small interface (``port``)."""
