"""The rows of the demo model's script: what it does with each kind of request the system makes."""

from __future__ import annotations

import json

import pytest

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.demo.reply import Reply
from hermes_tasks.demo.script import DemoScript
from hermes_tasks.safety.scrubber import fenced

MARK = "[demo model: scripted answers, no AI]"
FRONT = "You are a personal agent. You get work done by handing it to sub-agents."
FRONT_TOOLS = ("delegate_task", "memory", "skills_list")
CHILD = "You are a sub-agent. Another agent gave you one task.\nYour working directory is /srv/me."
CHILD_TOOLS = ("terminal", "read_file", "write_file", "web_fetch")
REVIEW = "Review the conversation above. Did the user reveal what they prefer? If so, store it with the memory tool."
RULE = "═" * 46


def said(role, content, **fields):
    return {"role": role, "content": content, **fields}


def talk(*messages, system=FRONT, tools=FRONT_TOOLS):
    schemas = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in tools]
    return {"model": "demo", "messages": [said("system", system), *messages], "tools": schemas, "stream": True}


def answer(*messages, **fields) -> Reply:
    """The reply; the same request must give the same one."""
    request = talk(*messages, **fields)
    reply = DemoScript()(request)
    assert reply == DemoScript()(json.loads(json.dumps(request)))
    return reply


def text(reply: Reply) -> str:
    assert not reply.calls
    assert str(reply.text).endswith(MARK)
    assert str(reply.text).count(MARK) == 1
    return str(reply.text).removesuffix(MARK).strip()


def call(reply: Reply):
    (only,) = reply.calls
    assert not reply.text
    return only.name, json.loads(str(only.arguments))


def with_result(request_messages, reply: Reply, result: str):
    """The conversation after the tool call of ``reply`` was answered."""
    (only,) = reply.calls
    function = {"name": only.name, "arguments": only.arguments}
    asked = said("assistant", None, tool_calls=[{"id": "x1", "type": "function", "function": function}])
    return [*request_messages, asked, said("tool", result, tool_call_id="x1")]


def goals(message: str) -> list[str]:
    name, arguments = call(answer(said("user", message)))
    assert name == "delegate_task"
    assert set(arguments) == {"tasks"}
    return [task["goal"] for task in arguments["tasks"]]


# --- plain --------------------


def test_anything_else_is_echoed() -> None:
    assert text(answer(said("user", "Hello there {goal}"))) == "You said: Hello there {goal}"
    assert text(answer(said("user", ""))) == "You said:"


def test_what_the_system_added_to_the_message_is_not_repeated() -> None:
    recall = fenced("[Recalled from memory of earlier conversations.]\n\nuser: SECRET-RECALL-71")
    reply = answer(said("user", f"Good morning\n\n{recall}\n\n[It is Tuesday, 6 May 2031, 09:00 in Europe/Berlin]"))
    assert text(reply) == "You said: Good morning"


def test_a_message_in_parts_is_read() -> None:
    assert text(answer(said("user", [{"type": "text", "text": "Hello"}, {"type": "image_url"}]))) == "You said: Hello"


def test_usage_is_told() -> None:
    assert all(count > 0 for count in answer(said("user", "Hello there")).usage or ())


# --- delegation --------------------


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("Compare Redis, RabbitMQ and Kafka for me.", ["Research Redis", "Research RabbitMQ", "Research Kafka"]),
        (
            "Please research three topics in parallel: tea prices, Mars weather, the history of queues!",
            ["Research tea prices", "Research Mars weather", "Research the history of queues"],
        ),
        ("Compare tea and coffee", ["Research tea", "Research coffee", "Compare tea with coffee"]),
        (
            "Good morning. Can you research solar roofs?",
            None,
        ),
        ("Delegate: write a haiku; plan a trip; pack", ["Write a haiku", "Plan a trip", "Pack"]),
        ("Delegate: write a haiku", ["Write a haiku", "Look for what was forgotten", "Check the result"]),
        ("Have sub-agents: write a haiku and a song", ["Write a haiku", "A song", "Check the result"]),
        ("Research:\n1. apples\n2. pears\n- plums\n", ["Research apples", "Research pears", "Research plums"]),
    ],
)
def test_several_things_become_at_least_three_tasks(message, wanted) -> None:
    found = goals(message)
    assert len(found) == 3
    if wanted is not None:
        assert found == wanted


def test_one_thing_is_looked_at_from_three_sides() -> None:
    found = goals("Research solar roofs with sub-agents")
    assert len(set(found)) == 3
    assert all(goal.endswith("solar roofs") for goal in found)


def test_without_the_tool_nothing_is_delegated() -> None:
    assert text(answer(said("user", "Compare tea and coffee"), tools=("memory",))).startswith("You said")


