"""What the Dockerfile says, held against the repository and docker-compose.yaml. Needs no container engine.

`problems` tells every disagreement in words; none is the right answer.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final

from streamwarden.adapters.jvm import maven
from streamwarden.services.workspace import DATA_VARIABLE, PROJECT_VARIABLE
from support.airflow_harness import REPOSITORY
from support.command_lines import fault_of
from support.deployment import Deployment

NEEDED: Final = (
    "Makefile",
    "README.md",
    "config/streams",
    "dags",
    "packaging/compose/first-run.sh",
    "packaging/pyspark-client/pyproject.toml",
    "plugins",
    "pyproject.toml",
    "requirements.txt",
    "scripts/setup.sh",
    "spark_jobs/oracles",
    "src/streamwarden/adapters/jars",
)
"""What the build, or a container without its mounts, reads."""

UNWANTED: Final = (".env", ".git", ".venv", "var", "src/streamwarden/__pycache__")
"""Secrets, and what is another machine's."""


@dataclass(frozen=True)
class Image:
    """The instructions of the Dockerfile in their order, and the lines of .dockerignore."""

    instructions: tuple[tuple[str, str], ...]
    ignored: tuple[str, ...]
    root: Path = REPOSITORY

    @classmethod
    def read(cls, root: Path = REPOSITORY) -> Image:
        return cls.of((root / "Dockerfile").read_text(), (root / ".dockerignore").read_text(), root)

    @classmethod
    def of(cls, dockerfile: str, dockerignore: str, root: Path = REPOSITORY) -> Image:
        lines = [line for line in dockerfile.splitlines() if not line.lstrip().startswith("#")]
        whole = re.sub(r"\\\n\s*", "", "\n".join(lines))
        found = [line.split(maxsplit=1) for line in whole.splitlines() if line.strip()]
        return cls(tuple((name, rest) for name, rest in found), tuple(dockerignore.split()), root)

    def of_kind(self, kind: str) -> list[str]:
        return [rest for name, rest in self.instructions if name == kind]

    def steps(self) -> list[list[str]]:
        """Every command of every RUN, in words."""
        return [shlex.split(step) for run in self.of_kind("RUN") for step in run.split("&&")]

    def packages(self) -> set[str]:
        """What apt-get installs and does not take away again."""
        installed, removed = set[str](), set[str]()
        for words in self.steps():
            names = {word for word in words[2:] if not word.startswith("-")}
            if words[:2] == ["apt-get", "install"]:
                installed |= names
            elif words[:2] == ["apt-get", "purge"]:
                removed |= names
        return installed - removed

    def leaves_out(self, path: str) -> bool:
        """Whether .dockerignore keeps `path` from the build: a line matches it, or a folder above it."""
        parts = PurePosixPath(path).parts
        for pattern in self.ignored:
            if pattern.startswith("**/"):
                if any(fnmatchcase(part, pattern[3:]) for part in parts):
                    return True
            elif any(fnmatchcase("/".join(parts[:count]), pattern) for count in range(1, len(parts) + 1)):
                return True
        return False


def problems(image: Image, deployment: Deployment) -> list[str]:
    """Every disagreement, in words."""
    checks = (_base, _context, _steps, _user, _places)
    return [problem for check in checks for problem in check(image, deployment)]


def _base(image: Image, _: Deployment) -> Iterator[str]:
    required = tomllib.loads((image.root / "pyproject.toml").read_text())["project"]["requires-python"]
    version = re.match(r"python:(\d+\.\d+)-", image.of_kind("FROM")[0])
    if version is None or version[1] not in required:
        yield f"FROM {image.of_kind('FROM')[0]}: not the Python of pyproject.toml, {required}"
    java = re.search(r"openjdk-\d+-jre-headless", (image.root / "scripts" / "setup.sh").read_text())
    if java is None or java[0] not in image.packages():
        yield "the image has another Java than `make setup` installs"


def _context(image: Image, _: Deployment) -> Iterator[str]:
    if image.of_kind("COPY") != [". ."]:
        yield "the image does not copy the checkout as it is"
    for path in NEEDED:
        if not (image.root / path).exists():
            yield f"{path}: it is not there"
        if image.leaves_out(path):
            yield f"{path}: .dockerignore leaves it out, and it is needed"
    yield from (f"{path}: .dockerignore lets it in" for path in UNWANTED if not image.leaves_out(path))


def _steps(image: Image, _: Deployment) -> Iterator[str]:
    targets = set(re.findall(r"^([a-z-]+):", (image.root / "Makefile").read_text(), re.MULTILINE))
    done = []
    for program, *words in image.steps():
        done.append((program, *words))
        if program == "make":
            yield from (f"make {target}: there is no such target" for target in words if target not in targets)
        elif program == ".venv/bin/streamwarden":
            yield from (f"streamwarden {' '.join(words)}: {fault}" for fault in [fault_of(words)] if fault)
        elif program == ".venv/bin/python":
            folders = [word for word in words if not word.startswith("-") and word != "compileall"]
            yield from (
                f"{folder}: there is no such folder" for folder in folders if not (image.root / folder).is_dir()
            )
    if ("make", "setup") not in done:
        yield "nothing makes the environment"
        return
    for pom in sorted(maven.KAFKA.parent.glob("*.xml")):
        prepared = (".venv/bin/streamwarden", "prepare", f"--{pom.stem}")
        if prepared not in done or done.index(prepared) < done.index(("make", "setup")):
            yield f"{pom.name}: its jars are not in the image"


def _user(image: Image, _: Deployment) -> Iterator[str]:
    names = [name for name, _ in image.instructions]
    if image.of_kind("USER")[-1:] in ([], ["root"], ["0"]):
        yield "its processes are root"
    elif "RUN" in names[names.index("USER") :]:
        yield "a step is left to a user who may not write there"
    elif not any(words[:1] == ["useradd"] and words[-1] == image.of_kind("USER")[-1] for words in image.steps()):
        yield "its user is not made"
    if not any(words[:3] == ["chmod", "-R", "a+rX"] for words in image.steps()):
        yield "a checkout of a strict umask could not be read by its user"


def _places(image: Image, deployment: Deployment) -> Iterator[str]:
    (home,) = image.of_kind("WORKDIR")
    environment = deployment.environment("scheduler")
    if environment[PROJECT_VARIABLE] != home:
        yield f"WORKDIR {home}: the services' project is {environment[PROJECT_VARIABLE]}"
    if f"PATH={home}/.venv/bin:$PATH" not in image.of_kind("ENV"):
        yield "the environment's programs are not on the PATH"
    hiding = [*image.of_kind("VOLUME")]
    hiding += [volume.split(":")[1] for service in deployment.ours.values() for volume in service["volumes"]]
    kept = PurePosixPath(home, ".venv", "share", "streamwarden")  # the class archive, and the jars that Maven fetched
    for folder in sorted({folder for folder in hiding if kept.is_relative_to(folder)}):
        yield f"{folder}: what is mounted there hides the prepared jars"
    owned = next((words for words in image.steps() if words[:1] == ["mkdir"]), [])
    for key in (DATA_VARIABLE, "AIRFLOW_HOME", "AIRFLOW__LOGGING__BASE_LOG_FOLDER"):
        if environment[key] not in owned:
            yield f"{environment[key]}: nobody makes it for the image's user"
