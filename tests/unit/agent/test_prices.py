"""What an answer cost: exact where prices are set, never guessed."""

from __future__ import annotations

import pytest

from hermes_tasks.agent.model import priced
from hermes_tasks.contracts.steps import ModelStep, Usage
from hermes_tasks.settings import ModelSettings


def cost_of(prices: dict[str, float], **used: int) -> Usage:
    settings = ModelSettings(base_url="http://127.0.0.1/v1", model="m", **prices)
    return priced(ModelStep(text="hi", usage=Usage(calls=1, **used)), settings).usage


def test_a_price_per_million_tokens_is_as_many_millionths_per_token() -> None:
    used = cost_of({"input_price": 0.4, "output_price": 1.6}, input_tokens=1_000_000, output_tokens=500_000)
    assert (used.cost_micro, used.unpriced_calls, used.cost) == (1_200_000, 0, 1.2)
    assert cost_of({"input_price": 0.4, "output_price": 1.6}, input_tokens=3, output_tokens=1).cost_micro == 3
    assert cost_of({"input_price": 0.0, "output_price": 0.0}, input_tokens=3).cost == 0.0


@pytest.mark.parametrize(
    ("prices", "tokens"),
    [({}, 5), ({"input_price": 1.0}, 5), ({"output_price": 1.0}, 5), ({"input_price": 1.0, "output_price": 1.0}, 0)],
)
def test_without_both_prices_or_without_a_reported_usage_the_cost_is_unknown(
    prices: dict[str, float], tokens: int
) -> None:
    used = cost_of(prices, input_tokens=tokens)
    assert (used.cost, used.cost_micro, used.unpriced_calls, used.input_tokens) == (None, 0, 1, tokens)
    assert used.plus(Usage(calls=1, cost_micro=5)).cost is None
