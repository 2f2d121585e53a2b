"""An archive of the classes that a driver loads, shared by all drivers of this host.

A driver's start is mostly the loading and checking of some ten thousand classes. The JVM can write them down once, in
a file that later JVMs map into memory (class data sharing). It is made by `streamwarden prepare`, holds for one Java
and one Spark, and is only ever a short cut: without it, or with one that is not its own, a JVM loads classes as usual.
"""

import contextlib
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from streamwarden.adapters.jvm.environments import SparkEnvironment, spark_variables
from streamwarden.adapters.jvm.spark_home import QUICK
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.checkpoint.spark_support import named_in
from streamwarden.errors import ProcessError
from streamwarden.lifecycle.submission import properties_text, spark_conf
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StateSpec, StreamSpec

MAKING_TIMEOUT: Final = 600.0
"""Seconds; it takes about one minute on two idle cores."""

_SILENT: Final = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
"""The JVM lists the thousands of classes that it leaves out, and each start that cannot use the archive: no news."""


def find(runs_in: SparkEnvironment, java_home: Path) -> Path | None:
    """The archive for this Java and the Spark of this environment, in whose folder it is.

    None if there is no whole one. Its name ends with its size: a JVM that maps a file which was cut off is ended by
    the kernel.
    """
    for archive in _folder(runs_in).glob(f"classes-{_key(runs_in, java_home)}-*.jsa"):
        if archive.stem.rpartition("-")[2] == str(archive.stat().st_size):
            return archive
    return None


def _folder(runs_in: SparkEnvironment) -> Path:
    return runs_in.prefix / "share" / "streamwarden"


def _key(runs_in: SparkEnvironment, java_home: Path) -> str:
    """Differs for each Java, each build of it, and each installed Spark.

    In whole seconds: a container's image keeps no finer times, and an archive made at its build has to be found in it.
    """
    try:
        build = (java_home / "release").read_bytes()
    except OSError:
        build = b""
    jars = runs_in.home / "jars"
    return hashlib.sha256(f"{java_home}\n{jars}\n{int(jars.stat().st_mtime)}\n".encode() + build).hexdigest()[:16]


def flags(runs_in: SparkEnvironment, java_home: Path) -> tuple[str, ...]:
    """JVM flags that let a driver use the archive; none if there is no archive."""
    archive = find(runs_in, java_home)
    return () if archive is None else (f"-XX:SharedArchiveFile={archive}", *_SILENT)


def make(runs_in: SparkEnvironment, java_home: Path) -> Path:
    """Run a small stream to its end and archive the classes it needed; returns the archive. Replaces an older one.

    Raises:
        ProcessError: the stream or the JVM failed.
    """
    kept = _folder(runs_in)
    _make_folder(kept)
    with tempfile.TemporaryDirectory(prefix="streamwarden-prepare-") as scratch:
        folder = Path(scratch)
        part = kept / f".{_key(runs_in, java_home)}.{os.getpid()}.jsa"
        try:
            done = subprocess.run(
                _command(runs_in, folder, part),
                env=spark_variables(runs_in, java_home),
                cwd=scratch,
                capture_output=True,
                text=True,
                timeout=MAKING_TIMEOUT,
                check=False,
            )
            if done.returncode != 0 or not part.exists():
                raise ProcessError(
                    f"the stream that shows which classes a driver needs ended with {done.returncode}: "
                    + done.stderr[-2000:].strip(),
                    expected="status 0 and an archive",
                    where=str(kept),
                    next_step="drivers run without the archive too, slower to start; correct the cause and run "
                    "`streamwarden prepare` again",
                )
            archive = kept / f"classes-{_key(runs_in, java_home)}-{part.stat().st_size}.jsa"
            part.replace(archive)
        except subprocess.TimeoutExpired as error:
            raise ProcessError(
                f"the stream that shows which classes a driver needs ran for {MAKING_TIMEOUT:.0f} s",
                where=str(kept),
                next_step="run `streamwarden prepare` again when the machine is less busy",
            ) from error
        finally:
            with contextlib.suppress(FileNotFoundError):
                part.unlink()
    _remove_older(archive)
    return archive


def write_rehearsal(folder: Path, batches: Iterable[int]) -> None:
    """Write the input of `spark.standby.rehearsal`, the batches of these numbers, into `folder/input`."""
    (folder / "input").mkdir(parents=True, exist_ok=True)
    for minute in batches:
        rows = [json.dumps({"key": key % 3, "at": f"2026-01-01T00:{minute:02d}:{key:02d}Z"}) for key in range(9)]
        (folder / "input" / f"{minute}.json").write_text("\n".join(rows) + "\n")


def _command(runs_in: SparkEnvironment, folder: Path, archive: Path) -> list[str]:
    write_rehearsal(folder, range(3))
    spec = StreamSpec(
        name="training",
        job=str(runs_in.programs / "class_training.py"),
        checkpoint=str(folder / "checkpoint"),
        source=FilesSource(path=str(folder / "input"), max_files_per_trigger=1),
        sink=ParquetSink(path=str(folder / "output")),
        state=StateSpec(shuffle_partitions=1),
        spark=SparkSpec(master="local[2]", driver_memory=700 * 2**20),
    )
    flags = " ".join([f"-XX:ArchiveClassesAtExit={archive}", *_SILENT, *QUICK, f"-Djava.io.tmpdir={folder}"])
    conf = named_in(spark_conf(spec), runs_in.minor) | {
        "spark.driver.extraJavaOptions": flags,
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": to_hadoop(str(folder / "warehouse")),
    }
    properties = folder / "spark.properties"
    properties.write_text(properties_text(conf))
    program = str(runs_in.programs / "run.py")
    return [runs_in.submit, "--properties-file", str(properties), program, "class_training", str(folder)]


def _make_folder(folder: Path) -> None:
    """Raises ProcessError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProcessError(
            f"the folder of the archive cannot be made: {error}",
            expected="an environment in which this user may write",
            where=str(folder),
            next_step="run this command as the user who installed the environment; drivers run without the archive too",
        ) from error


def _remove_older(archive: Path) -> None:
    """An archive of some 180 MB for each Java or Spark that ever was would fill the disk."""
    for other in archive.parent.glob("classes-*.jsa"):
        if other != archive:
            with contextlib.suppress(FileNotFoundError):
                other.unlink()
