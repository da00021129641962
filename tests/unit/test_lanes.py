"""Which models share an endpoint, and whose numbers count there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes_tasks.settings import ModelSettings, Settings
from hermes_tasks.wiring.admission import day_budget, lanes


def model(name: str = "gpt", url: str = "https://one.example/v1", key: str | None = "k", **more: Any) -> ModelSettings:
    return ModelSettings.model_validate({"base_url": url, "api_key": key, "model": name, **more})


def test_an_endpoint_is_an_address_and_a_key_and_tells_neither() -> None:
    same = model().endpoint
    assert model("mini", url="https://one.example/v1/").endpoint == same
    others = {model(key="other").endpoint, model(url="https://two.example/v1").endpoint, model(key=None).endpoint}
    assert len(others | {same}) == 4
    assert "one" not in same
    filed = model(key=None, api_key_file="/run/secrets/a").endpoint
    assert filed not in {same, *others, model(key=None, api_key_file="/run/secrets/b").endpoint}


def test_models_of_an_endpoint_share_its_calls_and_the_smallest_number_counts() -> None:
    found = lanes({"a": model(max_concurrent=8), "b": model("mini", max_concurrent=3), "c": model("nano"),
                   "d": model(key="own", max_concurrent=9)})  # fmt: skip
    assert {name: lane.max_concurrent for name, lane in found.items()} == {"a": 3, "b": 3, "c": 3, "d": 9}
    assert len({lane.endpoint for lane in found.values()}) == 2
    assert len({lane.model for name, lane in found.items() if name != "d"}) == 3


def test_rates_are_each_models_own() -> None:
    found = lanes({
        "a": model(requests_per_minute=60, tokens_per_minute=1000), "b": model("mini", requests_per_minute=500),
        "again": model(requests_per_minute=50),
    })  # fmt: skip
    rates = {name: (lane.requests_per_minute, lane.tokens_per_minute, lane.rated) for name, lane in found.items()}
    assert rates == {"a": (50, 1000, True), "b": (500, None, True), "again": (50, 1000, True)}
    assert found["a"] == found["again"]
    assert not lanes({"a": model()})["a"].rated


@pytest.mark.parametrize("name", ["max_concurrent", "requests_per_minute", "tokens_per_minute"])
def test_a_limit_of_none_at_all_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        model(**{name: 0})


def test_a_days_tokens_come_from_the_settings(tmp_path: Path) -> None:
    models = {"default": model(max_output_tokens=4096), "mini": model("mini")}
    budget = day_budget(Settings(home=tmp_path, models=models, budget={"daily_tokens": 5}))
    assert (budget.tokens, budget.answers) == (5, {"default": 4096})
