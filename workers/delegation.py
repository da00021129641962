"""Worker of queue `delegation`: runs the children of a batch.

Separate because children are many and long, and their tools start processes: they must neither hold up turns nor
share a process with them.
"""

SLOTS = 300  # children in hand at once; a slot only waits for a model
PROCESSES = 2  # the second takes over when one is killed

if __name__ == "__main__":
    from hermes_tasks.wiring.worker import run_worker

    run_worker(role="delegation", slots=SLOTS)
