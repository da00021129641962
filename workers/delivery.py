"""Worker of queue `delivery`: hands over what is owed to users outside their conversations.

Separate because it waits for other people's servers, which may be slow or down for hours.
"""

SLOTS = 32  # deliveries being tried at once; a slot only waits for the receiver
PROCESSES = 1  # what is owed stays in the outbox until the restart

if __name__ == "__main__":
    from hermes_tasks.wiring import run_worker

    run_worker(role="delivery", slots=SLOTS)
