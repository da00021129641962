"""Masks secrets in any text: keys and tokens by their shape, values by their name, headers, URLs, private keys.

Whatever leaves a tool, enters a log or is stored for good passes here. A mask stays recognisable (``tok_…``,
``PASSWORD=***``), so that a reader knows that something was there. Masking a masked text changes nothing.
"""

from __future__ import annotations

import re
from typing import Final

from hermes_tasks.safety.secret_names import is_code, is_name_again, is_placeholder, is_secret_name, looks_random

MASK: Final = "***"

_PRIVATE_KEY: Final = re.compile(
    r"(-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----)"
    r"(?:(?:[^-]|-(?!----)){0,20000}(-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----)"
    r"|(?:(?:\s|\\[nr])*[A-Za-z0-9+/=]{16,})*(?:\s[A-Za-z0-9+/=]+\Z)?)"
)
_TOKEN: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:sk|pk|rk|tok|key|token|secret)_(?:live|test|prod)_[A-Za-z0-9]{8,}"
    r"|sk-(?=[A-Za-z_-]{0,60}\d)[A-Za-z0-9_-]{16,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|gl(?:pat|dt|rt|ptt)-[\w-]{16,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-\d-[A-Za-z0-9-]{10,}"
    r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|AIza[\w-]{35}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}"
    r"|(?:hf|gsk|ntn|npm|lin_api|figd|rubygems|whsec|r8)_[A-Za-z0-9]{20,}|(?:xai|pplx|nvapi|tvly)-[\w-]{16,}|ht_[\w-]{40,}"
    r"|pypi-AgE[\w-]{16,}|shp(?:at|ss|ca|pa)_[a-fA-F0-9]{32}|do[opr]_v1_[a-f0-9]{32,}|key-[0-9a-f]{32}|SK[0-9a-f]{32}"
    r"|SG\.[\w-]{16,}\.[\w-]{16,}|AGE-SECRET-KEY-1[A-Z0-9]{40,}|\d{8,10}:AA[\w-]{33}"
    r"|(?<![_-])eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)*"
    r")"
)
_TOKEN_HEAD: Final = re.compile(r"[A-Za-z0-9]{2,8}[_.-]")
_HOOK: Final = re.compile(
    r"(https://(?:hooks\.slack\.com/(?:services|workflows)/|(?:\w+\.)?discord(?:app)?\.com/api/webhooks/))[\w/-]{10,}"
)
_USERINFO: Final = re.compile(
    r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]{1,20}://)(?:([^\s/?#@:\"'<>]{0,100}):)?([^\s/?#\"'<>]{1,300})@"
)
_WORDS_FOR_A_PASSWORD: Final = ("password", "passwd", "pass", "pw", "secret", "guest", "change-me", "changeme")
_SIGNATURES: Final = ("sig", "signature", "x-amz-signature")
_AUTHORIZATION: Final = re.compile(
    r"(?i)\b((?:proxy-)?authorization(?:\\?[\"'])?[ \t]*[:=][ \t]*(?:\\?[\"'])?)"
    r"((?:bearer|basic|token|apikey|negotiate|ntlm|key)[ \t]+)?([^\s\"'\\,]+)"
)
_CREDENTIAL: Final = re.compile(r"[A-Za-z0-9._~+/=:-]+")
_BEARER: Final = re.compile(r"(?i)\b(bearer[ \t]+)(?=[A-Za-z._~+/=-]{0,60}\d)[A-Za-z0-9._~+/=-]{16,}")
_COOKIES: Final = re.compile(r"(?i)\b(?:set-)?cookie:[ \t]*[^\r\n\"']+")
_COOKIE: Final = re.compile(r"(?i)(?<![\w-])(?!(?:path|domain|expires|max-age|samesite)=)([\w.-]{1,80}=)([^\s;\\]{8,})")
_LOGIN: Final = re.compile(r"\b(login[ \t]+\S{1,100}[ \t]+password[ \t]+)(\S+)")
_CURL_USER: Final = re.compile(r"(\bcurl\b[^\n]{0,120}?[ \t](?:-u|--user)[ \t=]*[\"']?[^\s:\"']{1,100}:)([^\s\"']+)")
_FLAG: Final = re.compile(r"(?<![\w-])(--([A-Za-z][\w-]{1,60})[ \t]+[\"']?)([^\s\"'-][^\s\"']*)")
_ENV_LINE: Final = re.compile(r"(?m)^([ \t]*(?:(?:export|set|ENV)[ \t]+)?([A-Z][A-Z0-9_]{1,80})=)([^\s\"'`]\S*)")
_NAME: Final = re.compile(  # only the name is consumed: what follows may hold further pairs, as in a URL
    r"(?<![\w.-])(?P<name>[\w.-]{1,80})(?=(?:\\?[\"'`])?"
    r"(?P<sep>(?:[ \t]{0,8}:[ \t]{0,8}[A-Za-z_][\w.|\[\]]{0,40})?[ \t]{0,8}(?:=>|:=|[=:])[ \t]{0,8}))"
)
_VALUE: Final = (
    r"\\[\"'](?P<escaped>[^\"'\\\n]{1,%(most)s})|(?P<quote>[\"'`])"
    r"(?P<quoted>(?:[^\"'`\\\n]|\\.|(?!(?P=quote))[\"'`]){1,%(most)s})|(?P<bare>[^\s\"'`&;,|<>(){}\[\]\\]{1,%(most)s})"
)
_BEGIN_OF_VALUE: Final = re.compile(_VALUE % {"most": 64})  # enough to judge; keeps hostile text from costing n * n
_WHOLE_VALUE: Final = re.compile(_VALUE % {"most": ""})


