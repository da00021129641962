"""What a ``delegate_task`` call asks for: every shape models send, read strictly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.delegation.request import Request, Task, read_request

PORTS, USERS = Task("list ports"), Task("list users")


@pytest.mark.parametrize(
    ("args", "tasks"),
    [
        ({"goal": "list ports"}, [PORTS]),
        ({"goal": "  list ports\n", "context": " on the gateway "}, [Task("list ports", "on the gateway")]),
        ({"goal": "list ports", "context": None, "tasks": None}, [PORTS]),
        ({"goal": "list ports", "tasks": "[]"}, [PORTS]),
        ({"tasks": [{"goal": "list ports"}, {"goal": "list users"}]}, [PORTS, USERS]),
        ({"tasks": [{"goal": "list ports", "context": "here"}]}, [Task("list ports", "here")]),
        ({"tasks": '[{"goal":"list ports"},{"goal":"list users"}]'}, [PORTS, USERS]),
        ({"tasks": ['[{"goal":"list ports"},{"goal":"list users"}]']}, [PORTS, USERS]),
        ({"tasks": [{"goal": "list ports", "role": "leaf"}], "goal": "not this"}, [PORTS]),
        ({"tasks": [{"goal": '[{"goal": "said by the user"}]'}]}, [Task('[{"goal": "said by the user"}]')]),
    ],
)
def test_what_is_unmistakable_is_read(args: dict[str, Any], tasks: list[Task]) -> None:
    assert read_request(args, 12) == Request(tuple(tasks))


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({}, "give a goal (text), or tasks (a list)"),
        ({"goal": ""}, "give a goal"),
        ({"goal": ["list ports"]}, "give a goal"),
        ({"goal": None}, "give a goal"),
        ({"tasks": "list ports"}, "tasks is text that is not valid JSON"),
        ({"tasks": '[{"goal": '}, "tasks is text that is not valid JSON"),
        ({"tasks": '{"goal": "list ports"}'}, "tasks is an object"),
        ({"tasks": "true"}, "tasks is true/false"),
        ({"tasks": "7"}, "tasks is a number"),
        ({"tasks": ['[{"goal": ']}, "tasks is text that is not valid JSON"),
        ({"tasks": ["list ports", "list users"]}, "task 0 is text"),
        ({"tasks": [{"goal": "list ports"}, "list users"]}, "task 1 is text"),
        ({"tasks": [{"goal": "list ports"}, None]}, "task 1 is null"),
        ({"tasks": [{"goal": "list ports"}, ["x"]]}, "task 1 is a list"),
        ({"tasks": [{"context": "here"}]}, "task 0 has no goal"),
        ({"tasks": [{"goal": 3}]}, "task 0 has no goal"),
        ({"tasks": [{"goal": "list ports", "context": {"a": 1}}]}, "context of task 0 is an object; give text"),
        ({"goal": "list ports", "context": 3}, "context of task 0 is a number; give text"),
    ],
)
def test_the_rest_is_refused_naming_the_item_and_the_shape(args: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_request(args, 12)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    if "context" not in says:
        assert '{"goal": "what to do", "context": ' in str(refused.value)


@pytest.mark.parametrize("form", [lambda tasks: tasks, json.dumps, lambda tasks: [json.dumps(tasks)]])
def test_more_tasks_than_allowed_are_refused_with_both_numbers(form) -> None:
    tasks = [{"goal": f"count {number}"} for number in range(4)]
    assert len(read_request({"tasks": form(tasks)}, 4).tasks) == 4
    with pytest.raises(InvalidRequest, match="4 tasks in one call, 3 are allowed; nothing was started"):
        read_request({"tasks": form(tasks)}, 3)
