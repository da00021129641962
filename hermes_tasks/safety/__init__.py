"""Pure text functions: what a user may read, what must be masked, what smells of an attack. No state, no I/O."""
