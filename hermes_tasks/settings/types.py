"""The building blocks of settings: the section class, and values that hide what is secret in them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Secret, SecretStr


class Section(BaseModel):
    """A group of settings: frozen, and closed to keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class SecretUrl(Secret[str]):
    """A URL whose password hides itself: it prints as ``redis://:***@host:6379/0``."""

    def _display(self) -> str:
        return masked_url(self.get_secret_value())


def masked_url(url: str) -> str:
    """``url`` with its password replaced by ``***``; the whole text is, when it cannot be read as a URL."""
    try:
        parts = urlsplit(url)
        if parts.password is None:
            return url if parts.scheme else "***"
    except ValueError:
        return "***"
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:***@{host}"))


def _store_url(value: SecretUrl) -> SecretUrl:
    _check_url(value.get_secret_value(), ("redis", "rediss"))
    return value


def _any_url(value: SecretUrl) -> SecretUrl:
    _check_url(value.get_secret_value(), ())
    return value


def _http_url(value: str) -> str:
    _check_url(value, ("http", "https"))
    return value.rstrip("/")


def _check_url(url: str, schemes: tuple[str, ...]) -> None:
    accepted = " or ".join(f"{scheme}://host" for scheme in schemes) or "scheme://host"
    problem = f"should be a URL of the form {accepted}"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError(problem) from None
    if not parts.hostname or (schemes and parts.scheme not in schemes) or any(c.isspace() for c in url):
        raise ValueError(problem)


def _full_path(value: Path) -> Path:
    try:
        return value.expanduser().absolute()
    except RuntimeError:
        raise ValueError("should be a path; its ~user does not exist") from None


StoreUrl = Annotated[SecretUrl, AfterValidator(_store_url)]
BrokerUrl = Annotated[SecretUrl, AfterValidator(_any_url)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
FullPath = Annotated[Path, AfterValidator(_full_path)]
Port = Annotated[int, Field(ge=1, le=65_535)]
Count = Annotated[int, Field(ge=1)]
CountOrNone = Annotated[int, Field(ge=0)]
Millis = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def shown(value: Any) -> str:
    """``value`` as an operator may see it."""
    match value:
        case None:
            return "(not set)"
        case SecretUrl():
            return str(value)
        case Secret() | SecretStr():
            return "(set)"
        case bool():
            return str(value).lower()
        case _:
            return str(value)
