"""Settings: what wins, what is refused and how it is told, and what is never shown."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.contracts.kinds import Queue, RunKind
from hermes_tasks.deploy import deploy_path
from hermes_tasks.settings import Settings, load, sources
from hermes_tasks.settings.keys import ANY, all_keys, dotted, variable
from hermes_tasks.settings.types import masked_url

MODEL = '[models.default]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def write(home: Path, text: str) -> Path:
    file = home / "config.toml"
    file.write_text(text, encoding="utf-8")
    return file


def refused(home: Path, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(InvalidRequest) as raised:
        load(home, environ=environ or {})
    return str(raised.value).splitlines()


def by_key(settings: Settings) -> dict[str, tuple[str, str]]:
    return {source.key: (source.value, source.source) for source in sources(settings)}


def test_environment_wins_over_file_and_file_over_default(home):
    file = write(home, "[windows]\nchild = 5\nturn = 6\n")
    settings = load(home, environ={"HERMES_TASKS_WINDOWS__TURN": "7"})
    assert (settings.windows.turn, settings.windows.child, settings.windows.cron) == (7, 5, 4)
    shown = by_key(settings)
    assert shown["windows.turn"] == ("7", "HERMES_TASKS_WINDOWS__TURN")
    assert shown["windows.child"] == ("5", str(file))
    assert shown["windows.cron"] == ("4", "default")
    assert shown["home"] == (str(home), "--home")


def test_a_file_may_change_one_limit_of_a_policy_and_keeps_the_others(home):
    write(home, "[policies.child]\niterations = 7\n")
    policy = load(home, environ={}).policies.of(RunKind.CHILD)
    assert (policy.iterations, policy.deadline_s, policy.queue_deadline_s) == (7, 900, 86_400)


@pytest.mark.parametrize("named_by", ["option", "variable"])
def test_another_file_can_be_named(home, tmp_path, named_by):
    write(home, "[windows]\nturn = 1\n")
    other = tmp_path / "other.toml"
    other.write_text("[windows]\nturn = 9\n")
    settings = (
        load(home, other, environ={})
        if named_by == "option"
        else load(home, environ={"HERMES_TASKS_CONFIG": str(other)})
    )
    assert settings.windows.turn == 9


def test_home_by_variable_or_default(tmp_path):
    settings = load(environ={"HERMES_TASKS_HOME": str(tmp_path)})
    assert by_key(settings)["home"] == (str(tmp_path), "HERMES_TASKS_HOME")
    assert load(environ={}).home == Path.home() / ".hermes-tasks"


def test_an_empty_variable_counts_as_not_set(home):
    assert load(home, environ={"HERMES_TASKS_STORE__URL": "", "HERMES_TASKS_WINDOWS__TURN": ""}).windows.turn == 4


def test_unknown_keys_are_named_with_what_is_near(home):
    file = write(
        home, 'demo_modle = true\n[lease]\nlenght_ms = 1\n[nowhere]\nx = 1\n[models.use]\nreveiw = "default"\n'
    )
    assert refused(home, {"HERMES_TASKS_FRONT__PROT": "1"}) == [
        "unknown environment variable HERMES_TASKS_FRONT__PROT; did you mean HERMES_TASKS_FRONT__PORT?",
        f"unknown setting demo_modle in {file}; did you mean demo_model?",
        f"unknown setting lease.lenght_ms in {file}; did you mean lease.length_ms?",
        next(line for line in refused(home) if "nowhere.x" in line),
        f"unknown setting models.use.reveiw in {file}; did you mean models.use.review?",
    ]
    assert any("nowhere.x" in line and "sections: broker, budget, cron" in line for line in refused(home))


def test_a_key_at_the_wrong_level_is_led_home(home):
    write(home, "nudge_every = 3\n")
    assert "did you mean memory.nudge_every?" in refused(home)[0]


def test_values_that_do_not_fit_name_key_kind_source_and_what_is_accepted(home):
    file = write(home, "[windows]\nturn = 0\nchild = [1]\n[log]\nlevel = 'loud'\n[flower]\nuser = 'a b'\n")
    lines = refused(home, {"HERMES_TASKS_LEASE__LENGTH_MS": "soon"})
    assert f"windows.turn = 0 (a whole number) (from {file}): should be greater than or equal to 1" in lines
    assert f"windows.child = [1] (a list) (from {file}): should be a valid integer" in lines
    assert any(
        line.startswith("lease.length_ms = 'soon' (text) (from HERMES_TASKS_LEASE__LENGTH_MS): ") for line in lines
    )
    assert any(line.startswith("log.level = 'loud' (text)") and "'debug', 'info'" in line for line in lines)
    assert any(line.startswith("flower.user = 'a b' (text)") for line in lines)
    assert len(lines) == 5


def test_sections_are_not_values(home):
    write(home, "lease = 3\n")
    lines = refused(home, {"HERMES_TASKS_FRONT": "x"})
    assert lines[0] == "HERMES_TASKS_FRONT names a section, not a value; set its keys, as HERMES_TASKS_FRONT__HOST"
    assert "lease in" in lines[1]
    assert "write [lease]" in lines[1]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[lease\n", "is not valid TOML"),
        ('home = "/x"\n', "use --home or HERMES_TASKS_HOME"),
        ("[lease]\nrenew_ms = 2500\n", "renew_ms < fresh_ms < length_ms"),
        ('[models.fast]\nbase_url = "http://h/v1"\nmodel = "m"\n', "no models.default"),
        (MODEL + '[models.use]\nreview = "fast"\n', "not a configured model (configured: default)"),
        (MODEL + 'fallback = "default"\n', "its own fallback"),
        (MODEL + 'api_key = "k"\napi_key_file = "/k"\n', "keep one"),
        ('[models.Big]\nbase_url = "http://h/v1"\nmodel = "m"\n', "a model named 'Big'"),
        ('[models.default]\nbase_url = "http://h/v1"\n', "models.default.model is not set"),
        ('[models.default]\nbase_url = "ftp://h"\nmodel = "m"\n', "http://host or https://host"),
        ('[store]\nurl = "http://h"\n', "redis://host or rediss://host"),
    ],
)
def test_what_cannot_work_is_refused(home, text, part):
    write(home, text)
    lines = refused(home)
    assert len(lines) == 1
    assert part in lines[0]


def test_a_file_that_cannot_be_read_is_named(home, tmp_path):
    (home / "config.toml").write_bytes(b"\xff\xfe")
    assert refused(home) == [f"the settings file {home / 'config.toml'} is not UTF-8 text"]
    missing = tmp_path / "missing.toml"
    assert refused(home, {"HERMES_TASKS_CONFIG": str(missing)}) == [
        f"cannot read the settings file {missing}: No such file or directory"
    ]


@pytest.mark.parametrize("name", ["a\nb", "a ;b", "a #b", 'a"b', "a%b"])
def test_a_home_that_configuration_files_cannot_carry_is_refused(tmp_path, name):
    assert refused(tmp_path / name)[0].startswith("home = ")


def test_no_model_means_the_demo_model(home):
    settings = load(home, environ={})
    assert settings.demo_model
    assert settings.models["default"].base_url == "http://127.0.0.1:8643/v1"
    assert settings.models.for_kind(RunKind.REVIEW) == "default"
    assert by_key(settings)["models.default.model"] == ("demo", "default (the demo model)")


def test_openai_variables_are_the_short_cut(home):
    settings = load(home, environ={"OPENAI_API_KEY": "sk-one"})
    assert not settings.demo_model
    model = settings.models["default"]
    assert (model.key(), model.base_url) == ("sk-one", "https://api.openai.com/v1")
    local = load(home, environ={"OPENAI_BASE_URL": "http://127.0.0.1:1/v1/", "OPENAI_MODEL": "llama"}).models["default"]
    assert (local.key(), local.base_url, local.model) == (None, "http://127.0.0.1:1/v1", "llama")
    assert refused(home, {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"})[0].startswith("OPENAI_BASE_URL is set without")


@pytest.mark.parametrize("where", ["file", "environment"])
def test_a_key_from_the_short_cut_never_goes_to_another_endpoint(home, where):
    environ = {"OPENAI_API_KEY": "sk-openai"}
    if where == "file":
        write(home, MODEL)
    else:
        environ |= {
            "HERMES_TASKS_MODELS__DEFAULT__BASE_URL": "http://127.0.0.1:9/v1",
            "HERMES_TASKS_MODELS__DEFAULT__MODEL": "m",
        }
    model = load(home, environ=environ).models["default"]
    assert (model.base_url, model.key()) == ("http://127.0.0.1:9/v1", None)


def test_the_demo_switch_ignores_every_model_key(home):
    write(home, MODEL + 'api_key = "sk-file"\n[models.use]\nreview = "default"\n')
    settings = load(
        home,
        environ={
            "HERMES_TASKS_DEMO_MODEL": "true",
            "OPENAI_API_KEY": "sk-env",
            "HERMES_TASKS_MODELS__OTHER__API_KEY": "sk-more",
        },
    )
    assert settings.demo_model
    assert set(settings.models.named) == {"default"}
    assert settings.models["default"].key() is None
    assert "sk-" not in repr(settings)


def test_kinds_choose_their_model(home):
    write(home, MODEL + '[models.small]\nbase_url = "http://h/v1"\nmodel = "s"\n[models.use]\nreview = "small"\n')
    models = load(home, environ={"HERMES_TASKS_MODELS__USE__CHILD": "small"}).models
    assert [models.for_kind(kind) for kind in (RunKind.TURN, RunKind.REVIEW, RunKind.CHILD)] == [
        "default", "small", "small",
    ]  # fmt: skip
    with pytest.raises(InvalidRequest, match="use one of: default, small"):
        models["big"]


def test_a_key_file_is_read_at_each_use(home, tmp_path):
    key = tmp_path / "key"
    write(home, MODEL + f'api_key_file = "{key}"\n')
    model = load(home, environ={}).models["default"]
    with pytest.raises(InvalidRequest, match="No such file"):
        model.key()
    key.write_text("sk-one\n")
    assert model.key() == "sk-one"
    key.write_text("sk-two\n")
    assert model.key() == "sk-two"
    key.write_text("\n")
    with pytest.raises(InvalidRequest, match="holds no key"):
        model.key()


def test_secrets_are_never_shown(home):
    write(
        home,
        MODEL
        + 'api_key = "sk-hidden"\n[store]\nurl = "redis://me:hidden@h:1/0"\n[broker]\nurl = "amqp://me:hidden@h/"\n',
    )
    settings = load(home, environ={})
    shown = by_key(settings)
    assert shown["models.default.api_key"][0] == "(set)"
    assert shown["store.url"][0] == "redis://me:***@h:1/0"
    assert shown["broker.url"][0] == "amqp://me:***@h/"
    for text in (repr(settings), str(settings), repr(settings.model_dump()), settings.model_dump_json(), str(shown)):
        assert "hidden" not in text


def test_secrets_are_not_shown_in_errors_either(home):
    write(home, '[store]\nurl = "http://me:hidden@h"\n' + MODEL + 'api_key = "hidden key"\n')
    assert "hidden" not in "\n".join(refused(home)).replace("(text, hidden)", "")
    assert len(refused(home)) == 2


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h", "redis://h"),
        ("redis://:p@[::1]:6379/0?a=b", "redis://:***@[::1]:6379/0?a=b"),
        ("redis://u:p@ss@h", "redis://u:***@h"),
        ("nonsense", "***"),
        ("http://[broken:p@x", "***"),
    ],
)
def test_masked_url(url, shown):
    assert masked_url(url) == shown


def test_the_object_is_frozen_and_reads_nothing_by_itself(monkeypatch):
    monkeypatch.setenv("HERMES_TASKS_WINDOWS__TURN", "9")
    settings = Settings()
    assert settings.windows.turn == 4
    with pytest.raises(ValidationError):
        settings.demo_model = False
    with pytest.raises(ValidationError):
        settings.windows.turn = 1
    with pytest.raises(ValidationError):
        Settings(windos={})


def test_default_toml_is_the_defaults(home):
    default = deploy_path("config/default.toml")
    assert load(home, default, environ={}).model_dump() == Settings(home=home).model_dump()


def test_default_toml_names_every_key_and_no_other():
    """Set keys are checked by loading; this finds keys that are missing, also among the commented ones."""
    text = deploy_path("config/default.toml").read_text(encoding="utf-8")
    section, named = "", set()
    for line in text.splitlines():
        if header := re.match(r"(?:# )?\[([a-z.]+)\]$", line):
            section = header[1].replace("models.default", f"models.{ANY}") + "."
        elif key := re.match(r"(?:# )?([a-z_]+) = ", line):
            named.add(section + key[1])
    assert named == {dotted(path) for path in all_keys() if path != ("home",)}


def test_production_toml_loads(home):
    settings = load(home, deploy_path("config/production.toml"), environ={})
    assert settings.store.url is not None


def test_every_queue_has_a_worker_section_and_every_kind_a_policy():
    settings = Settings()
    assert all(settings.workers.of(queue).events for queue in Queue)
    assert all(settings.policies.of(kind).iterations for kind in RunKind)
    assert set(type(settings.workers).model_fields) == {queue.value for queue in Queue}


def test_every_key_has_a_variable_that_sets_it(home):
    """Each plain key can be set by its variable: give every default back through the environment."""
    defaults = {path: value for path, value in _flat(Settings(home=home).model_dump()).items() if path[0] != "models"}
    environ = {
        variable(path): str(value).lower() if isinstance(value, bool) else str(value)
        for path, value in defaults.items()
        if value is not None and path not in (("home",), ("demo_model",))
    }
    settings = load(home, environ=environ)
    assert settings.model_dump() == Settings(home=home).model_dump()
    assert sum(source.source.startswith("HERMES_TASKS_") for source in sources(settings)) == len(environ) > 60


def _flat(tree: dict, above: tuple[str, ...] = ()) -> dict:
    found = {}
    for name, value in tree.items():
        found |= _flat(value, (*above, name)) if isinstance(value, dict) else {(*above, name): value}
    return found


def test_default_toml_is_valid_toml():
    assert tomllib.loads(deploy_path("config/default.toml").read_text(encoding="utf-8"))["lease"]["length_ms"] == 3000
