"""Loading: environment over file over default, every fault told at once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.contracts.home import Home
from hermes_tasks.settings.keys import branches, dotted, find, is_secret
from hermes_tasks.settings.layers import CONFIG_VARIABLE, HOME_VARIABLE, Layer, environment, shortcut, toml_file
from hermes_tasks.settings.models import DEFAULT
from hermes_tasks.settings.root import DEFAULT_HOME, Settings

_KINDS: Final = {
    bool: "true or false", int: "a whole number", float: "a number", str: "text", list: "a list", dict: "a table",
}  # fmt: skip
_TRUE: Final = ("1", "true", "yes", "on", "t", "y")


def load(home: Path | None = None, config: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process: environment over file over default.

    Args:
        home: ``--home``; else ``HERMES_TASKS_HOME``, else ``~/.hermes-tasks``.
        config: ``--config``; else ``HERMES_TASKS_CONFIG``, else ``config.toml`` in the home if there is one.
        environ: the environment; ``os.environ`` when None.

    Raises:
        InvalidRequest: one line per unknown key, value that does not fit, or unreadable file; all of them at once.
    """
    environ = os.environ if environ is None else environ
    merged = Layer()
    _place(merged, home, environ)
    file = config or (Path(named) if (named := environ.get(CONFIG_VARIABLE)) else None)
    if file is None and os.path.lexists(default_file := _expanded(merged.values["home",]).config):
        file = default_file
    merged = environment(environ).over(merged)
    if file is not None:
        merged = merged.over(toml_file(file.expanduser().absolute()))
    if str(merged.values.get(("demo_model",), "")).lower() in _TRUE:
        # The demo model ignores every model key, wherever it stands.
        merged.drop("models")
    elif not any(path[:2] == ("models", DEFAULT) for path in merged.values):
        merged = merged.over(shortcut(environ))
    return _build(merged)


def _place(layer: Layer, home: Path | None, environ: Mapping[str, str]) -> None:
    if home is not None:
        layer.put(("home",), str(home), "--home")
    elif environ.get(HOME_VARIABLE):
        layer.put(("home",), environ[HOME_VARIABLE], HOME_VARIABLE)
    else:
        layer.put(("home",), str(DEFAULT_HOME), "default")


def _expanded(home: str) -> Home:
    try:
        return Home(Path(home).expanduser())
    except RuntimeError:
        return Home(Path(home))  # the settings object will refuse it by name


def _build(layer: Layer) -> Settings:
    faults = list(layer.faults)
    try:
        settings = Settings.from_layers(
            layer.nested(), {dotted(path): origin for path, origin in layer.origins.items()}
        )
    except ValidationError as error:
        faults += [_told(detail, layer) for detail in error.errors(include_url=False, include_context=False)]
    else:
        if not faults:
            return settings
    raise InvalidRequest("\n".join(dict.fromkeys(faults)))


def _told(detail: ErrorDetails, layer: Layer) -> str:
    """One fault of a value: its key, what stood there and where it came from, and what is accepted."""
    path = tuple(str(part) for part in detail["loc"] if part != "[key]")
    text = detail["msg"].removeprefix("Value error, ").replace("Input should", "should")
    if detail["type"] == "missing":
        return f"{dotted(path)} is not set{_beside(path, layer)}; it has no default"
    annotation = find(path)
    if annotation is None or branches(annotation) is not None:
        return f"{dotted(path)} {text}".strip() + _beside(path, layer)
    origin = layer.origins.get(path, "default")
    return f"{dotted(path)} = {_value(path, detail['input'])} (from {origin}): {text}"


def _value(path: Sequence[str], value: Any) -> str:
    kind = _KINDS.get(type(value), type(value).__name__)
    if is_secret(path):
        return f"({kind}, hidden)"
    return f"{str(value)[:80]!r} ({kind})" if isinstance(value, str) else f"{value} ({kind})"


def _beside(path: Sequence[str], layer: Layer) -> str:
    """Where the keys of the section came from, when they came from somewhere."""
    section = tuple(path[:-1]) if branches(find(path)) is None else tuple(path)
    found = sorted({origin for key, origin in layer.origins.items() if section and key[: len(section)] == section})
    return f" (from {', '.join(found)})" if found else ""
