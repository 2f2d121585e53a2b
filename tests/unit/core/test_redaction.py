"""Secrets are recognized by their name, by their form and by their value, and a redacted value never comes back."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamwarden.redaction import (
    REDACTED,
    is_redacted,
    is_secret,
    redacted,
    redacted_properties,
    redacted_text,
    remember,
    restored,
    secrets_of,
)

SECRET = "hunter2-hunter2"


@pytest.mark.parametrize(
    "name",
    [
        "spark.ssl.keyPassword",
        "kafka.sasl.jaas.config",
        "fs.s3a.access.key",
        "fs.s3a.secret.key",
        "fs.azure.account.key.lake.dfs.core.windows.net",
        "AWS_SESSION_TOKEN",
        "kafka.ssl.keystore.key",
        "google.cloud.auth.service.account.private.key",
        "basic.auth.user.info",
        "PGPASSWORD",
        "apiKey",
    ],
)
def test_the_name_of_a_setting_says_that_its_value_is_a_secret(name: str) -> None:
    assert is_secret(name)
    assert redacted({"conf": {name: SECRET}}) == {"conf": {name: REDACTED}}
    assert redacted_properties(f"a=1\n{name}={SECRET} and more\n") == f"a=1\n{name}={REDACTED}\n"


@pytest.mark.parametrize(
    "name",
    [
        "key",
        "topic",
        "kafka.key.serializer",
        "checkpoint",
        "fs.s3a.aws.credentials.provider",
        "passwordFile",
        "spark.kubernetes.driver.secretKeyRef.X",
        "spark.ui.enabled",
    ],
)
def test_other_settings_are_shown(name: str) -> None:
    assert redacted({name: "value"}) == {name: "value"}


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://ann:{SECRET}@db:5432/flights cannot be reached",
        f"postgresql://ann:{SECRET}@with-an-at@db:5432/flights",
        f"the command ended with 1: password={SECRET}",
        f"psql --password {SECRET} -c 'SELECT 1'",
        f"psql --db-password={SECRET}",
        f'{{"password": "{SECRET} \\" with more {SECRET}", "user": "ann"}}',
        f'{{\\"sasl.jaas.config\\": \\"module required {SECRET}\\"}}',
        f"{{'token': '{SECRET}'}}",
        f"sasl.jaas.config=org.apache.Plain required username='ann' password='{SECRET}';",
        f"-Djavax.net.ssl.keyStorePassword={SECRET}",
        f"secret_key = {SECRET}",
        f"options:\n  - password: {SECRET}\n",
        f"Authorization: Bearer {SECRET}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n{SECRET}\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_a_secret_in_text_is_hidden_and_the_rest_is_shown(text: str) -> None:
    shown = redacted_text(text)
    assert SECRET not in shown
    assert REDACTED in shown
    assert redacted_text(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "check the connection's user, password: correct them",
        "the lease's token is 5",
        "spark.kubernetes.driver.secretKeyRef.X: SECRET:KEY",
        "postgresql+psycopg://ann:***@db/flights",
        "start-kafka --password-file /etc/kafka/password --token-path=/run/token",
        "abfss://container@account.dfs.core.windows.net/path",
        "kafka:9092,other:9092",
    ],
)
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert redacted_text(text) == text


def test_the_argument_after_a_flag_is_its_value() -> None:
    args = [
        "--user",
        "ann",
        "--db-password",
        SECRET,
        "--brokers",
        "b:9092",
        f"--token={SECRET}",
        "--password",
        "--force",
    ]
    assert redacted({"args": args})["args"] == [
        *["--user", "ann", "--db-password", REDACTED, "--brokers", "b:9092", f"--token={REDACTED}"],
        *["--password", "--force"],
    ]
    assert redacted({"args": tuple(args)})["args"] == tuple(redacted(args))


def test_numbers_stay_also_under_the_name_of_a_secret() -> None:
    """The fencing token of a lease is a number, and people need it."""
    assert redacted({"token": 5, "password": {"set": True, "value": SECRET}}) == {
        "token": 5,
        "password": {"set": True, "value": REDACTED},
    }


def test_a_remembered_value_is_hidden_wherever_it_stands() -> None:
    assert redacted_text(f"login of ann/{SECRET} failed") == f"login of ann/{SECRET} failed"
    remember(SECRET, None, "pw1", "streamwarden", "letteronlypassphrase")
    assert redacted_text(f"login of ann/{SECRET} failed") == f"login of ann/{REDACTED} failed"
    assert redacted_text("letteronlypassphrase") == REDACTED
    ordinary = "/data/streamwarden/pw1"
    assert redacted_text(ordinary) == ordinary, "a password that is a word would hide the word everywhere"


def test_secrets_of_a_document_equal_the_redacted_values() -> None:
    options = {"kafka.sasl.jaas.config": SECRET, "topic": "flights", "url": "https://ann:pw1@host/path?token=pw4"}
    document = {"options": options, "env": [{"token": ["a", "b"]}], "args": ["--password", "pw2", "--token=pw3"]}
    assert secrets_of(document) == [SECRET, "pw1", "pw4", "a", "b", "pw2", "pw3"]


def test_a_redacted_document_is_restored_from_the_real_one() -> None:
    real = {"conf": {"spark.password": SECRET, "spark.ui": "1"}, "args": ("--token", SECRET), "name": "flights"}
    shown = redacted({**real, "name": "flights__fork", "args": list(real["args"])})
    assert is_redacted(shown)
    again = restored(shown, real)
    assert again == {**real, "name": "flights__fork", "args": ["--token", SECRET]}
    assert not is_redacted(again)


def test_a_value_that_is_not_in_the_real_document_any_more_stays_redacted() -> None:
    """An edited file must not put another argument into the place of a secret."""
    shown = redacted({"args": [f"--token={SECRET}"], "conf": {"spark.password": SECRET}})
    assert restored(shown, {"args": ["--brokers=b"], "conf": {}}) == shown
    assert restored(shown, {"args": [f"--token={SECRET}", "--more"], "conf": {"spark.password": "new-secret"}}) == {
        "args": shown["args"],
        "conf": {"spark.password": "new-secret"},
    }


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["a", "password", "conf", "x.token"]), inner),
)


@given(_JSON)
def test_any_document_is_redacted_once_and_restored(document: object) -> None:
    shown = redacted(document)
    assert redacted(shown) == shown
    assert restored(shown, document) == document


@given(st.text(alphabet="ab password=:\"'\\/@-\n*", max_size=200) | st.text())
def test_any_text_is_redacted_once(text: str) -> None:
    shown = redacted_text(text)
    assert redacted_text(shown) == shown


@pytest.mark.parametrize(
    "piece", ["password", "a", "://", "://a:", "--a", "--password", 'password="', '"', "\npassword:", " ", "bearer "]
)
def test_no_text_takes_more_than_linear_time(piece: str) -> None:
    """A quadratic pattern would take half a minute for this text."""
    began = time.process_time()
    redacted_text(piece * (60_000 // len(piece)))
    assert time.process_time() - began < 2.0
