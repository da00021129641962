"""The fallback: only on unavailable, rate limit or refused key, and only before a step's first text."""

from __future__ import annotations

import pytest

from hermes_tasks.contracts.errors import BadModelAnswer, ContextTooLong, ModelRefused, ModelUnavailable, RateLimited
from hermes_tasks.demo.reply import ABSENT, Call, Reply
from hermes_tasks.demo.server import ModelServer
from tests.integration.model_clients import probe, settings

pytestmark = pytest.mark.anyio

IMAGE = [
    {"role": "user", "content": [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": "x"}}]}
]
TOO_LONG = Reply(status=400, body={"error": {"message": "too long", "code": "context_length_exceeded"}})


async def asked(first: Reply, second: Reply | None, *, vision: bool = True, **fields):
    """The step from a model with a fallback; ``second`` None = the fallback must not be asked."""
    spare = [] if second is None else [second]
    async with ModelServer([first]) as one, ModelServer(spare) as two:
        models = {
            "default": settings(one.base_url, fallback="spare", vision=True),
            "spare": settings(two.base_url, model="gpt-spare", vision=vision),
        }
        try:
            async with probe(**models) as asking:
                return await asking.ask(**fields)
        finally:
            assert [call.model for call in one.calls] == ["gpt-test"]
            assert [call.model for call in two.calls] == ["gpt-spare"] * (second is not None)


@pytest.mark.parametrize(
    "first",
    [
        Reply(status=503),
        Reply(status=429, retry_after="1"),
        Reply(status=401),
        Reply(status=402),
        Reply(status=403),
        Reply(drop_after=1),
        Reply(drop_after=2, reasoning="thoughts are not text"),
        Reply(calls=[Call("echo")], finish=ABSENT, drop_after=2),
        Reply(insert=[(0, {"error": {"code": 502, "message": "bad gateway"}})]),
    ],
)
async def test_another_model_answers_and_the_step_says_which(first) -> None:
    step = await asked(first, Reply(text="From the spare one."))
    assert (step.text, step.model, step.usage.calls) == ("From the spare one.", "spare", 1)
    assert step.calls == ()


@pytest.mark.parametrize(
    ("first", "error"),
    [
        (Reply(status=400), ModelRefused),
        (Reply(status=404), ModelRefused),
        (TOO_LONG, ContextTooLong),
        (Reply(body="<html>", content_type="text/html"), BadModelAnswer),
        (Reply(text="Once this was shown, nobody else may go on.", finish=ABSENT, drop_after=2), ModelUnavailable),
        (Reply(text="so it was shown", insert=[(2, {"error": {"code": 429, "message": "later"}})]), RateLimited),
    ],
)
async def test_no_fallback_for_anything_else(first, error) -> None:
    with pytest.raises(error):
        await asked(first, None)


async def test_a_good_answer_leaves_the_fallback_alone() -> None:
    assert (await asked(Reply(text="Here."), None)).model == "default"


@pytest.mark.parametrize("second", [Reply(status=401), TOO_LONG, Reply(body="x"), Reply(status=500)])
async def test_when_both_fail_the_error_is_the_one_that_may_pass(second) -> None:
    with pytest.raises(RateLimited) as caught:
        await asked(Reply(status=429, retry_after="4"), second)
    assert caught.value.retry_after is not None
    assert caught.value.retry_after.total_seconds() == 4
    with pytest.raises(RateLimited):
        await asked(Reply(status=401), Reply(status=429))
    with pytest.raises(ModelRefused, match="'default'"):
        await asked(Reply(status=401), Reply(status=403))


async def test_a_silent_endpoint_leaves_time_for_its_fallback() -> None:
    step = await asked(Reply(text="too late", delay=60), Reply(text="In time."), timeout_s=3.0)
    assert (step.text, step.model) == ("In time.", "spare")


async def test_a_slow_endpoint_that_has_begun_keeps_its_whole_time() -> None:
    step = await asked(Reply(text=["slow ", "but ", "here"], chunk_delay=0.5), None, timeout_s=3.0)
    assert (step.text, step.model) == ("slow but here", "default")


async def test_images_do_not_go_to_a_fallback_that_cannot_see() -> None:
    step = await asked(Reply(text="a cat"), None, vision=False, messages=IMAGE)
    assert step.text == "a cat"
    with pytest.raises(ModelUnavailable):
        await asked(Reply(status=503), None, vision=False, messages=IMAGE)
    assert (await asked(Reply(status=503), Reply(text="a dog"), messages=IMAGE)).text == "a dog"


async def test_parts_a_model_cannot_take_are_refused_by_name() -> None:
    async with ModelServer([]) as server, probe(default=settings(server.base_url)) as asking:
        with pytest.raises(ModelRefused, match="image_url"):
            await asking.ask(messages=IMAGE)
        with pytest.raises(ModelRefused, match="input_audio"):
            await asking.ask(messages=[{"role": "user", "content": [{"type": "input_audio"}]}])


async def test_fallbacks_that_name_each_other_end() -> None:
    async with ModelServer([Reply(status=500)] * 3) as server:
        models = {
            "default": settings(server.base_url, fallback="b"),
            "b": settings(server.base_url, fallback="c"),
            "c": settings(server.base_url, fallback="default"),
        }
        async with probe(**models) as asking:
            with pytest.raises(ModelUnavailable, match="'default'"):
                await asking.ask()
        server.check()


async def test_whoever_asks_hears_of_a_fallback_before_it_is_asked_and_may_stop_it() -> None:
    told: list[tuple[str, float | None, str]] = []

    class NoPlaceError(Exception):
        pass

    async def allow(failed, error, fallback) -> None:
        told.append((failed, error.retry_after.total_seconds(), fallback))

    async def refuse(failed, error, fallback) -> None:
        raise NoPlaceError

    limited = Reply(status=429, retry_after="7")
    step = await asked(limited, Reply(text="From the spare one."), before_fallback=allow)
    assert (step.model, told) == ("spare", [("default", 7.0, "spare")])
    with pytest.raises(NoPlaceError):
        await asked(limited, None, before_fallback=refuse)


async def test_a_rate_limit_names_the_model_it_came_from() -> None:
    with pytest.raises(RateLimited) as caught:
        await asked(Reply(status=401), Reply(status=429))
    assert caught.value.model == "spare"
