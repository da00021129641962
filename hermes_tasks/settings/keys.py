"""The tree of setting names, read off the classes: which exist, what may stand there, which is near a wrong one."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Secret, SecretStr

from hermes_tasks.settings.root import Settings

PREFIX: Final = "HERMES_TASKS_"
#: Stands for a name the operator chooses (``models.<name>``).
ANY: Final = "<name>"
_SECRETS: Final = (SecretStr, Secret)

Path = tuple[str, ...]


def dotted(path: Sequence[str]) -> str:
    """The key as it is written in messages and docs: ``lease.length_ms``."""
    return ".".join(path)


def variable(path: Sequence[str]) -> str:
    """The environment variable of a key: ``HERMES_TASKS_LEASE__LENGTH_MS``."""
    return PREFIX + "__".join(path).upper()


def path_of_variable(name: str) -> Path:
    """The key of an environment variable; its parts may be unknown."""
    return tuple(name.removeprefix(PREFIX).lower().split("__"))


def branches(annotation: Any) -> Mapping[str, Any] | None:
    """What may stand below a key of this type, by name; None for a plain value."""
    annotation = _bare(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        below: dict[str, Any] = {name: field.annotation for name, field in annotation.model_fields.items()}
        if annotation.model_config.get("extra") == "allow":
            below[ANY] = get_args(get_type_hints(annotation)["__pydantic_extra__"])[1]
        return below
    if get_origin(annotation) is dict:
        names, value = get_args(annotation)
        if isinstance(names, type) and issubclass(names, Enum):
            return {str(member.value): value for member in names}
        return {ANY: value}
    return None


def find(path: Sequence[str]) -> Any | None:
    """The type at a key, or None when there is no such key."""
    annotation: Any = Settings
    for name in path:
        below = branches(annotation)
        if below is None:
            return None
        annotation = below.get(name, below.get(ANY))
        if annotation is None:
            return None
    return _bare(annotation)


def is_secret(path: Sequence[str]) -> bool:
    """True when the value at this key must not be shown."""
    annotation = find(path)
    return isinstance(annotation, type) and issubclass(annotation, _SECRETS)


def all_keys(annotation: Any = Settings, above: Path = ()) -> Iterator[Path]:
    """Every key that takes a value, in the order of the classes; chosen names as ``<name>``."""
    for name, inner in (branches(annotation) or {}).items():
        if branches(inner) is None:
            yield (*above, name)
        else:
            yield from all_keys(inner, (*above, name))


def near(path: Sequence[str]) -> list[Path]:
    """Existing keys that look like a wrong one, best first; at most three."""
    known = list(_concrete(path))
    beside = {key[-1]: key for key in known if key[:-1] == tuple(path[:-1])}
    found = [beside[name] for name in difflib.get_close_matches(path[-1], beside, n=2, cutoff=0.6)]
    found += [key for key in known if key[-1] == path[-1]]
    by_text = {dotted(key): key for key in known}
    found += [by_text[text] for text in difflib.get_close_matches(dotted(path), by_text, n=2, cutoff=0.85)]
    return list(dict.fromkeys(found))[:3]


def _concrete(path: Sequence[str]) -> Iterator[Path]:
    """All keys, with the names the operator chose put in where the wrong key has one at that place."""
    for key in all_keys():
        at = key.index(ANY) if ANY in key else None
        if at is None:
            yield key
        elif len(path) > at and path[at] not in (branches(find(path[:at]) or Settings) or {}):
            yield (*key[:at], path[at], *key[at + 1 :])


def _bare(annotation: Any) -> Any:
    """The type without ``Annotated`` and without ``| None``."""
    while hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    if get_origin(annotation) in (Union, types.UnionType):
        kept = [inner for inner in get_args(annotation) if inner is not type(None)]
        if len(kept) == 1:
            return _bare(kept[0])
    return annotation
