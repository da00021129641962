"""Turns: one user message and everything until its answer is committed."""
