"""Worker of queue `turns`: finishes turns whose front process died, and turns that come back from waiting.

Separate because a user is waiting for each of them: nothing that can wait may stand before them.
"""

SLOTS = 64  # turns in hand at once; a slot only waits for a model or for children
PROCESSES = 2  # the second takes over when one is killed

if __name__ == "__main__":
    from hermes_tasks.wiring.worker import run_worker

    run_worker(role="turns", slots=SLOTS)
