"""Worker of queue `prefetch`: warms the next turn's recall.

Separate because nothing is owed to anyone here: this queue may fall behind without harm, and must never hold up a
write.
"""

SLOTS = 16  # recalls in hand at once; a slot waits for a memory provider
PROCESSES = 1  # a recall that is lost is made by the next turn itself

if __name__ == "__main__":
    from hermes_tasks.wiring.worker import run_worker

    run_worker(role="prefetch", slots=SLOTS)
