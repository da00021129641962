"""Worker of queue `memory`: drains the ordered channels, each by one holder at a time.

Separate because drains are short and their order is promised: they must not queue behind work that lasts minutes.
"""

SLOTS = 64  # channels being drained at once; a slot only waits, and a session waits for nobody but itself
PROCESSES = 2  # the second takes over when one is killed

if __name__ == "__main__":
    from hermes_tasks.wiring.worker import run_worker

    run_worker(role="memory", slots=SLOTS)
