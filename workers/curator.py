"""Worker of queue `curator`: upkeep that nobody waits for (system entries of the schedule, curation).

Separate because it may run for long over many users' records and must share no slot with work that somebody awaits.
"""

SLOTS = 4  # upkeep at once; more only adds load on the store
PROCESSES = 1  # what is cut off is done at its next time

if __name__ == "__main__":
    from hermes_tasks.wiring.worker import run_worker

    run_worker(role="curator", slots=SLOTS)
