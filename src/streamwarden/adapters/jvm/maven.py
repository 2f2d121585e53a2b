"""Jars that a pom.xml pins, copied by Maven into a folder of this environment: once for each content of the pom, and
for each of its profiles that is asked for."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from streamwarden.errors import ProcessError

POMS: Final = Path(__file__).parent / "jars"

KAFKA_BROKER: Final = POMS / "kafka-broker.xml"
"""Kafka itself, for `dev kafka`."""

RESOLVING_TIMEOUT: Final = 600.0
"""Seconds; a first time downloads Maven's own plugins too."""

_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy-dependencies"


def jars(pom: Path, profile: str | None = None) -> tuple[Path, ...]:
    """The jars of `pom`, sorted; none if they have not been resolved yet."""
    return tuple(sorted(_folder(pom, profile).glob("*.jar")))


def resolve(pom: Path, profile: str | None = None) -> tuple[Path, ...]:
    """The jars of `pom`; runs Maven if they are not there. Raises ProcessError if it is missing or fails.

    Downloaded to a temporary folder and renamed, so a reader sees all of them or none.
    """
    folder = _folder(pom, profile)
    if resolved := jars(pom, profile):
        return resolved
    options = ["-DincludeScope=runtime", *([] if profile is None else [f"-P{profile}"])]
    with part_of(folder) as part:
        run(pom, _COPY, *options, f"-DoutputDirectory={part}")
        publish(part, folder, resolved_as(pom))
    return jars(pom, profile)


@contextmanager
def part_of(folder: Path) -> Iterator[Path]:
    """Where the content of a folder is made, before `publish` gives it its name."""
    part = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    try:
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)


def run(pom: Path, *arguments: str) -> None:
    """Run Maven on a project. Raises ProcessError if Maven is missing or fails."""
    maven = shutil.which("mvn")
    if maven is None:
        raise ProcessError(
            "Maven (mvn) is not installed",
            expected="mvn on the PATH",
            where=str(pom),
            next_step="install it (Debian: `apt-get install maven`) and try again; or name the jars yourself: "
            "`spark.jars` or `spark.jars.packages` in the stream's spark.conf",
        )
    try:
        done = subprocess.run(
            [maven, "--batch-mode", "--quiet", "--file", str(pom), *arguments],
            capture_output=True,
            text=True,
            timeout=RESOLVING_TIMEOUT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _failed(pom, f"Maven ran for {RESOLVING_TIMEOUT:.0f} s") from error
    if done.returncode != 0:
        raise _failed(pom, f"Maven ended with {done.returncode}: {done.stdout[-2000:].strip()}")


def publish(part: Path, folder: Path, content: str) -> None:
    """Give the jars their name, unless another process was first, whose jars may be in use by now; and remove those of
    another content of the project than `content`."""
    try:
        part.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
    for other in folder.parent.glob("[!.]*"):
        if not other.name.startswith(content):
            shutil.rmtree(other, ignore_errors=True)


def _failed(pom: Path, observed: str) -> ProcessError:
    return ProcessError(
        observed,
        expected="the jars of the project",
        where=str(pom),
        next_step="correct the project if it does not compile or a test of it fails; otherwise check that Maven "
        "reaches its repository (proxy, ~/.m2/settings.xml), then try again",
    )


def resolved_as(pom: Path, profile: str | None = None) -> str:
    """The name of the folder with the jars of this content of the pom, and of one of its profiles."""
    content = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    return content if profile is None else f"{content}-{profile}"


def _folder(pom: Path, profile: str | None = None) -> Path:
    return room() / pom.stem / resolved_as(pom, profile)


def room() -> Path:
    """Has a folder for each pom, and in it one for each content."""
    return Path(sys.prefix) / "share" / "streamwarden" / "jars"
