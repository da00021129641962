"""The building blocks of settings: the section class, and values that hide what is secret in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Secret, SecretStr

from hermes_tasks.contracts.errors import InvalidRequest


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


def _bearer_key(value: SecretStr) -> SecretStr:
    # A key goes into an HTTP header; one with a line break would fail at the first call, not here.
    if not _is_key(value.get_secret_value()):
        raise ValueError("should be printable ASCII without spaces; leave it out where no key is needed")
    return value


def _is_key(text: str) -> bool:
    return re.fullmatch(r"[!-~]+", text) is not None


StoreUrl = Annotated[SecretUrl, AfterValidator(_store_url)]
BrokerUrl = Annotated[SecretUrl, AfterValidator(_any_url)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
BearerKey = Annotated[SecretStr, AfterValidator(_bearer_key)]
FullPath = Annotated[Path, AfterValidator(_full_path)]
Port = Annotated[int, Field(ge=1, le=65_535)]
Count = Annotated[int, Field(ge=1)]
CountOrNone = Annotated[int, Field(ge=0)]
Millis = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def read_key(key: SecretStr | None, file: Path | None, setting: str) -> str | None:
    """The key to send, or None when there is neither. A file is read at each call, so that keys can be rotated.

    Args:
        setting: the name of the setting ``file`` stands in, for messages.

    Raises:
        InvalidRequest: the file cannot be read, or holds no key.
    """
    if file is None:
        return key.get_secret_value() if key else None
    try:
        text = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not ASCII text"
        raise InvalidRequest(f"cannot read the key file {file} ({reason}); check {setting}") from None
    if not _is_key(text):
        raise InvalidRequest(f"the key file {file} holds no key; write the key into it, one word, and nothing else")
    return text


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
