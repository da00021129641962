"""Worker of queue `prefetch`: warms the recall of a session's next turn.

Separate because it is worth something only if it is done before the next message; late is as good as never.
"""

SLOTS = 32  # recalls being warmed at once
PROCESSES = 1  # a recall that was not warmed costs the next turn some of its deadline, nothing else

if __name__ == "__main__":
    from hermes_tasks.wiring import run_worker

    run_worker(role="prefetch", slots=SLOTS)
