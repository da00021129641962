"""Where ``web_search`` asks: these keys are part of the section ``tools``."""

from __future__ import annotations

from typing import Final

from pydantic import field_validator, model_validator

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.settings.types import BearerKey, FullPath, HttpUrl, Section, read_key

#: In the order in which ``auto`` asks those that are configured; the last needs nothing.
SERVICES: Final = ("searxng", "tavily", "brave", "duckduckgo")
WITH_KEY: Final = ("tavily", "brave")


class SearchSettings(Section):
    """The search services, and in which order they are asked.

    Attributes:
        search: ``auto``, ``none``, or names of services separated by commas. ``auto`` = every service that has a key
            or an address here; DuckDuckGo, which needs neither, when none has.
        search_url: a SearXNG server.
        tavily_key: or else ``tavily_key_file``, read at each search, so that keys can be rotated.
        brave_key: as ``tavily_key``.
    """

    search: str = "auto"
    search_url: HttpUrl | None = None
    tavily_key: BearerKey | None = None
    tavily_key_file: FullPath | None = None
    tavily_url: HttpUrl = "https://api.tavily.com"
    brave_key: BearerKey | None = None
    brave_key_file: FullPath | None = None
    brave_url: HttpUrl = "https://api.search.brave.com"
    duckduckgo_url: HttpUrl = "https://html.duckduckgo.com"

    @field_validator("search")
    @classmethod
    def _known_services(cls, value: str) -> str:
        names = _names(value)
        if value.strip() not in ("auto", "none") and (set(names) - set(SERVICES) or len(set(names)) < len(names)):
            raise ValueError(f"should be auto, none, or some of {', '.join(SERVICES)}, separated by commas")
        return value.strip()

    @model_validator(mode="after")
    def _each_has_what_it_needs(self) -> SearchSettings:
        for service in WITH_KEY:
            if getattr(self, f"{service}_key") is not None and getattr(self, f"{service}_key_file") is not None:
                raise ValueError(f"has both {service}_key and {service}_key_file; keep one")
        for service in self.search_services:
            if not self._configured(service):
                needs = "search_url" if service == "searxng" else f"{service}_key or {service}_key_file"
                raise ValueError(f"has {service} in search, but no {needs}; add it")
        return self

    @property
    def search_services(self) -> tuple[str, ...]:
        """The services to ask, in order."""
        match self.search:
            case "auto":
                return tuple(service for service in SERVICES[:-1] if self._configured(service)) or SERVICES[-1:]
            case "none":
                return ()
            case _:
                return _names(self.search)

    def search_key(self, service: str) -> str:
        """The key of Tavily or Brave, to send.

        Raises:
            InvalidRequest: its file cannot be read or holds no key.
        """
        setting = f"{service}_key"
        key = read_key(getattr(self, setting), getattr(self, f"{setting}_file"), f"tools.{setting}_file")
        if key is None:
            raise InvalidRequest(f"tools.{setting} is not set")
        return key

    def _configured(self, service: str) -> bool:
        match service:
            case "searxng":
                return self.search_url is not None
            case "duckduckgo":
                return True
            case _:
                return bool(getattr(self, f"{service}_key") or getattr(self, f"{service}_key_file"))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))
