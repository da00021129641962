"""What a request to the demo model is about: the values that its script's conditions and texts are made of."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from hermes_tasks.demo.facts import Fact, FactPattern, facts_in

#: How much of a tool's result, and of one remembered thing, is repeated.
RESULT_CHARS: Final = 300
MAX_REMEMBERED: Final = 8
MAX_OUTLINE: Final = 12
#: The most facts stored in one review.
MAX_FACTS: Final = 5
#: The most tasks that one request is split into.
MAX_THINGS: Final = 6

_RECALLED: Final = re.compile(r"<memory-context>\n(.*?)\n</memory-context>", re.DOTALL | re.IGNORECASE)
#: Paragraphs the system adds to the model's copy of a message: [date and zone], [reminder].
_NOTE: Final = re.compile(r"(?:\A|\n\s*\n)\[[^\]]*\](?=\s*(?:\n\s*\n|\Z))")
_BLOCK: Final = re.compile(r"═{20,}\n[^\n]*\n═{20,}\n(.*?)(?=\n\n|\n═{20,}|\Z)", re.DOTALL)
#: What the agent loop itself says in the user's place.
_LOOP: Final = re.compile(r"^(This is your last answer|Your last answer had no text|Go on from this summary)")
_RESEARCH: Final = re.compile(r"\b(research|compare|investigate)\b", re.IGNORECASE)
_BETWEEN: Final = re.compile(r",|;|\n|\band\b|\bversus\b|\bvs\b\.?|&")
_VERB: Final = re.compile(
    r"^\W*(?:please|can you|could you|research|compare|investigate|delegate|look into|find out about|then|"
    r"the following|(?:two|three|four|five|six|these|some) (?:things|topics|tasks)|this|me|in parallel)\b",
    re.IGNORECASE,
)
_TAIL: Final = re.compile(
    r"\s*\b(?:for me|please|in parallel|(?:with|using|by) (?:\w+ )?sub-?agents?)\W*$|[\s.!?:]+$", re.IGNORECASE
)


class Scene:
    """One request, read once. Every public property is a value of the script."""

    def __init__(self, request: Mapping[str, Any], patterns: Sequence[FactPattern], mark: str) -> None:
        messages = [message for message in request.get("messages") or () if isinstance(message, Mapping)]
        asked = [at for at, message in enumerate(messages) if _is_users(message)]
        self._last = asked[-1] if asked else -1
        self._messages = messages
        self._patterns = patterns
        self._mark = mark
        self.offered = frozenset(_name(tool) for tool in request.get("tools") or ())

    @cached_property
    def system(self) -> str:
        """The system prompt."""
        return "\n\n".join(
            _text(message) for message in self._messages if message.get("role") in ("system", "developer")
        )

    @cached_property
    def user(self) -> str:
        """The user's last words, without what was recalled and noted for the model."""
        return _words(self._messages[self._last]) if self._last >= 0 else ""

    @cached_property
    def steps(self) -> int:
        """Tool results since the user's last words."""
        return sum(message.get("role") == "tool" for message in self._messages[self._last + 1 :])

    @cached_property
    def after(self) -> str:
        """The tool whose result came last, since the user's last words."""
        results = [message for message in self._messages[self._last + 1 :] if message.get("role") == "tool"]
        if not results:
            return ""
        asked = results[-1].get("tool_call_id")
        return next((_name(call) for call in self._calls if call.get("id") == asked), "")

    @cached_property
    def result(self) -> str:
        """The newest tool result since the user's last words, on one line and shortened."""
        return _short(self._newest_result, RESULT_CHARS)

    @cached_property
    def goal(self) -> str:
        """A sub-agent's task in its own words."""
        first = self.user.removeprefix("Your task:").strip().split("\n\n")[0]
        return _short(first, RESULT_CHARS).rstrip(".")

    @cached_property
    def slug(self) -> str:
        """The task as a file name."""
        return "-".join(re.findall(r"[a-z0-9]+", self.goal.lower()))[:48].strip("-") or "notes"

    @cached_property
    def things(self) -> list[dict[str, str]]:
        """At least three tasks for sub-agents."""
        _, colon, listed = self.user.partition(":")
        found = dict.fromkeys(
            filter(None, map(_thing, _BETWEEN.split(listed if colon and listed.strip() else self.user)))
        )
        items = list(found)[:MAX_THINGS]
        if not _RESEARCH.search(self.user):
            goals = [item[:1].upper() + item[1:] for item in items] or ["Answer the question"]
            goals += ["Look for what was forgotten", "Check the result"][len(items) - 1 :] if len(items) < 3 else []
        elif len(items) >= 3:
            goals = [f"Research {item}" for item in items]
        elif len(items) == 2:
            goals = [*(f"Research {item}" for item in items), f"Compare {items[0]} with {items[1]}"]
        else:
            subject = items[0] if items else "the question"
            goals = [
                f"Collect facts about {subject}",
                f"Collect arguments for and against {subject}",
                f"List open questions about {subject}",
            ]
        return [{"goal": goal} for goal in goals]

    @cached_property
    def joined(self) -> str:
        """What the sub-agents answered, one line each."""
        try:
            results = json.loads(self._newest_result)["results"]
            lines = [self._joined_line(number, entry) for number, entry in enumerate(results, 1)]
        except (ValueError, TypeError, KeyError, AttributeError):
            return f"The sub-agents' side says: {self.result}"
        return "\n".join((f"My {len(lines)} sub-agents are back:", *lines))

    @cached_property
    def remembered(self) -> str:
        """What stands in the MEMORY and USER blocks and in the recalled block, one line each."""
        known = list(self._entries)
        for recalled in _RECALLED.findall(_text(self._messages[self._last]) if self._last >= 0 else ""):
            known += [line for line in recalled.splitlines() if line.strip() and not line.startswith("[")]
        lines = dict.fromkeys(_short(self._unmarked(text), RESULT_CHARS).removeprefix("- ") for text in known)
        return "\n".join(f"- {line}" for line in list(lines)[:MAX_REMEMBERED] if line)

    @cached_property
    def outline(self) -> str:
        """The beginnings of the lines of the user's last words."""
        lines = [_short(line, 120) for line in self.user.splitlines() if line.strip()]
        return "\n".join(f"- {line}" for line in lines[:MAX_OUTLINE])

    @cached_property
    def told(self) -> str:
        """The facts in the user's last words."""
        return " ".join(fact.entry for fact in facts_in([self.user], self._patterns))

    @property
    def fact(self) -> str:
        """The newest fact of the conversation that is neither in memory nor stored by a call since; five at most."""
        return self._unsaved.entry if self._unsaved and self.steps < MAX_FACTS else ""

    @property
    def fact_target(self) -> str:
        """The document that fact belongs to."""
        return self._unsaved.target if self._unsaved else ""

    @cached_property
    def _unsaved(self) -> Fact | None:
        told = facts_in(
            (_words(message) for message in self._messages[: self._last] if _is_users(message)), self._patterns
        )
        saved = {
            *self._entries,
            *(_arguments(call).get("content") for call in self._calls),
        }
        return next((fact for fact in reversed(told) if fact.entry not in saved), None)

    @cached_property
    def _entries(self) -> list[str]:
        blocks = _BLOCK.findall(self.system)
        return [entry.strip() for block in blocks for entry in block.split("\n§\n") if entry.strip()]

    @cached_property
    def _calls(self) -> list[Mapping[str, Any]]:
        """The tool calls since the user's last words."""
        return [call for message in self._messages[self._last + 1 :] for call in message.get("tool_calls") or ()]

    @cached_property
    def _newest_result(self) -> str:
        results = [message for message in self._messages[self._last + 1 :] if message.get("role") == "tool"]
        return _text(results[-1]) if results else ""

    def _joined_line(self, number: int, entry: Mapping[str, Any]) -> str:
        said = entry.get("summary") or entry.get("error") or "no answer"
        goal = f"{entry['goal']}: " if entry.get("goal") else ""
        status = "" if entry.get("status") == "completed" else f"({entry.get('status')}) "
        return f"{number}. {goal}{status}{_short(self._unmarked(str(said)), 2 * RESULT_CHARS)}"

    def _unmarked(self, text: str) -> str:
        return text.replace(self._mark, "").strip()


def _is_users(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "user" and not _LOOP.match(_text(message))


def _words(message: Mapping[str, Any]) -> str:
    return _NOTE.sub("", _RECALLED.sub("", _text(message))).strip()


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part["text"]) for part in content if isinstance(part, Mapping) and "text" in part)
    return content if isinstance(content, str) else ""


def _name(tool: Any) -> str:
    """The name of an offered tool or of a call."""
    function = tool.get("function") if isinstance(tool, Mapping) else None
    return str(function.get("name", "")) if isinstance(function, Mapping) else ""


def _arguments(call: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        arguments = json.loads(call["function"]["arguments"])
    except (ValueError, TypeError, KeyError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _thing(text: str) -> str:
    """One thing to look into, without the words around it."""
    for pattern in (_VERB, _TAIL):
        before = None
        while before != text:
            before, text = text, pattern.sub("", text).strip()
    return _short(text.lstrip("-*•0123456789.) "), 80)


def _short(text: str, chars: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= chars else line[: chars - 1] + "…"
