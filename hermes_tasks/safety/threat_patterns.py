"""The patterns of the threat scan, one table: id, scopes, expression.

Every repetition is bounded, so that no text makes the scan slow.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Scope(StrEnum):
    """Which patterns are looked for."""

    ALL = "all"
    CONTEXT = "context"
    STRICT = "strict"
    JOB = "job"
    PHRASES = "phrases"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One thing that is looked for."""

    id: str
    scopes: frozenset[Scope]
    expression: str


_ALL: Final = frozenset({Scope.ALL, Scope.CONTEXT, Scope.STRICT})
_CONTEXT: Final = frozenset({Scope.CONTEXT, Scope.STRICT})
_STRICT: Final = frozenset({Scope.STRICT})
_JOB: Final = frozenset({Scope.JOB})
_PHRASES: Final = frozenset({Scope.JOB, Scope.PHRASES})

_FEW: Final = (
    r"(?:[\w'\u2019-]+[\s,]+){0,6}"  # words put between to dodge the pattern; bounded, so that no text is slow
)
_WORTH_HIDING: Final = r"(?:api[\s_-]?keys?|(?:access|auth)\s+tokens?|secrets?|passwords?|credentials?|private\s+keys?)"
_VARIABLE: Final = r"\$\{?\w{0,40}(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)"
_FILE: Final = (
    r"(?:\.env\b|\.netrc|\.pgpass|\.npmrc|\.pypirc|/etc/shadow|\.aws/credentials|credentials\.json"
    r"|id_(?:rsa|ed25519)\b)"
)
_HOME: Final = r"(?:~|\$HOME|\$\{HOME\}|/root|/home/[\w.-]+)"

