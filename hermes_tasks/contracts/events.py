"""Names of the events a client can read from a session's stream."""

from __future__ import annotations

from enum import StrEnum


class EventType(StrEnum):
    """The ``type`` of an event. Its data is one JSON object; ids are the server's stream ids."""

    TURN_STARTED = "turn.started"  # {turn, run, message}
    TEXT = "text"  # {run, step, attempt, text}: a piece of the answer
    STEP_RESTARTED = "step_restarted"  # {run, step}: drop that step's text, another process goes on
    TOOL_STARTED = "tool.started"  # {run, name}
    TOOL_ENDED = "tool.ended"  # {run, name, status}
    BATCH_STARTED = "batch.started"  # {run, batch, children: [{run, index, goal}]}
    CHILD_STARTED = "child.started"  # {run, batch, index, count, parent, depth, goal, model, toolsets}
    CHILD_TOOL = "child.tool"  # {run, batch, index, name, tool_count}
    CHILD_TEXT = "child.text"  # {run, batch, index, step, text}: what it said in one answer, at most 600 characters
    CHILD_ENDED = "child.ended"  # {run, batch, index, status, exit_reason, duration_ms, usage}
    BATCH_DETACHED = "batch.detached"  # {run, batch}: nobody waits for it any more, its results come as a turn
    BATCH_JOINED = "batch.joined"  # {run, batch}
    TURN_ENDED = "turn.ended"  # {turn, run, state, exit_reason, text, usage: {…, cost, below}}
    NOTICE = "notice"  # {text}
    RESYNC = "resync"  # {history, open}: what you asked for is no longer kept; start from this
