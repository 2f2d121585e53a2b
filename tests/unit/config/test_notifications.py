"""`config/notifications.yaml`: an error names the file, the key, the value and what is allowed."""

from __future__ import annotations

import re

import pytest

from streamwarden.config.notifications import FILE, Notifications, load_notifications
from streamwarden.errors import ConfigError
from support.airflow.harness import REPOSITORY
from support.streams.projects import Project

SMTP = "airflow.providers.smtp.notifications.smtp.SmtpNotifier"
"""The notifier of the examples. tests/dags/test_notifying.py imports it, and with it Airflow."""


def test_the_shipped_example_loads_and_changes_nothing() -> None:
    assert load_notifications(REPOSITORY) == Notifications()


def test_the_shipped_example_is_correct_when_every_key_is_in_use(project: Project) -> None:
    """Each commented key, without its comment sign."""
    text = (REPOSITORY / FILE).read_text()
    project.write(str(FILE), re.sub(r"^# (?=\s*(- )?[a-z_]+:( |$))", "", text, flags=re.MULTILINE))
    settings = load_notifications(project.root, is_notifier={SMTP}.__contains__)
    assert settings.crashes
    assert settings.heartbeat_url is not None
    assert settings.airflow_url == "http://localhost:8080"
    assert [channel.shown for channel in settings.airflow] == ["mail"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("crashes: 'yes'", "crashes: the text 'yes'"),
        ("crash: true", "crash: unknown key"),
        ("resend_interval: 30s", "resend_interval: 30"),
        ("resend_interval: -1h", "resend_interval"),
        ("heartbeat_url: ftp://host/x", "heartbeat_url: the value is not an HTTP URL"),
        ("heartbeat_url: hc-ping.com/s3cret", "heartbeat_url: the value is not an HTTP URL"),
        ("airflow_url: 'http://[x'", "airflow_url: the value is not an HTTP URL"),
        ("airflow_url: http://host:abc", "airflow_url: the value is not an HTTP URL"),
        ("airflow: [{name: x}]", "airflow[0].notifier: the required key is missing"),
        ("airflow: [{notifier: x.Y}]", "'x.Y' is not a notifier that can be imported"),
        ("airflow: [{notifier: pathlib.Path}]", "'pathlib.Path' is not a notifier"),
        ("airflow: [{notifier: pathlib.Path, name: 'my chat'}]", "airflow[0].name: 'my chat'"),
        ("airflow: chat", "airflow: the text 'chat'"),
        ("[]", "the file holds a list"),
    ],
)
def test_a_mistake_is_named_with_its_key(project: Project, text: str, said: str) -> None:
    project.write(str(FILE), text + "\n")
    with pytest.raises(ConfigError) as caught:
        load_notifications(project.root)
    assert "config/notifications.yaml" in str(caught.value)
    assert said in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_two_channels_of_one_name_are_refused(project: Project) -> None:
    """What was sent is recorded by the channel's name."""
    project.write(str(FILE), f"airflow:\n  - notifier: {SMTP}\n  - notifier: {SMTP}\n")
    with pytest.raises(ConfigError, match="2 channels have the name 'SmtpNotifier'"):
        load_notifications(project.root, is_notifier={SMTP}.__contains__)


def test_the_examples_of_the_guide_are_correct(project: Project) -> None:
    """Apprise understands each URL of its table, and its YAML loads."""
    import apprise

    guide = (REPOSITORY / "docs/how-to/notifications.md").read_text()
    urls = re.findall(r"^\| .* \| `(\w+://.*)` \|$", guide, flags=re.MULTILINE)
    assert len(urls) == 4
    assert [url for url in urls if not apprise.Apprise().add(url)] == []
    block = guide.partition("    airflow:\n")[2].partition("\n\n")[0]
    project.write(str(FILE), "airflow:\n" + block.replace("\n    ", "\n").removeprefix("    ") + "\n")
    settings = load_notifications(project.root, is_notifier={SMTP}.__contains__)
    assert [channel.shown for channel in settings.airflow] == ["mail"]
