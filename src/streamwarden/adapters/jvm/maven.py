"""Jars that a pom.xml pins, copied by Maven into a folder of this environment: once for each content of the pom, and
for each of its profiles that is asked for."""

import hashlib
import os
import shutil
import subprocess
import sys
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
    maven = shutil.which("mvn")
    if maven is None:
        raise ProcessError(
            "Maven (mvn) is not installed",
            expected="mvn on the PATH",
            where=str(pom),
            next_step="install it (Debian: `apt-get install maven`) and try again; or name the jars yourself: "
            "`spark.jars` or `spark.jars.packages` in the stream's spark.conf",
        )
    part = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    command = [maven, "--batch-mode", "--quiet", "--file", str(pom), _COPY, "-DincludeScope=runtime"]
    command += [] if profile is None else [f"-P{profile}"]
    try:
        done = subprocess.run(
            [*command, f"-DoutputDirectory={part}"],
            capture_output=True,
            text=True,
            timeout=RESOLVING_TIMEOUT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode != 0:
            raise _failed(pom, f"Maven ended with {done.returncode}: {done.stdout[-2000:].strip()}")
        _publish(part, folder, resolved_as(pom))
    except subprocess.TimeoutExpired as error:
        raise _failed(pom, f"Maven ran for {RESOLVING_TIMEOUT:.0f} s") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return jars(pom, profile)


def _publish(part: Path, folder: Path, content: str) -> None:
    """Give the resolved jars their name, unless another process was first, whose jars may be in use by now; and remove
    those of another content of the pom than `content`."""
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
        expected="the jars that the pom pins",
        where=str(pom),
        next_step="check that Maven reaches its repository (proxy, ~/.m2/settings.xml), then try again",
    )


def resolved_as(pom: Path, profile: str | None = None) -> str:
    """The name of the folder with the jars of this content of the pom, and of one of its profiles."""
    content = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    return content if profile is None else f"{content}-{profile}"


def _folder(pom: Path, profile: str | None = None) -> Path:
    return Path(sys.prefix) / "share" / "streamwarden" / "jars" / pom.stem / resolved_as(pom, profile)
