"""Worker of queue `cron`: runs the fires of users' jobs.

Separate because jobs come in waves (nine in the morning) that must not reach the users who are talking.
"""

SLOTS = 32  # fires in hand at once; a slot only waits for a model
PROCESSES = 2  # the second takes over when one is killed

if __name__ == "__main__":
    from hermes_tasks.wiring.worker import run_worker

    run_worker(role="cron", slots=SLOTS)
