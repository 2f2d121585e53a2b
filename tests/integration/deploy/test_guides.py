"""The programs understand the commands of the guides, and accept their files."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from streamwarden.adapters.jvm.environments import SparkEnvironment, own
from streamwarden.config import spark_environment
from streamwarden.config.loading import load_catalog, load_drills
from streamwarden.errors import StreamwardenError
from support.command_lines import fault_of_line
from support.guides import PAGES, Page
from support.servers.deployment import Deployment
from support.servers.spark_cluster import master_arguments, worker_arguments
from support.streams.catalogue import REPOSITORY, copy_project

DEPLOY = REPOSITORY / "docs" / "deploy.md"
COMPOSE = Deployment.read()


def faults(page: Page) -> list[str]:
    """What `streamwarden` would say to the page's commands. `DIR|STREAM` and `…` stand for what a person fills in."""
    found = []
    for line in page.commands("streamwarden"):
        fault = fault_of_line(re.sub(r"[|<>].*|…", "", line))
        found += [f"{line}: {fault}"] if fault else []
    return found


def refused(page: Page, folder: Path) -> list[str]:
    """What a project says to the page's files. A file that names no stream changes the one of the catalogue, step by
    step: what stands in it takes the place of what stood there."""
    files = [(path, content) for path, content in page.files() if path.startswith("config/")]
    if files:
        copy_project(folder)
    for path, text in page.jobs() if files else ():
        (folder / path).write_text(text)
    found = []
    for path, content in files:
        target = folder / path
        before = yaml.safe_load(target.read_text()) if target.exists() and "name" not in content else {}
        if not before and not {"job", "fault", "faults"} & content.keys():
            before = {
                "name": target.stem,
                "job": "spark_jobs/event_windows.py",
                "checkpoint": f"checkpoints/{target.stem}",
            }
        if "job" in content and not (folder / content["job"]).exists():
            (folder / content["job"]).write_text("def build(spark, spec): ...\n")  # the reader's own
        target.write_text(yaml.safe_dump({**before, **content}))
        try:
            catalog, (_, broken) = load_catalog(folder, folder / "var"), load_drills(folder)
        except StreamwardenError as error:
            found.append(str(error))
        else:
            found += [f"{path}: {error}" for error in (*catalog.broken.values(), *broken.values())]
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_command_of_a_page_parses(path: Path) -> None:
    assert faults(Page(path.read_text())) == []


def environment_of_a_page(python: str) -> SparkEnvironment:
    """The one that /opt/envs/spark41/bin/python belongs to, as if the reader had made it."""
    major, minor = re.fullmatch(r"/opt/envs/spark(\d)(\d)/bin/python", python).groups()  # type: ignore[union-attr]
    return replace(own(), python=python, version=f"{major}.{minor}.0")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_file_of_a_page_is_accepted(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_environment, "named", environment_of_a_page)
    assert refused(Page(path.read_text()), tmp_path) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_link_leads_somewhere(path: Path) -> None:
    assert dead_links(path, path.read_text()) == []


def dead_links(path: Path, text: str) -> list[str]:
    """Links to a file or a heading that is not there."""
    dead = []
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        file, _, heading = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        if not there.exists() or (heading and heading not in headings(there.read_text())):
            dead.append(target)
    return dead


def headings(text: str) -> set[str]:
    """As GitHub makes anchors of them."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_guide_has_commands_and_files_at_all() -> None:
    page = Page(DEPLOY.read_text())
    assert len(page.commands("streamwarden")) >= 15
    assert [path for path, _ in page.files()].count("config/streams/flight_departures.yaml") == 3
    assert len(page.commands("spark-class")) == 2


def test_the_cluster_is_started_as_the_tests_start_theirs() -> None:
    master, worker = (line.split()[1:] for line in Page(DEPLOY.read_text()).commands("spark-class"))
    url = f"spark://{master[2]}:{master[4]}"
    assert master == master_arguments(host=master[2], port=int(master[4]), page=int(master[6]))
    offer = {"host": worker[2], "cores": int(worker[4]), "memory": worker[6], "page": int(worker[8])}
    assert worker == worker_arguments(**offer, work=worker[10], url=url)  # type: ignore[arg-type]


def test_what_the_guide_has_copied_and_asked_in_containers_is_there() -> None:
    text = DEPLOY.read_text()
    copies = re.findall(r"cp (packaging/\S+) (config/\S+)", text)
    assert {Path(source).stem for source, _ in copies} == {
        file.stem for file in (REPOSITORY / "packaging" / "compose").rglob("*.yaml")
    }
    for source, target in copies:
        assert (REPOSITORY / source).is_file()
        assert Path(source).parent.name == Path(target).name
    assert set(re.findall(r"docker compose exec (\S+)", text)) <= set(COMPOSE.services)
    stopped = re.search(r"docker compose stop ([\w -]+)", text)
    assert stopped is not None
    assert set(stopped[1].split()) <= set(COMPOSE.services)
    said = re.search(r"another program has ([\d, or]+)", text)
    assert said is not None
    published = {port.split(":")[1] for service in COMPOSE.services.values() for port in service.get("ports", ())}
    assert set(re.findall(r"\d+", said[1])) == published
    variables = re.search(r"for key in ([A-Z_ ]+);", text)
    assert variables is not None
    used = set(re.findall(r"\$\{(\w+):-for-this-machine", (REPOSITORY / "docker-compose.yaml").read_text()))
    assert set(variables[1].split()) == used, "every password that the file has a default for"


MISTAKES = {
    "a verb": "    streamwarden launch flights\n",
    "an option": "```\nstreamwarden start flights --detach\n```\n",
    "in a container": "    docker compose exec scheduler streamwarden inspekt x\n",
    "after another": "    export X=1 && streamwarden restrat x\n",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_command_is_reported(mistake: str) -> None:
    assert faults(Page(f"Text.\n\n{MISTAKES[mistake]}")) != []


def test_a_page_is_taken_apart_into_sections_and_blocks() -> None:
    page = Page("## 1. A\n\n    one\n    two\n\nText.\n\n    three\n\n## 2. B\n\n    (four\n     five)\n")
    assert page.section(1).blocks() == ["one\ntwo\n", "three\n"]
    assert page.section(2).blocks() == ["(four\n five)\n"]


def test_a_wrong_file_is_reported(tmp_path: Path) -> None:
    wrong = "# config/streams/flight_departures.yaml\nsource: {kind: kafka, topic: flights}\n"
    assert "connection" in refused(Page(f"```yaml\n{wrong}```\n"), tmp_path)[0]


def test_a_dead_link_is_reported() -> None:
    text = "[a](how-to/kafka.md) [b](how-to/kafak.md) [c](#10-no-such-step)\n\n## 9. The proof\n[d](#9-the-proof)\n"
    assert dead_links(DEPLOY, text) == ["how-to/kafak.md", "#10-no-such-step"]