def test_results_are_joined_in_task_order() -> None:
    opening = [said("user", "Compare Redis, RabbitMQ and Kafka")]
    results = [
        {"task_index": 0, "goal": "Research Redis", "status": "completed", "summary": f"Fast.\n\n{MARK}"},
        {"task_index": 1, "goal": "Research RabbitMQ", "status": "timeout", "summary": None, "error": "too slow"},
        {"task_index": 2, "status": "completed", "summary": "Log."},
    ]
    after = with_result(opening, answer(*opening), json.dumps({"results": results, "total_duration_seconds": 2.5}))
    assert text(answer(*after)).splitlines() == [
        "My 3 sub-agents are back:",
        "1. Research Redis: Fast.",
        "2. Research RabbitMQ: (timeout) too slow",
        "3. Log.",
    ]


@pytest.mark.parametrize("result", ["delegation depth reached", '{"status": "dispatched"}', '{"results": 7}', "[1]"])
def test_other_answers_of_the_tool_are_told_as_they_are(result) -> None:
    opening = [said("user", "Compare Redis, RabbitMQ and Kafka")]
    assert result in text(answer(*with_result(opening, answer(*opening), result)))


def test_results_that_come_as_a_message_start_no_new_delegation() -> None:
    for message in ("[Results of a delegation]\nResearch Redis: done", 'Here: {"results": [], "x": "compare"}'):
        assert text(answer(said("user", message)))


# --- a sub-agent --------------------


def test_a_child_writes_reads_and_sums_up() -> None:
    opening = [said("user", "Your task: Research Redis queues.\n\nWhat you must know:\nbe brief")]
    fields = {"system": CHILD, "tools": CHILD_TOOLS}
    first = answer(*opening, **fields)
    name, written = call(first)
    assert (name, written["path"]) == ("write_file", "research-redis-queues.md")
    assert "Research Redis queues" in written["content"]
    then = with_result(opening, first, "wrote 80 bytes")
    second = answer(*then, **fields)
    assert call(second) == ("read_file", {"path": "research-redis-queues.md"})
    last = answer(*with_result(then, second, "# Research Redis queues\n\nNotes"), **fields)
    assert text(last).startswith("Done: Research Redis queues. ")
    assert "Notes" in text(last)
    assert min(first.delay, second.delay, last.delay) == 0.5


def test_a_child_with_a_terminal_only_or_with_nothing() -> None:
    opening = [said("user", "Your task: Count the files")]
    first = answer(*opening, system=CHILD, tools=("terminal",))
    assert call(first) == ("terminal", {"command": "echo notes-on-count-the-files"})
    last = answer(*with_result(opening, first, "notes-on-count-the-files"), system=CHILD, tools=("terminal",))
    assert text(last).startswith("Done: Count the files.")
    assert text(answer(*opening, system=CHILD, tools=())).startswith("Done: Count the files.")


def test_a_child_at_its_last_answer_sums_up_without_tools() -> None:
    opening = [said("user", "Your task: Count the files")]
    after = with_result(opening, answer(*opening, system=CHILD, tools=CHILD_TOOLS), "wrote it")
    closing = said("user", "This is your last answer: you have used all your steps and no tool is available any more.")
    assert text(answer(*after, closing, system=CHILD, tools=())).startswith("Done: Count the files.")


def test_the_delay_is_the_callers_choice() -> None:
    request = talk(said("user", "Your task: x"), system=CHILD, tools=())
    assert (DemoScript(2.0)(request).delay, DemoScript(0.0)(request).delay) == (2.0, 0.0)
    assert DemoScript(2.0)(talk(said("user", "Hello"))).delay < 2.0


# --- review --------------------


@pytest.mark.parametrize(
    ("message", "target", "entry"),
    [
        ("Hi! I prefer short answers, always.", "user", "Prefers short answers, always."),
        ("My name is Ada. How are you?", "user", "Is called Ada."),
        ("my project is Apollo", "memory", "The user's project: Apollo."),
        (
            "Please remember that the gate code changes on Friday!",
            "memory",
            "To remember: the gate code changes on Friday.",
        ),
        (
            "Remember that my favourite colours are red and blue.",
            "memory",
            "The user's favourite colours: red and blue.",
        ),
        ("I work on queues at night.", "user", "Says: I work on queues at night."),
    ],
)
def test_a_review_stores_what_the_user_told(message, target, entry) -> None:
    opening = [said("user", message), said("assistant", "I see."), said("user", REVIEW)]
    fields = {"tools": ("memory",)}
    first = answer(*opening, **fields)
    assert call(first) == ("memory", {"target": target, "action": "add", "content": entry})
    last = answer(*with_result(opening, first, '{"success": true}'), **fields)
    assert text(last) == "Stored what the user told."


