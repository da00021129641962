"""The command line: ``hermes-tasks …``."""
