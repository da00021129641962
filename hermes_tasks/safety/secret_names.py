"""Whether ``name = value`` is a secret: which names promise one, and which values are only talk about one."""

from __future__ import annotations

import re
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORDS: Final = _words(
    "password passwd pwd passphrase passcode passkey secret secrets token apikey credential credentials "
    "authtoken accesstoken secretkey accesskey privatekey sessionkey clientsecret"
)
_ENDINGS: Final = ("password", "passwd", "passphrase", "secret", "apikey", "authtoken", "accesstoken")
#: ``<one of these>_key`` is a secret, ``primary_key`` and ``public_key`` are not.
_KEYS_OF: Final = _words(
    "api access private secret signing encryption auth session master shared storage deploy admin account webhook "
    "service hmac aes jwt"
)
#: A name that ends so describes the secret: its length, its file, its kind.
_DESCRIBES: Final = _words(
    "count limit max min length len size type kind name names id ids url uri path file files dir field fields label "
    "hint policy expiry expires expired expiration ttl at in age usage used total budget env var header prefix suffix "
    "format pattern regex enabled required valid changed reset manager provider class error status index rotation arn "
    "ref hash"
)
_NO_VALUES: Final = _words(
    "none null nil true false undefined required optional missing invalid empty unset string text bytes bool boolean "
    "integer number object array hidden redacted masked removed unknown default changeme change-me change_me "
    "expired disabled enabled wrong incorrect correct valid forgotten"
)
_STARTS_OF_PLACEHOLDERS: Final = ("$", "<", "{", "%", "*", "[", "(", "your", "xxx", "...")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATORS: Final = re.compile(r"[_\-. ]+")
_PATH: Final = re.compile(r"(?:~|\.{1,2})?(?:/[a-z0-9_.-]+)+|[a-z][a-z0-9+.-]*://.*", re.DOTALL)
_NUMBERED_WORD: Final = re.compile(
    r"(?:u?int|float|sha|md|bytes|base|utf|aes|rsa|hs|rs|es|ed|argon|pbkdf|v)-?\d{1,5}", re.IGNORECASE
)
_BLANK: Final = re.compile(r"\s")
_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def is_secret_name(name: str) -> bool:
    """True when a value of that name is expected to be a secret. ``max_tokens`` and ``secret_file`` are not."""
    words = [word.lower() for word in _SEPARATORS.split(_CAMEL.sub("_", name)) if word]
    if not words or (len(words) > 1 and words[-1] in _DESCRIBES):
        return False
    if _WORDS.intersection(words) or words[-1].endswith(_ENDINGS):
        return True
    if words[-1] == "key":
        return len(words) > 1 and words[-2] in _KEYS_OF
    return words[-1] == "pass" and len(words) > 1 and name.isupper()


def is_placeholder(value: str) -> bool:
    """True when ``value`` stands for a secret without being one: ``${TOKEN}``, ``<your key>``, ``***``, ``null``."""
    folded = value.strip().lower()
    return (
        len(folded) < 4
        or folded in _NO_VALUES
        or folded.startswith(_STARTS_OF_PLACEHOLDERS)
        or "***" in folded
        or "…" in folded
        or folded.endswith("...")
        or _PATH.fullmatch(value) is not None
    )


def is_name_again(name: str, value: str) -> bool:
    """True for ``token=self.token`` and ``"token": "access_token"``: the value is a name, not a secret."""
    folded = value.lower()
    if folded == name.lower() or folded.endswith((f".{name.lower()}", f"_{name.lower()}")):
        return True
    words = _SEPARATORS.split(folded)
    return len(words) > 1 and all(word.isalpha() for word in words) and bool(_WORDS.intersection(words))


def looks_random(value: str) -> bool:
    """True when ``value`` is hardly a word: letters and digits mixed, or a long number."""
    if len(value) < 6 or _BLANK.search(value) or _NUMBERED_WORD.fullmatch(value):
        return False
    return value.isdigit() or (_DIGIT.search(value) is not None and _LETTER.search(value) is not None)


def is_code(value: str) -> bool:
    """True when ``value`` could be a variable or attribute of a program."""
    return _IDENTIFIER.fullmatch(value) is not None
