"""Worker of queue `curator`: looks after users' skills, and does the system entries of the schedule.

Separate because this is housekeeping: slow, rare and the first to be switched off when a machine is short.
"""

SLOTS = 8  # curations in hand at once, and the system entries of the schedule
PROCESSES = 1  # a curation may start minutes late; a killed one is continued after the restart

if __name__ == "__main__":
    from hermes_tasks.wiring import run_worker

    run_worker(role="curator", slots=SLOTS)