def test_a_review_stores_several_facts_and_each_once() -> None:
    message = "My project is called Halcyon and I prefer tea. My dog is Rex."
    opening = [said("user", message), said("assistant", "Nice."), said("user", REVIEW)]
    system = f"{FRONT}\n\n{RULE}\nUSER (who the user is) [1% — 12/1375 chars]\n{RULE}\nPrefers tea.\n§\nIs called Ada."
    messages, stored = opening, []
    while (reply := answer(*messages, system=system, tools=("memory",))).calls:
        stored.append(call(reply)[1]["content"])
        messages = with_result(messages, reply, '{"success": false, "error": "full"}')
        assert len(stored) < 9
    assert stored == ["The user's dog: Rex.", "The user's project: Halcyon."]


def test_a_review_ends_after_five_facts() -> None:
    told = said("user", ". ".join(f"My item {letter} is {letter}" for letter in "abcdefgh") + ".")
    messages, count = [told, said("user", REVIEW)], 0
    while (reply := answer(*messages, tools=("memory",))).calls:
        messages, count = with_result(messages, reply, "ok"), count + 1
    assert count == 5


@pytest.mark.parametrize(
    "message", ["Hello", "What do I prefer?", "Do you remember that my dog is Rex?", "I prefer " + "x" * 500]
)
def test_a_review_with_nothing_to_keep_says_so(message) -> None:
    opening = [said("user", message), said("assistant", "I prefer to say nothing."), said("user", REVIEW)]
    assert text(answer(*opening, tools=("memory",))) == "Nothing to save."


# --- recall --------------------


@pytest.mark.parametrize(
    "question", ["What do you remember about me?", "what do I prefer", "Do you remember my dog?", "What's my project?"]
)
def test_recall_answers_from_blocks_and_recalled_text(question) -> None:
    blocks = (
        f"{RULE}\nMEMORY (your own notes) [2% — 40/2200]\n{RULE}\nThe user's project: Apollo.\n§\nGate is red.\n\n"
        f"{RULE}\nUSER (who the user is) [1% — 12/1375 chars]\n{RULE}\nPrefers tea.\n\nToday is a day."
    )
    recall = fenced(f"[Recalled from memory of earlier conversations.]\n\n- the dog is Rex {MARK}\n- Prefers tea.")
    reply = answer(said("user", f"{question}\n\n{recall}"), system=f"{FRONT}\n\n{blocks}")
    assert text(reply).splitlines()[1:] == [
        "- The user's project: Apollo.",
        "- Gate is red.",
        "- Prefers tea.",
        "- the dog is Rex",
    ]
    assert "memory-context" not in str(reply.text)


def test_recall_without_anything_remembered() -> None:
    assert text(answer(said("user", "What do you know about me?"))).startswith("I do not remember")


def test_told_facts_are_acknowledged() -> None:
    assert text(answer(said("user", "I prefer tea. My dog is Rex."))).endswith(": Prefers tea. The user's dog: Rex.")


# --- digest and condensing --------------------


def test_a_digest_is_short() -> None:
    reply = answer(said("user", "Give me a short digest of the news about queues"), tools=("terminal", "web_fetch"))
    assert text(reply).startswith("Your digest:")
    assert len(text(reply)) < 300


def test_older_steps_are_condensed() -> None:
    long = "\n".join(f"line {number} " + "word " * 100 for number in range(50))
    reply = answer(said("user", long), system="You condense the work of an agent so that it can go on.", tools=())
    assert text(reply).startswith("Summary:\n- line 0 word")
    assert len(text(reply)) < 2000


# --- the script itself --------------------


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ('name = "a"\nsay = "x"\nusr = "y"', "'a'.*usr"),
        ('name = "a"', "either say or call"),
        ('name = "a"\nsay = "x"\ncall = "y"', "either say or call"),
        ('name = "a"\nsay = "{nothing}"', "'a'.*nothing"),
        ('name = "a"\nsay = "x"\nhas = "nothing"', "'a'.*nothing"),
    ],
)
def test_a_wrong_rule_is_refused_by_name(rule, complaint) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        DemoScript(source=f'mark = "m"\n[[rule]]\n{rule}\n')


def test_a_script_without_a_rule_for_everything_says_so() -> None:
    script = DemoScript(source='mark = "m"\n[[rule]]\nname = "a"\nuser = "hello"\nsay = "hi"\n')
    assert script(talk(said("user", "Hello"))).text == "hi\n\nm"
    with pytest.raises(InvalidRequest, match="no rule"):
        script(talk(said("user", "Bye")))


def test_odd_requests_are_answered_too() -> None:
    for messages in (
        [],
        [None, 7],
        [said("user", None)],
        [said("tool", "x", tool_call_id="y")],
        [said("assistant", None, tool_calls=[{}]), said("tool", "x")],
        [said("user", "x"), said("assistant", None, tool_calls=[{"function": None}, 7]), said("tool", None)],
    ):
        assert text(DemoScript()({"messages": messages, "tools": [None, {}, {"function": {}}]})) is not None