PATTERNS: Final = (
    # Steering phrases.
    Pattern(
        "prompt_injection",
        _ALL | _PHRASES,
        rf"\bignore[\s,]+{_FEW}(?:previous|prior|above|earlier|all)\s+{_FEW}instructions?\b",
    ),
    Pattern(
        "disregard_rules",
        _ALL | _PHRASES,
        rf"\bdisregard[\s,]+{_FEW}(?:your|all|any|the)\s+{_FEW}(?:instructions|rules|guidelines|policies)\b",
    ),
    Pattern(
        "sys_prompt_override",
        _ALL | _PHRASES,
        r"\bsystem\s+prompt\s+override\b|\b(?:override|replace)\s+(?:the|your)\s+system\s+prompt\b",
    ),
    Pattern(
        "deception_hide",
        _ALL | _PHRASES,
        rf"\b(?:do\s+not|don['\u2019]t|never)\s+{_FEW}(?:tell|inform|mention\s+(?:this|it)\s+to)\s+{_FEW}the\s+user\b",
    ),
    Pattern(
        "bypass_restrictions",
        _ALL,
        rf"\bact\s+as\s+(?:if|though)\s+{_FEW}you\s+{_FEW}(?:have\s+no|do\s+not\s+have|don['\u2019]t\s+have)\s+{_FEW}(?:restrictions|limits|rules)\b",
    ),
    Pattern("translate_execute", _ALL, r"\btranslate\s[^\n]{1,200}\sinto\s[^\n]{1,100}\sand\s+(?:execute|run|eval)\b"),
    # Text a reader of the page does not see.
    Pattern(
        "html_comment_injection",
        _ALL,
        r"<!--[^>]{0,300}\b(?:ignore|override|system\s+prompt|instructions?)\b[^>]{0,300}-->",
    ),
    Pattern("hidden_div", _ALL, r"<\s*(?:div|span|p)\b[^>]{0,500}display\s*:\s*none"),
    # Secrets on their way out.
    Pattern("exfil_curl", _ALL | _JOB, rf"\bcurl\s(?![^\n]{{0,300}}api\.github\.com)[^\n]{{0,500}}{_VARIABLE}"),
    Pattern("exfil_wget", _ALL | _JOB, rf"\bwget\s[^\n]{{0,500}}{_VARIABLE}"),
    Pattern(
        "read_secrets",
        _ALL | _JOB,
        rf"\b(?:cat|less|head|tail|type|base64|xxd|strings)\s[^\n|;&]{{0,200}}{_FILE}",
    ),
    # A new identity for the agent.
    Pattern(
        "role_hijack",
        _CONTEXT,
        rf"\b(?:from\s+now\s+on\s+you\s+are|you\s+are\s+(?:from\s+now\s+on|now))\s+{_FEW}(?:an?|the)\s",
    ),
    Pattern("role_pretend", _CONTEXT, rf"\bpretend\s+{_FEW}(?:you\s+are|to\s+be)\s"),
    Pattern(
        "leak_system_prompt",
        _CONTEXT | _JOB,
        rf"\b(?:output|print|reveal|repeat|show)\s+{_FEW}(?:system|initial|hidden)\s+(?:prompt|instructions)\b",
    ),
    Pattern(
        "remove_filters",
        _CONTEXT,
        rf"\b(?:respond|answer|reply)\s+without\s+{_FEW}(?:restrictions|limitations|filters|safety)\b",
    ),
    Pattern("fake_update", _CONTEXT, rf"\byou\s+have\s+been\s+{_FEW}(?:updated|upgraded|patched)\s+to\b"),
    Pattern("identity_override", _CONTEXT, r"\b(?:re)?name\s+yourself\s+\w"),
    # Remote control.
    Pattern(
        "c2_node_registration", _CONTEXT, r"\bregister\s+(?:yourself\s+)?(?:as\s+)?(?:an?\s+)?node\s+(?:at|with)\b"
    ),
    Pattern("c2_task_pull", _CONTEXT, r"\b(?:pull|fetch)\s+(?:down\s+)?(?:your\s+)?(?:new\s+)?tasking\b"),
    Pattern("c2_heartbeat", _CONTEXT, r"\bsend\s+(?:a\s+)?(?:heartbeats?|beacons?)\s+(?:to|every)\b"),
    Pattern("forced_action", _CONTEXT, r"\byou\s+must\s+(?:\w+\s+){0,3}(?:register|beacon|connect)\s+(?:to|with|at)\b"),
    Pattern(
        "anti_forensic_disk", _CONTEXT, rf"\bnever\s+{_FEW}(?:create|write)\s+{_FEW}(?:script|file)s?\s+{_FEW}disk\b"
    ),
    Pattern("env_var_unset_agent", _CONTEXT, r"\bunset\s+\w{0,40}(?:HERMES|OPENAI|ANTHROPIC|AGENT)\w{0,40}"),
    Pattern("known_c2_framework", _CONTEXT, r"\b(?:cobalt\s?strike|metasploit|brainworm)\b"),
    # What must never be remembered.
    Pattern(
        "reveal_secrets",
        _STRICT | _JOB,
        rf"\b(?:reveal|print|show|output|dump|leak|send|post|upload|tell|give|share)\s+{_FEW}(?:your|all|every|its|server|system|user'?s?)\s+{_FEW}{_WORTH_HIDING}\b",
    ),
    Pattern(
        "reveal_secrets_of_environment",
        _STRICT | _JOB,
        rf"\b(?:reveal|print|output|dump|leak|send|post|upload|exfiltrate)\s+{_FEW}(?:passwords|credentials|api\s+keys|access\s+tokens|private\s+keys|environment\s+variables)\b",
    ),
    Pattern(
        "reveal_secret_file",
        _STRICT | _JOB,
        rf"\b(?:read|open|show|print|send|post|upload|dump)\s+{_FEW}[\w./~$-]{{0,80}}{_FILE}",
    ),
    Pattern("send_to_url", _STRICT, r"\b(?:send|post|upload|transmit)\s[^\n]{1,200}\s(?:to|at)\s+https?://"),
    Pattern(
        "context_exfil",
        _STRICT,
        rf"\b(?:include|output|print|share|send)\s+{_FEW}(?:chat\s+history|conversation\s+history|previous\s+messages|(?:full|entire)\s+(?:context|conversation))\b",
    ),
    Pattern("ssh_backdoor", _STRICT | _JOB, r"\bauthorized_keys\b"),
    Pattern("ssh_access", _STRICT, rf"{_HOME}/\.ssh\b"),
    Pattern(
        "agent_config_mod",
        _STRICT,
        r"\b(?:update|modify|edit|write|change|append|add)\b[^\n]{0,200}(?:AGENTS\.md|CLAUDE\.md|SOUL\.md|\.cursorrules|\.clinerules)",
    ),
    Pattern(
        "hardcoded_secret", _STRICT, r"(?:api[_-]?key|token|secret|password)[\"']?\s*[=:]\s*[\"'][A-Za-z0-9+/=_-]{20,}"
    ),
    # Commands no scheduled job is asked to run.
    Pattern("sudoers_edit", _JOB, r"/etc/sudoers|\bvisudo\b"),
    Pattern(
        "root_delete",
        _JOB,
        r"\brm\s+(?:-[\w-]+\s+){1,4}(?:--no-preserve-root\s+)?(?:/\*?|~/?|\$HOME/?)(?=$|[\s;&|'\"`])",
    ),
)
