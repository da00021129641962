"""Arguments of a tool as a pydantic model: its JSON schema for the provider, and errors a model can use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from hermes_tasks.contracts.tools import ToolOutput


class Arguments(BaseModel):
    """Base of every tool's arguments. Unknown fields are refused, so that no wish is silently dropped."""

    model_config = ConfigDict(frozen=True, extra="forbid")


A = TypeVar("A", bound=Arguments)


def read(model: type[A], args: Mapping[str, Any]) -> A | ToolOutput:
    """The checked arguments, or an error that names each wrong field and what is accepted.

    ``null`` for a field that may be left out means that it was left out.
    """
    optional = {name for name, field in model.model_fields.items() if not field.is_required()}
    given = {name: value for name, value in args.items() if value is not None or name not in optional}
    try:
        return model.model_validate_json(json.dumps(given), strict=True)  # by JSON's types: "5" is no integer
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}" for fault in error.errors()
        )
        fields = ", ".join(
            f"{name}{'' if field.is_required() else ' (optional)'}" for name, field in model.model_fields.items()
        )
        return ToolOutput(f"not run: {faults}. Fields: {fields}", error=True)


def schema(name: str, description: str, model: type[Arguments]) -> Mapping[str, Any]:
    """The function schema that is offered. Read it; the parameters are shared by all callers."""
    return {"name": name, "description": description, "parameters": _parameters(model)}


@cache
def _parameters(model: type[Arguments]) -> Mapping[str, Any]:
    # Made once per model: pydantic takes two milliseconds for one, and every run asks for all of them.
    parameters = model.model_json_schema()
    parameters.pop("title", None)
    parameters.pop("description", None)
    for field in parameters.get("properties", {}).values():
        field.pop("title", None)
    return parameters
