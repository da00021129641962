"""Answers of a front, and of what is none, as errors of ours."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from hermes_tasks.client.http import error_of, make_http, segment
from hermes_tasks.contracts.errors import (
    Conflict,
    HermesTasksError,
    InvalidRequest,
    NotFound,
    Retryable,
    StoreFull,
    StoreUnavailable,
)

HTTP = make_http("http://127.0.0.1:1", "key", timedelta(seconds=1))


def body(kind: str, message: str = "what and why") -> bytes:
    return json.dumps({"error": {"type": kind, "message": message, "field": "f"}}).encode()


@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        (400, "invalid_request", InvalidRequest),
        (401, "unauthorized", InvalidRequest),
        (403, "forbidden", InvalidRequest),
        (404, "not_found", NotFound),
        (409, "conflict", Conflict),
        (413, "too_large", InvalidRequest),
        (503, "store_full", StoreFull),
        (503, "store_unavailable", StoreUnavailable),
        (503, "unavailable", Retryable),
        (500, "internal", HermesTasksError),
        (500, "new_in_a_later_version", HermesTasksError),
        (418, "new_in_a_later_version", InvalidRequest),
    ],
)
def test_the_type_decides_the_class(status: int, kind: str, error: type[HermesTasksError]) -> None:
    found = error_of(HTTP, status, body(kind))
    assert type(found) is error
    assert str(found) == "what and why"
    assert getattr(found, "field", "f") == "f"


def test_a_message_is_one_line_of_bounded_length() -> None:
    text = str(error_of(HTTP, 400, body("invalid_request", "a\nb " + "x" * 10_000)))
    assert text.startswith("a b x")
    assert len(text) <= 300


@pytest.mark.parametrize("content", [b"", b"<html>bad gateway</html>", b"[]", b'{"error": "text"}', b'{"detail": 1}'])
def test_what_stands_in_between_is_told_apart(content: bytes) -> None:
    assert type(error_of(HTTP, 502, content)) is Retryable
    stranger = error_of(HTTP, 404, content)
    assert type(stranger) is InvalidRequest
    assert "is not Hermes Tasks" in str(stranger)


@pytest.mark.parametrize("key", ["", "two words", "é", "line\nbreak"])
def test_keys_that_cannot_be_sent_are_refused(key: str) -> None:
    with pytest.raises(InvalidRequest, match="check the key file"):
        make_http("http://127.0.0.1:1", key, timedelta(seconds=1))


@pytest.mark.parametrize("url", ["", "localhost:80", "ftp://h", "http://", "http://[", "http://h:port"])
def test_urls_that_cannot_be_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="URL"):
        make_http(url, "key", timedelta(seconds=1))


def test_ids_stay_one_segment_of_the_path() -> None:
    assert segment("a b?c#d%2F") == "a%20b%3Fc%23d%252F"


@pytest.mark.parametrize("name", ["", ".", "..", "a/../b", "half a pair \ud800"])
def test_what_no_record_can_be_named_is_not_found(name: str) -> None:
    with pytest.raises(NotFound, match="an id is not empty"):
        segment(name)
