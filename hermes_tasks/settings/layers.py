"""The two layers above the defaults, environment and file, as nested dictionaries with the origin of each key."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final

from hermes_tasks.settings.keys import PREFIX, Path, all_keys, branches, dotted, find, near, path_of_variable, variable
from hermes_tasks.settings.models import DEFAULT

#: Read by ``load`` itself before any layer.
HOME_VARIABLE: Final = f"{PREFIX}HOME"
CONFIG_VARIABLE: Final = f"{PREFIX}CONFIG"
#: What a bare OPENAI_API_KEY talks to when OPENAI_MODEL and OPENAI_BASE_URL do not say otherwise.
OPENAI_BASE_URL: Final = "https://api.openai.com/v1"
OPENAI_MODEL: Final = "gpt-4.1-mini"


@dataclass(slots=True)
class Layer:
    """Values by key, where each came from, and what was wrong."""

    values: dict[Path, Any] = field(default_factory=dict)
    origins: dict[Path, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def put(self, path: Path, value: Any, origin: str) -> None:
        """Set one key."""
        self.values[path] = value
        self.origins[path] = origin

    def drop(self, section: str) -> None:
        """Forget every key of a section."""
        for path in [path for path in self.values if path[0] == section]:
            del self.values[path], self.origins[path]

    def over(self, lower: Layer) -> Layer:
        """Both layers as one; ours wins, key by key."""
        return Layer({**lower.values, **self.values}, {**lower.origins, **self.origins}, [*self.faults, *lower.faults])

    def nested(self) -> dict[str, Any]:
        """The values as nested dictionaries."""
        tree: dict[str, Any] = {}
        for path, value in self.values.items():
            branch = tree
            for name in path[:-1]:
                branch = branch.setdefault(name, {})
            branch[path[-1]] = value
        return tree


def environment(environ: Mapping[str, str]) -> Layer:
    """The ``HERMES_TASKS_…`` variables. An empty one counts as not set, as compose files hand them on."""
    layer = Layer()
    for name in sorted(environ):
        value = environ[name]
        if not name.startswith(PREFIX) or name in (HOME_VARIABLE, CONFIG_VARIABLE) or not value:
            continue
        path = path_of_variable(name)
        annotation = find(path)
        if annotation is None:
            hint = _hint([variable(key) for key in near(path)])
            layer.faults.append(f"unknown environment variable {name}{hint}")
        elif (below := branches(annotation)) is not None:
            example = variable((*path, next(iter(below))))
            layer.faults.append(f"{name} names a section, not a value; set its keys, as {example}")
        else:
            layer.put(path, value, name)
    return layer


def shortcut(environ: Mapping[str, str]) -> Layer:
    """``OPENAI_API_KEY``, ``OPENAI_BASE_URL`` and ``OPENAI_MODEL`` as the keys of ``models.default``."""
    layer = Layer()
    key, url = environ.get("OPENAI_API_KEY", ""), environ.get("OPENAI_BASE_URL", "")
    model = environ.get("OPENAI_MODEL", "")
    if not key and not url:
        return layer
    if url and not model:
        layer.faults.append("OPENAI_BASE_URL is set without OPENAI_MODEL; name a model that this endpoint serves")
        return layer
    if key:
        layer.put(("models", DEFAULT, "api_key"), key, "OPENAI_API_KEY")
    layer.put(("models", DEFAULT, "base_url"), url or OPENAI_BASE_URL, "OPENAI_BASE_URL" if url else "OPENAI_API_KEY")
    layer.put(("models", DEFAULT, "model"), model or OPENAI_MODEL, "OPENAI_MODEL" if model else "OPENAI_API_KEY")
    return layer


def toml_file(file: FilePath) -> Layer:
    """The keys of a TOML file."""
    layer = Layer()
    try:
        tree = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        layer.faults.append(f"cannot read the settings file {file}: {error.strerror}")
    except UnicodeDecodeError:
        layer.faults.append(f"the settings file {file} is not UTF-8 text")
    except tomllib.TOMLDecodeError as error:
        layer.faults.append(f"the settings file {file} is not valid TOML: {error}")
    else:
        for path, value in _leaves(tree):
            if path[0] == "home":
                layer.faults.append(f"home cannot be set in {file}; use --home or {HOME_VARIABLE}")
            elif (annotation := find(path)) is None:
                hint = _hint([dotted(key) for key in near(path)])
                layer.faults.append(f"unknown setting {dotted(path)} in {file}{hint}")
            elif branches(annotation) is not None:
                layer.faults.append(f"{dotted(path)} in {file} is a section, not a value; write [{dotted(path)}]")
            else:
                layer.put(path, value, str(file))
    return layer


def _leaves(tree: Mapping[str, Any], above: Path = ()) -> Iterator[tuple[Path, Any]]:
    for name, value in tree.items():
        path = (*above, name)
        # A table in the place of a plain value is handed on whole, so that the fault is told for that key.
        annotation = find(path)
        if isinstance(value, dict) and (annotation is None or branches(annotation) is not None):
            yield from _leaves(value, path) if value else ()
        else:
            yield path, value


def _hint(names: list[str]) -> str:
    if names:
        return f"; did you mean {' or '.join(names)}?"
    sections = sorted({key[0] for key in all_keys()})
    return f"; it is near no known one (sections: {', '.join(sections)})"
