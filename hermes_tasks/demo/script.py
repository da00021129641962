"""The demo model: a script of rules (``script.toml``) that answers like a model with tools would. Deterministic."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from importlib.resources import files
from typing import Any, Final

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.demo.facts import FactPattern
from hermes_tasks.demo.reply import Call, Reply
from hermes_tasks.demo.scene import Scene

#: How long the demo model seems to think, so that sub-agents can be seen side by side.
DELAY_S: Final = 0.5
_CHUNK_DELAY_S: Final = 0.02
_VALUE: Final = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule; ``script.toml`` says what its fields mean."""

    name: str
    user: str = ""
    not_user: str = ""
    system: str = ""
    offered: Sequence[str] = ()
    after: str = ""
    steps: int | None = None
    has: str = ""
    say: str = ""
    call: str = ""
    arguments: Mapping[str, Any] | None = None
    pace: float = 0.2

    def holds(self, scene: Scene) -> bool:
        """Whether all conditions of the rule hold."""
        return (
            (not self.user or _found(self.user, scene.user))
            and (not self.not_user or not _found(self.not_user, scene.user))
            and (not self.system or _found(self.system, scene.system))
            and scene.offered.issuperset(self.offered)
            and (not self.after or self.after == scene.after)
            and (self.steps is None or self.steps == scene.steps)
            and (not self.has or bool(getattr(scene, self.has)))
        )


class DemoScript:
    """The script as a model: a callable from request to reply, for ``ModelServer``.

    Args:
        delay_s: seconds an answer of pace 1 takes before its first word.
        source: the script's TOML; None = the one that ships.

    Raises:
        InvalidRequest: the script is not valid; names the rule and what is wrong with it.
    """

    def __init__(self, delay_s: float = DELAY_S, source: str | None = None) -> None:
        text = (
            files("hermes_tasks.demo").joinpath("script.toml").read_text(encoding="utf-8") if source is None else source
        )
        data = tomllib.loads(text)
        self._delay_s = delay_s
        self._mark = str(data["mark"])
        self._rules = [_rule(item) for item in data["rule"]]
        self._facts = [
            FactPattern(re.compile(item["pattern"], re.IGNORECASE), item["target"], item["entry"])
            for item in data.get("fact", ())
        ]

    def __call__(self, request: Mapping[str, Any]) -> Reply:
        """The reply of the first rule that holds."""
        scene = Scene(request, self._facts, self._mark)
        rule = next((rule for rule in self._rules if rule.holds(scene)), None)
        if rule is None:
            raise InvalidRequest("no rule of the demo script fits; its last one should have no conditions")
        text = f"{_filled(rule.say, scene)}\n\n{self._mark}" if rule.say else ""
        arguments = json.dumps(_filled(rule.arguments or {}, scene), ensure_ascii=False)
        tokens = len(json.dumps(request.get("messages"), ensure_ascii=False)) // 4
        return Reply(
            text=text,
            calls=[Call(rule.call, arguments)] if rule.call else (),
            usage=(tokens, (len(text) if rule.say else len(arguments)) // 4),
            delay=self._delay_s * rule.pace,
            chunk_delay=min(_CHUNK_DELAY_S, self._delay_s * rule.pace),
        )


def _rule(item: Mapping[str, Any]) -> Rule:
    name = item.get("name", "without a name")
    unknown = sorted(set(item) - {field.name for field in fields(Rule)})
    if unknown:
        raise InvalidRequest(f"rule {name!r} of the demo script has unknown keys: {', '.join(unknown)}")
    if bool(item.get("say")) == bool(item.get("call")):
        raise InvalidRequest(f"rule {name!r} of the demo script needs either say or call")
    values = {*_VALUE.findall(json.dumps(item)), *filter(None, [item.get("has")])}
    missing = sorted(
        value for value in values if not isinstance(getattr(Scene, value, None), (property, cached_property))
    )
    if missing:
        raise InvalidRequest(f"rule {name!r} of the demo script uses unknown values: {', '.join(missing)}")
    return Rule(**item)


def _found(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE | re.DOTALL) is not None


def _filled(template: Any, scene: Scene) -> Any:
    """``template`` with its {values}; a text that is nothing but one value becomes that value, lists included."""
    if isinstance(template, Mapping):
        return {key: _filled(value, scene) for key, value in template.items()}
    if not isinstance(template, str):
        return template
    alone = _VALUE.fullmatch(template)
    if alone:
        return getattr(scene, alone[1])
    return _VALUE.sub(lambda match: str(getattr(scene, match[1])), template)
