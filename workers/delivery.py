"""Worker of queue `delivery`: hands finished answers to the users' inboxes.

Separate because targets outside can be slow: a delivery must not wait behind an agent's work, nor the other way round.
"""

SLOTS = 16  # deliveries in hand at once
PROCESSES = 1  # what is owed is rung again by every worker's recovery

if __name__ == "__main__":
    from hermes_tasks.wiring.worker import run_worker

    run_worker(role="delivery", slots=SLOTS)
