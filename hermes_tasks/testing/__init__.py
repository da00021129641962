"""Doubles and servers for tests; they ship with the package."""
