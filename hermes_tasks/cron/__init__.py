"""Cron: users' jobs, when they fire, and what a fire runs."""