def mask_secrets(text: str) -> str:
    """``text`` with every recognised secret replaced by a mask; all other text is unchanged.

    It recognises shapes and names, so it cannot find a secret that looks like a word and has no name beside it.
    """
    text = _PRIVATE_KEY.sub(_private_key, text)
    text = _HOOK.sub(r"\1…", text)
    text = _TOKEN.sub(_token, text)
    text = _USERINFO.sub(_userinfo, text)
    text = _AUTHORIZATION.sub(_authorization, text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    text = _COOKIES.sub(lambda m: _COOKIE.sub(_tail, m[0]), text)
    text = _LOGIN.sub(_tail, text)
    text = _CURL_USER.sub(_tail, text)
    text = _ENV_LINE.sub(_env_line, text)
    text = _FLAG.sub(_flag, text)
    return _mask_pairs(text)


def _private_key(match: re.Match[str]) -> str:
    cut_before_its_text = match[2] is None and match.end() == match.end(1)
    return match[0] if cut_before_its_text else f"{match[1]}{MASK}{match[2] or ''}"


def _token(match: re.Match[str]) -> str:
    head = _TOKEN_HEAD.match(match[0])
    return f"{head[0] if head else match[0][:4]}…"


def _tail(match: re.Match[str]) -> str:
    """Mask the last group, unless it is a placeholder."""
    head, value = match[0][: match.start(match.re.groups) - match.start()], match[match.re.groups]
    return match[0] if is_placeholder(value) else head + MASK


def _userinfo(match: re.Match[str]) -> str:
    scheme, user, password = match.groups()
    if password.lower() in _WORDS_FOR_A_PASSWORD or (is_placeholder(password) and not password.isalnum()):
        return match[0]
    if user is None:  # https://<token>@host; `git@host` and other names stay
        return f"{scheme}{MASK}@" if len(password) >= 20 and looks_random(password) else match[0]
    return f"{scheme}{user}:{MASK}@"


def _authorization(match: re.Match[str]) -> str:
    head, scheme, value = match.groups()
    if is_placeholder(value) or not (scheme or (_CREDENTIAL.fullmatch(value) and looks_random(value))):
        return match[0]
    return f"{head}{scheme or ''}{MASK}"


def _env_line(match: re.Match[str]) -> str:
    return _tail(match) if is_secret_name(match[2]) and not is_name_again(match[2], match[3]) else match[0]


def _flag(match: re.Match[str]) -> str:
    secret = is_secret_name(match[2]) and looks_random(match[3]) and not is_placeholder(match[3])
    return match[1] + MASK if secret else match[0]


def _mask_pairs(text: str) -> str:
    parts: list[str] = []
    done = 0
    for name in _NAME.finditer(text):
        if name.start() < done or not _is_secret_name(name):
            continue
        begin = _BEGIN_OF_VALUE.match(text, name.end("sep"))
        value = _WHOLE_VALUE.match(text, name.end("sep")) if begin and _is_secret_value(name, begin) else None
        if value is None or value.lastgroup is None:
            continue
        parts += text[done : value.start(value.lastgroup)], MASK
        done = value.end(value.lastgroup)
    return "".join([*parts, text[done:]])


def _is_secret_name(pair: re.Match[str]) -> bool:
    name = pair["name"].strip("-.")
    return is_secret_name(name) or (name.lower() in _SIGNATURES and _before(pair)[-1:] in ("?", "&"))


def _is_secret_value(pair: re.Match[str], found: re.Match[str]) -> bool:
    name, value = pair["name"].strip("-."), found[found.lastgroup or 0]
    if is_placeholder(value) or is_name_again(name, value):
        return False
    if found.lastgroup == "bare":
        return _bare_is_secret(pair, value, after=pair.string[found.end() : found.end() + 1])
    # A quoted sentence talks about the password.
    return "passphrase" in name.lower() or not any(char.isspace() for char in value)


def _before(match: re.Match[str]) -> str:
    return match.string[max(0, match.start() - 2) : match.start()]


def _bare_is_secret(pair: re.Match[str], value: str, after: str) -> bool:
    """Unquoted values are often code or prose, so they must look the part unless their place says enough."""
    if after in ("(", "["):
        return False
    before, tight = _before(pair), pair["sep"] == "="
    if tight and (before[-1:] in ("?", "&") or pair["name"].isupper() or pair["name"].startswith("--")):
        return True
    keyword_argument = tight and (before.endswith("(") or before == ", ")
    if is_code(value) and (keyword_argument or "." in value):
        return False
    return looks_random(value.rstrip(".,:!?"))
