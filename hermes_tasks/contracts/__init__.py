"""The words of the project as types and ports. Imports nothing else of the project."""
