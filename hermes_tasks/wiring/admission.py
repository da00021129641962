"""Joins admission to the models' providers and the users' budget with the settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hermes_tasks.agent.day_budget import DayBudget
from hermes_tasks.contracts.ids import derived_id
from hermes_tasks.settings import ModelSettings, Settings
from hermes_tasks.store.admission import StoreAdmission
from hermes_tasks.store.permits import Lane, Permits
from hermes_tasks.store.rates import Rates
from hermes_tasks.wiring.base import Base


def lanes(models: Mapping[str, ModelSettings]) -> dict[str, Lane]:
    """Each model at its provider. Of different numbers for one thing the smallest counts."""
    found = {}
    for name, model in models.items():
        beside = [other for other in models.values() if other.endpoint == model.endpoint]
        same = [other for other in beside if other.model == model.model]
        found[name] = Lane(
            endpoint=model.endpoint,
            model=derived_id(model.model)[:16],
            max_concurrent=_smallest(other.max_concurrent for other in beside),
            requests_per_minute=_smallest(other.requests_per_minute for other in same),
            tokens_per_minute=_smallest(other.tokens_per_minute for other in same),
        )
    return found


def make_admission(base: Base) -> StoreAdmission:
    """Admission for this process, shared with all others of the store."""
    models = base.settings.models.named
    fallbacks = {name: model.fallback for name, model in models.items() if model.fallback}
    return StoreAdmission(Permits(base.store), Rates(base.store), base.runs, lanes(models), fallbacks)


def day_budget(settings: Settings) -> DayBudget:
    """The tokens of a user's day."""
    limited = {name: model.max_output_tokens for name, model in settings.models.named.items()}
    return DayBudget(settings.budget.daily_tokens, {name: most for name, most in limited.items() if most})


def _smallest(numbers: Iterable[int | None]) -> int | None:
    return min((number for number in numbers if number is not None), default=None)
