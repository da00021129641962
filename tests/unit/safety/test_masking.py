from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_tasks.safety.masking import mask_secrets

# Put together here, so that no scanner of this repository takes them for real.
KEY = "sk" + "-proj-" + "Ab3" * 10
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
GITHUB = "ghp_" + "a1B2" * 9
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxIn0." + "c2lnbmF0dXJl"
OURS = "ht_" + "aB3_-" * 9
BEGIN, END = "-----BEGIN RSA PRIV" + "ATE KEY-----", "-----END RSA PRIV" + "ATE KEY-----"
BODY = "MIIEpAIBAAKCAQEA7bq\n3kQ7exampleexample\nabc=="


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("API_TOKEN=tok_live_9f3kQ7example", "API_TOKEN=tok_…"),
        ("https://robot:s3cr3tpass@files.example/box", "https://robot:***@files.example/box"),
        (f"the key {KEY}.", "the key sk-…."),
        (f"id={AWS}", "id=AKIA…"),
        (f"git clone https://{GITHUB}@example.org/x", "git clone https://ghp_…@example.org/x"),
        (f"token {JWT}", "token eyJh…"),
        (f"our key: {OURS}", "our key: ht_…"),
        ("https://hooks.slack.com/services/T0/B0/abcdefgh", "https://hooks.slack.com/services/…"),
        (f"a\n{BEGIN}\n{BODY}\n{END}\nb", f"a\n{BEGIN}***{END}\nb"),
        (f"a\n{BEGIN}\nMIIEpAIBAAKCAQEA7bq\n3kQ7exampleexample", f"a\n{BEGIN}***"),
        ("export DB_PASSWORD=p@ss;word,1&2", "export DB_PASSWORD=***"),
        ("PGPASSWORD=swordfish psql", "PGPASSWORD=*** psql"),
        ("MAIL_PASS='one2three'", "MAIL_PASS='***'"),
        ('{"password": "hunter", "user": "bob"}', '{"password": "***", "user": "bob"}'),
        (r"{\"clientSecret\": \"abcd1234efgh\"}", r"{\"clientSecret\": \"***\"}"),
        (r'"api_key": "ab\"cd1234efgh"', '"api_key": "***"'),
        ("{'secret_key': 'ab12cd34'}", "{'secret_key': '***'}"),
        ("aws_secret_access_key = wJalr7UtnFEMI/K7MDENG", "aws_secret_access_key = ***"),
        ("db:\n  password: hunter2\n", "db:\n  password: ***\n"),
        ('api_key: str = "abcd1234efgh"', 'api_key: str = "***"'),
        ("GET /cb?token=abcdefgh&page=2", "GET /cb?token=***&page=2"),
        ('password="' + "a1" * 1000 + '"', 'password="***"'),
        ("note: token=abc123def", "note: token=***"),
        ("url=https://h/?a=1&access_token=abcdef", "url=https://h/?a=1&access_token=***"),
        ("https://s3/x?X-Amz-Signature=ab12cd34&y=1", "https://s3/x?X-Amz-Signature=***&y=1"),
        ("--api-key=abcdefgh1 --verbose", "--api-key=*** --verbose"),
        ("login --password hunter22 -v", "login --password *** -v"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("-H 'Authorization: Basic dXNlcjpwYXNz' x", "-H 'Authorization: Basic ***' x"),
        ('"authorization": "abcdef123456"', '"authorization": "***"'),
        ("sent Bearer 0123456789abcdef", "sent Bearer ***"),
        ("X-Api-Key: 12ab34cd", "X-Api-Key: ***"),
        ("Cookie: sid=abcdef123456; theme=dark", "Cookie: sid=***; theme=dark"),
        ("curl -su bob:hunter2 x", "curl -su bob:hunter2 x"),  # joined short flags are not taken apart
        ("curl -s -u bob:hunter2 x", "curl -s -u bob:*** x"),
        ("machine h login bob password hunter2", "machine h login bob password ***"),
        ("redis://:pw12345@store:6379/0", "redis://:***@store:6379/0"),
        ("postgres://u:p@ss@db/x", "postgres://u:***@db/x"),
    ],
)
def test_secrets_are_masked(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked
    assert mask_secrets(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The password must have eight characters; the token is sent by mail.",
        "Password: required",
        "max_tokens=4096, token_count: 1200, total_tokens = 33000",
        "tokenizer=gpt2-medium keyboard=qwerty12",
        "token_type=bearer12 secret_file=/run/secrets/db2 password_hash=argon2id",
        "primary_key=id_0001 public_key: ab12cd34",
        "token = get_token2(user)",
        "login(user=user, token=self.token, password=password)",
        'api_key = os.environ["OPENAI_API_KEY"]',
        "api_key: SecretStr | None = None",
        "function f(uint256 token) token: uint256",
        '{"token": "access_token", "password": "string", "secret": null}',
        '"password": "Enter your password"',
        "API_KEY=$OTHER_KEY TOKEN=<your token> SECRET=${SECRET}",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN",
        "Authorization: none",
        "ssh://git@github.com:org/repo git@github.com:org/repo.git",
        "http://localhost:8000/@user http://host:80/a@b",
        "amqp://guest:guest@localhost//",
        "docker run -u 1000:1000 image",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "id 0190f3c2-7b1e-7cc3-98c4-dc0c0c07398f",
        "scikit: sk-learn, task-sk-1, risk-adjusted-return-on-capital-2024",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB",
        "for key in keys: print(key, secret_names[key])",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "2 + 2 = 4; a: b; x=1; note: call 555-123456 at 10:30",
        "Cookie: a crisp, sweet biscuit",
    ],
)
def test_harmless_text_is_left_alone(text: str) -> None:
    assert mask_secrets(text) == text


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    "token=",
                    '"password": "',
                    "Authorization: ",
                    "Bearer ",
                    "://",
                    ":",
                    "@",
                    "cookie: ",
                    "\n",
                    '"',
                    "\\",
                    KEY,
                    AWS,
                    JWT,
                    GITHUB,
                    BEGIN,
                    END,
                    "***",
                    "…",
                    "a1b2c3d4",
                    "--secret ",
                    "export X_TOKEN=",
                ]
            ),
            st.text(max_size=6),
        ),
        max_size=15,
    ).map("".join)
)
def test_no_token_survives_and_masking_twice_changes_nothing(text: str) -> None:
    once = mask_secrets(text)
    assert mask_secrets(once) == once


@given(before=st.text(max_size=20), after=st.text(max_size=20))
def test_a_token_is_found_wherever_it_stands(before: str, after: str) -> None:
    text = f"{before} {GITHUB} {after}"
    assert GITHUB not in mask_secrets(text)


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "-",
        " ",
        "\n",
        '"',
        "sk-",
        "eyJ-",
        "token:",
        'token="',
        r'token="\\',
        "a://",
        "http://a:",
        "bearer ",
        "curl -u ",
        "cookie: ",
        "login ",
        "--a ",
        "a:b.",
        BEGIN,
        "token : a.",
        "ghp_",
    ],
)
def test_hostile_input_costs_linear_time(piece: str) -> None:
    small, large = piece * (10_000 // len(piece)), piece * (200_000 // len(piece))
    begin = time.thread_time()
    mask_secrets(small)
    middle = time.thread_time()
    mask_secrets(large)
    end = time.thread_time()
    assert end - middle < max(1.0, 100 * (middle - begin))  # 20 times the text; quadratic would be 400 times
