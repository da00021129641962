"""What a log line says, and what it never says."""

from __future__ import annotations

import json
import logging

import pytest
import structlog
from pydantic import SecretStr

from hermes_tasks.observe.logging import about, configure_logging, get_logger
from hermes_tasks.settings.sections import LogSettings


@pytest.fixture
def start(capsys):
    """Sets logging up when called (streams change between set-up and test) and returns what reads the lines."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level)

    def begin():
        configure_logging(LogSettings(format="json"), "front")
        return lambda: [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    yield begin
    root.handlers[:], root.level = before
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


def test_a_line_says_who_what_and_about_which_run(start):
    lines = start()
    log = get_logger("hermes_tasks.some.module")
    with about(run="r1", user="u", session="", kind="child"):
        log.info("claimed", attempt=2)
    log.info("idle")
    claimed, idle = lines()
    expected = {"event": "claimed", "level": "info", "process": "front", "logger": "hermes_tasks.some.module"}
    assert expected.items() <= claimed.items()
    assert {key: claimed[key] for key in ("run", "user", "kind", "attempt")} == {
        "run": "r1", "user": "u", "kind": "child", "attempt": 2,
    }  # fmt: skip
    assert "session" not in claimed
    assert "run" not in idle


def test_lines_of_libraries_have_the_same_form(start):
    lines = start()
    with about(run="r1"):
        logging.getLogger("celery.worker").warning("lost %s", "redis://:hidden-1@h/0")
        logging.getLogger("httpx").info("a line per request")
    (line,) = lines()
    assert (line["logger"], line["run"], line["event"]) == ("celery.worker", "r1", "lost redis://:***@h/0")


def test_secrets_are_masked_at_any_depth(start):
    lines = start()
    get_logger("x").info(
        "asked",
        api_key="hidden-1",
        key=SecretStr("hidden-2"),
        nested={"token": "hidden-3", "tokens": 7},
        listed=["Authorization: Bearer hidden4hidden4hidden4"],
    )
    (line,) = lines()
    assert "hidden" not in json.dumps(line)
    assert line["nested"]["tokens"] == 7


def test_an_exception_is_one_line(start):
    lines = start()
    try:
        raise ValueError("broken")
    except ValueError:
        get_logger("x").exception("failed")
    (line,) = lines()
    assert line["level"] == "error"
    assert line["exception"].endswith("ValueError: broken")


def test_what_lines_are_about_is_a_closed_list():
    with pytest.raises(ValueError, match="not about text; use run, kind, user"), about(text="what the user said"):
        pass
