"""The beat process: claims due fires of users' jobs and due system entries, and rings for them.

Separate because it must keep time: it runs nothing itself. More than one is harmless (a fire is claimed in the
store and exists once), so a second one on another machine means no gap when a machine dies.
"""

PROCESSES = 1  # on one machine the supervisor's restart is enough

if __name__ == "__main__":
    from hermes_tasks.wiring.beat import run_beat

    run_beat()
