"""What the model says in crash tests, and how its calls are named in the log."""

from __future__ import annotations

import json
from typing import Any

from hermes_tasks.demo.reply import Call, Reply

TASKS = ("amber", "basalt", "cobalt")
CHILD_STEPS = 4


def _said(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [message for message in request["messages"] if message["role"] == "assistant"]


def _tools(request: dict[str, Any]) -> set[str]:
    return {tool["function"]["name"] for tool in request.get("tools") or ()}


def _goal(request: dict[str, Any]) -> str:
    return next(task for task in TASKS if f"task: {task}" in str(request["messages"][1]["content"]))


def _is_child(request: dict[str, Any]) -> bool:
    return "sub-agent" in str(request["messages"][0]["content"]) and "delegate_task" not in _tools(request)


def _last_user(request: dict[str, Any]) -> str:
    return str(next(m["content"] for m in reversed(request["messages"]) if m["role"] == "user"))


def tag(request: dict[str, Any]) -> str:
    """``child:amber:2`` = third question of that child; ``turn:…`` and ``review`` otherwise."""
    if _is_child(request):
        return f"child:{_goal(request)}:{len(_said(request))}"
    if "Review the conversation" in _last_user(request):
        return "review"
    return f"turn:{len(request['messages'])}"


def delegating(delay_s: float):
    """A front agent that delegates three tasks; each child takes CHILD_STEPS tool steps of ``delay_s``."""

    def script(request: dict[str, Any]) -> Reply:
        if _is_child(request):
            goal, step = _goal(request), len(_said(request))
            if step < CHILD_STEPS:
                arguments = json.dumps({"path": f"{goal}-{step}.txt", "content": goal})
                return Reply(calls=[Call("write_file", arguments)], delay=delay_s)
            return Reply(text=f"the answer for {goal}", delay=delay_s)
        if "Review the conversation" in _last_user(request):
            return Reply(text="nothing to save")
        last = request["messages"][-1]
        if last["role"] == "tool":
            results = json.loads(last["content"])["results"]
            return Reply(text="joined: " + ", ".join(str(result["summary"]) for result in results))
        if "delegate" in _last_user(request):
            tasks = [{"goal": goal} for goal in TASKS]
            return Reply(calls=[Call("delegate_task", json.dumps({"tasks": tasks}))])
        return Reply(text="slow answer", delay=delay_s)

    return script
