"""Worker of queue `review`: looks at committed turns for what is worth remembering.

Separate because nobody waits for it: a long queue of reviews must not delay a child or a memory write.
"""

SLOTS = 32  # reviews in hand at once; a slot only waits for a model
PROCESSES = 2  # the second takes over when one is killed

if __name__ == "__main__":
    from hermes_tasks.wiring.worker import run_worker

    run_worker(role="review", slots=SLOTS)
