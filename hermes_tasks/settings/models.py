"""Model settings: endpoints by name, and which kind of run uses which."""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import ConfigDict, Field, model_validator

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.contracts.ids import derived_id
from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.settings.types import BearerKey, Count, FullPath, HttpUrl, Section, read_key

DEFAULT: Final = "default"
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}")


class ModelSettings(Section):
    """One model behind an OpenAI-compatible endpoint.

    Attributes:
        base_url: the endpoint up to and including its version, as ``https://api.openai.com/v1``.
        api_key: the bearer key; or else ``api_key_file``; a local server may need neither.
        api_key_file: a file that holds the key, read at each use of :meth:`key`, so that keys can be rotated.
        model: the provider's name of it.
        context_tokens: its context window.
        max_output_tokens: limit of one answer; None = the provider's.
        input_price: per million input tokens, in any one currency.
        output_price: per million output tokens.
        vision: image parts may be sent to it.
        fallback: another model's name, used before a step's first text when this one is unavailable.
        max_concurrent: calls side by side at its endpoint, over all workers; None = no limit. Models with the same
            address and key are one endpoint: the smallest number counts for all of them.
        requests_per_minute: calls of this model at its endpoint, over all workers; None = no limit. Of two entries for
            one model there, the smaller number counts.
        tokens_per_minute: likewise, input and output together.
    """

    base_url: HttpUrl
    api_key: BearerKey | None = None
    api_key_file: FullPath | None = None
    model: str = Field(min_length=1)
    context_tokens: int = Field(default=128_000, ge=1_000)
    max_output_tokens: Count | None = None
    input_price: float | None = Field(default=None, ge=0)
    output_price: float | None = Field(default=None, ge=0)
    vision: bool = False
    fallback: str | None = None
    max_concurrent: Count | None = None
    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None

    @model_validator(mode="after")
    def _one_key(self) -> ModelSettings:
        if self.api_key is not None and self.api_key_file is not None:
            raise ValueError("has both api_key and api_key_file; keep one")
        return self

    @property
    def endpoint(self) -> str:
        """The same for models with the same address and key (or key file), on every machine; tells neither."""
        key = self.api_key.get_secret_value() if self.api_key else str(self.api_key_file or "")
        return derived_id("endpoint", self.base_url, key)

    def key(self) -> str | None:
        """The key to send, or None.

        Raises:
            InvalidRequest: the key file cannot be read or holds no key.
        """
        return read_key(self.api_key, self.api_key_file, "models.<name>.api_key_file")


class Models(Section):
    """``models.<name>`` are the models; ``models.use.<kind>`` chooses one for a kind of run."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, ModelSettings] = Field(init=False)

    use: dict[RunKind, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        if isinstance(value, dict):
            for name in value:
                if not _NAME.fullmatch(str(name)):
                    raise ValueError(f"has a model named {name!r}; use a-z 0-9 _ - and begin with a letter")
        return value

    @model_validator(mode="after")
    def _references(self) -> Models:
        named = self.named
        wanted = {f"use.{kind}": name for kind, name in self.use.items()}
        wanted |= {f"{name}.fallback": model.fallback for name, model in named.items() if model.fallback}
        for key, name in wanted.items():
            if name not in named and name != DEFAULT:
                known = ", ".join(sorted(named)) or "none"
                raise ValueError(f"has {key} = {name!r}, which is not a configured model (configured: {known})")
            if key == f"{name}.fallback":
                raise ValueError(f"has {key} = {name!r}: a model cannot be its own fallback")
        return self

    @property
    def named(self) -> dict[str, ModelSettings]:
        """All models by name."""
        return dict(self.__pydantic_extra__ or {})

    def __getitem__(self, name: str) -> ModelSettings:
        """The model of that name.

        Raises:
            InvalidRequest: there is none.
        """
        if name in self.named:
            return self.named[name]
        known = ", ".join(sorted(self.named)) or "none"
        raise InvalidRequest(f"no model {name!r} is configured; use one of: {known}", field="model")

    def for_kind(self, kind: RunKind) -> str:
        """The name of the model that runs of that kind use."""
        return self.use.get(kind, DEFAULT)
