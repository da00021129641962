"""Both forms of a schedule: what is accepted, what is refused and how, and when it fires."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from hermes_tasks.contracts.clock import from_ms, to_ms
from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.cron.schedule import Schedule, parse, schedule_from

NOW = datetime(2027, 3, 14, 4, 30, tzinfo=UTC)
MINUTE, HOUR = 60_000, 3_600_000


def every(text: str, *, now: datetime = NOW, least_s: int = 60) -> Schedule:
    return parse(text, None, now=now, zone="UTC", min_interval_s=least_s)


def at(text: str, *, now: datetime = NOW, zone: str = "UTC") -> Schedule:
    return parse(None, text, now=now, zone=zone, min_interval_s=60)


def refusal(every: str | None, at: str | None, zone: str = "UTC") -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        parse(every, at, now=NOW, zone=zone, min_interval_s=60)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 250
    return refused.value


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2m", 120), ("90s", 90), ("1h", 3600), ("1d", 86_400), ("every 90m", 5400), ("EVERY 2H", 7200),
        (" every  3 h ", 10_800), ("60s", 60), ("3660d", 3660 * 86_400),
    ],
)  # fmt: skip
def test_intervals(text: str, seconds: int) -> None:
    assert every(text) == Schedule(every_s=seconds, anchor_ms=to_ms(NOW))


@pytest.mark.parametrize(
    "text",
    [
        "every 0m", "every 0h", "every -5m", "every 0.2m", "*/0 * * * *", "59s", "0s", "every hour", "every monday 9am",
        "", "m", "5", "5 w", "5m5m", "1e3s", "9" * 400 + "m",
    ],
)  # fmt: skip
def test_other_intervals_are_refused_naming_the_smallest_allowed(text: str) -> None:
    refused = refusal(text, None)
    assert refused.field == "every"
    assert "smallest allowed is 60s" in str(refused)


def test_the_smallest_interval_is_the_configured_one() -> None:
    assert every("1s", least_s=1).every_s == 1
    with pytest.raises(InvalidRequest, match="smallest allowed is 3600s"):
        every("59m", least_s=3600)


def test_an_interval_of_more_than_ten_years_is_refused() -> None:
    assert "ten years" in str(refusal("999999999d", None))
    assert "ten years" in str(refusal("3661d", None))


@pytest.mark.parametrize(("every", "at"), [(None, None), ("2m", "2030-01-31T09:00")])
def test_exactly_one_form_must_be_given(every: str | None, at: str | None) -> None:
    refused = refusal(every, at)
    assert refused.field == "schedule"
    assert "2m" in str(refused)
    assert "2030-01-31T09:00" in str(refused)


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("2030-01-31T09:00", "UTC", datetime(2030, 1, 31, 9, tzinfo=UTC)),
        ("2030-01-31T09:00", "Asia/Kathmandu", datetime(2030, 1, 31, 3, 15, tzinfo=UTC)),
        ("2030-01-31T09:00:00+01:00", "Asia/Kathmandu", datetime(2030, 1, 31, 8, tzinfo=UTC)),
        ("2030-01-31 09:00Z", "Asia/Kathmandu", datetime(2030, 1, 31, 9, tzinfo=UTC)),
        (" 2030-01-31 ", "UTC", datetime(2030, 1, 31, tzinfo=UTC)),
        ("2027-03-14T04:30:00.001", "UTC", NOW + timedelta(milliseconds=1)),
    ],
)
def test_moments(text: str, zone: str, moment: datetime) -> None:
    assert at(text, zone=zone) == Schedule(at_ms=to_ms(moment))


@pytest.mark.parametrize("text", ["", "tomorrow", "09:00", "2030-02-30T09:00", "2030-13-01", "in 3h", "x" * 5000])
def test_other_moments_are_refused_with_what_is_accepted(text: str) -> None:
    refused = refusal(None, text)
    assert refused.field == "at"
    assert "2030-01-31T09:00" in str(refused)


@pytest.mark.parametrize(
    "text",
    [
        "2027-03-14T04:30Z", "2027-03-14T00:30", "2026-01-01", "0001-01-01T00:00+14:00", "2027-03-14T05:30+02:00",
        "2027-03-14T04:30:00.000900Z",  # within the present millisecond: nothing would ever fire it
    ],
)  # fmt: skip
def test_a_moment_that_has_passed_is_refused_with_the_time_it_is(text: str) -> None:
    refused = refusal(None, text, zone="America/Halifax")
    assert refused.field == "at"
    assert "has passed; it is 2027-03-14T00:30:00-04:00 in America/Halifax" in str(refused)


@pytest.mark.parametrize("text", ["2040-01-01", "9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59"])
def test_a_moment_farther_than_ten_years_is_refused(text: str) -> None:
    assert "more than ten years away" in str(refusal(None, text, zone="America/Halifax"))


def test_an_interval_is_elapsed_time_whatever_the_clocks_on_the_wall_do() -> None:
    """Halifax, 00:30 on the night of the change: three hours later it is 04:30 there."""
    start = datetime(2027, 3, 14, 0, 30, tzinfo=ZoneInfo("America/Halifax"))
    schedule = parse("every 3h", None, now=start, zone="America/Halifax", min_interval_s=60)
    first = from_ms(schedule.after(to_ms(start)))
    assert first == datetime(2027, 3, 14, 7, 30, tzinfo=UTC)
    assert first.astimezone(ZoneInfo("America/Halifax")).hour == 4


def test_an_interval_is_anchored_and_never_drifts() -> None:
    schedule = every("5m")
    anchor = to_ms(NOW)
    for late_ms in (0, 1, 900, 4 * MINUTE + 59_999):
        assert schedule.after(anchor + 10 * MINUTE + late_ms) == anchor + 15 * MINUTE
    assert schedule.after(anchor - 5 * HOUR) == anchor + 5 * MINUTE, "never before it was made"


def test_a_moment_comes_once() -> None:
    schedule = at("2030-01-31T09:00")
    planned = schedule.at_ms
    assert [schedule.after(planned - 1), schedule.after(planned), schedule.after(planned + 1)] == [planned, 0, 0]
    assert schedule.between(0, planned + HOUR) == 0


def test_planned_times_between_two_moments_are_counted() -> None:
    schedule, anchor = every("5m"), to_ms(NOW)
    first = anchor + 5 * MINUTE
    assert schedule.between(first, first) == 0
    assert schedule.between(first, first + 5 * MINUTE - 1) == 0
    assert schedule.between(first, first + 5 * MINUTE) == 1
    assert schedule.between(first, first + 47 * MINUTE) == 9
    assert schedule.between(first, first - HOUR) == 0


@pytest.mark.parametrize("schedule", [every("90s"), at("2030-01-31T09:00")])
def test_a_stored_schedule_is_read_back(schedule: Schedule) -> None:
    wire = schedule.wire()
    assert wire["v"] == 1
    assert schedule_from(wire) == schedule
    assert schedule_from({**wire, "added_later": True}) == schedule


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (every("90s"), "every 90 seconds"), (every("60s"), "every minute"), (every("120m"), "every 2 hours"),
        (every("24h"), "every day"), (every("36h"), "every 36 hours"),
    ],
)  # fmt: skip
def test_the_meaning_in_words(schedule: Schedule, words: str) -> None:
    assert schedule.words("UTC") == words


def test_a_moment_is_said_in_the_users_zone() -> None:
    assert at("2030-01-31T09:00", zone="Asia/Kathmandu").words("Asia/Kathmandu") == (
        "once, at 2030-01-31T09:00:00+05:45 (Asia/Kathmandu)"
    )


def test_a_wall_time_that_the_clocks_leave_out_is_said_as_what_it_becomes() -> None:
    schedule = at("2027-03-28T02:30", zone="Europe/Berlin")
    assert "2027-03-28T03:30:00+02:00" in schedule.words("Europe/Berlin")


def test_the_present_may_be_given_in_any_zone() -> None:
    now = NOW.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert every("2m", now=now) == every("2m")
