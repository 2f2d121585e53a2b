"""Runs one of our programs in a short-lived Spark driver on this host, which no supervisor watches."""

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from streamwarden import disk
from streamwarden.adapters.jvm.connectors import with_connector
from streamwarden.adapters.jvm.environments import environment_of, require
from streamwarden.adapters.jvm.spark_home import QUICK
from streamwarden.adapters.processes import ending_with_us
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.checkpoint.spark_support import PROGRAMS, named_in
from streamwarden.clusters import manager_of
from streamwarden.config.stored_spec import spec_to_dict
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.settings import executor_heap
from streamwarden.lifecycle.submission import DRIVER_OPTIONS, driver_properties, properties_text, secret_options
from streamwarden.services.fleet.launching import class_archive
from streamwarden.services.fleet.launching.launch import FOLDER_VARIABLE, driver_environment, working_folder
from streamwarden.stream.spark import DeployMode
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds

CHEAPLY: Final = QUICK[0]
"""A twin lives for a minute: what the JVM's best compiler would save in its batches does not pay for the compilation
(20 batches of 5,000 rows: 37 s in place of 76 s on two busy cores)."""

_LOWEST, _LOW = 19, 5
"""Priorities of a program beside a stream: one that is paused between has time; one without pauses is wanted soon, and
would hardly run with the lowest one on a busy host."""

_SLICE: Final = 0.05
"""Seconds for which a program runs before it is stopped for a while: a small part of a batch."""


_ADDRESSES: Final = frozenset(
    {
        "spark.driver.host",
        "spark.driver.bindAddress",
        "spark.driver.port",
        "spark.driver.blockManager.port",
        "spark.blockManager.port",
    }
)
"""Settings by which a cluster reaches the stream's own driver: its host may be another one, and its ports are taken."""


def on_this_host(spec: StreamSpec, master: str, memory: int) -> StreamSpec:
    """The stream in a driver of this host, without a cluster and at addresses of its own. `memory`: bytes of the
    driver's heap."""
    conf = {key: value for key, value in spec.spark.conf.items() if key not in _ADDRESSES}
    spark = replace(spec.spark, master=master, deploy_mode=DeployMode.CLIENT, driver_memory=memory, conf=conf)
    return replace(spec, spark=spark)


def here(spec: StreamSpec) -> StreamSpec:
    """The stream in a JVM of this host that compiles cheaply, unless the stream's own options say otherwise. In a
    cluster its driver and one executor have the memory that it gets here."""
    if manager_of(spec.spark.master).has_executors:
        spec = on_this_host(spec, "local[*]", spec.spark.driver_memory + executor_heap(spec.spark))
    options = " ".join(filter(None, [CHEAPLY, spec.spark.conf.get(DRIVER_OPTIONS)]))
    return replace(spec, spark=replace(spec.spark, conf={**spec.spark.conf, DRIVER_OPTIONS: options}))


def in_quick_jvm(spec: StreamSpec) -> StreamSpec:
    """The stream in a JVM that lives for seconds: with `QUICK`, and without the JVM options of its file, of which one
    may contradict them."""
    conf = {**spec.spark.conf, DRIVER_OPTIONS: " ".join(QUICK)}
    return replace(spec, spark=replace(spec.spark, conf=conf))


def program_command(name: str, spec: StreamSpec, folder: Path, java: Path) -> list[str]:
    """The spark-submit command of `spark/programs/NAME.py`, with the settings that a driver of the stream gets.

    The folder may hold secrets then, in files of their owner alone: `lifecycle.driver_folder.tidy` removes them.

    Args:
        spec: a stream on this host; see `on_this_host`.
        folder: the program's argument; gets the properties, Spark's scratch files and the warehouse.

    Raises:
        ProcessError: the jars that the stream needs are not on this host.
    """
    disk.private_folder(folder / files.TEMPORARY, below=folder)
    runs_in = environment_of(spec.spark)
    flags = class_archive.flags(runs_in, java)
    settings = named_in(driver_properties(spec, folder, python=runs_in.python, jvm_flags=flags), runs_in.minor)
    settings.setdefault("spark.sql.warehouse.dir", to_hadoop(str(folder / files.TEMPORARY / "warehouse")))
    settings, options = secret_options(settings, folder)
    if options is not None:
        files.write_text(folder / files.OPTIONS, options)
    properties = folder / files.PROPERTIES
    files.write_text(properties, properties_text(with_connector(spec, settings, runs_in.minor)))
    return [runs_in.submit, "--properties-file", str(properties), str(runs_in.programs / "run.py"), name, str(folder)]


def run_program(
    name: str,
    spec: StreamSpec,
    folder: Path,
    *,
    reads: StreamSpec,
    within: Seconds,
    share: float | None = None,
) -> int:
    """Run `spark/programs/NAME.py` like a driver of the stream, without a store, and return its status. Its output
    goes to `NAME.log` in the folder, and its secrets are removed when it has ended.

    Args:
        spec: see `program_command`; folder: a private folder that exists.
        reads: the stream whose places the program reads, with the connections that it needs for them.
        share: above 0; see `wait_gently`; None: like any process.
        within: seconds after which the program is killed, with its group; then subprocess.TimeoutExpired is raised.

    Raises:
        ProcessError: there is no usable Java, or the jars that the stream needs are not on this host.
        ConfigError: a connection, or a variable of `spark.env`, is missing, or the stream's Spark lacks what the
            program needs.
    """
    require(spec, PROGRAMS.get(name))
    data = working_folder(spec, folder)
    environment = driver_environment(reads, data, "", None, own_spark=True)
    environment[FOLDER_VARIABLE] = str(folder)
    del environment["STREAMWARDEN_STORE_URL"]
    files.write_spec(folder, spec_to_dict(spec))
    try:
        command = program_command(name, spec, folder, Path(environment["JAVA_HOME"]))
        with open(folder / f"{name}.log", "wb", opener=disk.private_file) as output:
            process = subprocess.Popen(
                [*ending_with_us(), *command],
                env=environment,
                cwd=data,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                return process.wait(timeout=within) if share is None else wait_gently(process, share, within)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)  # no one has waited for it, so the number is still its own
                process.wait()
                raise
    finally:
        files.tidy(folder)


def wait_gently(process: subprocess.Popen[bytes], share: float, within: Seconds) -> int:
    """Wait for a process that leads a session, as `Popen.wait` does; meanwhile it has a low priority, and it and its
    group are stopped for 1 - `share` of the time.

    A priority alone does not keep it from slowing others: the cores of a host share its memory and its caches.
    """
    _yield_processor(process.pid, _LOWEST if share < 1 else _LOW)
    deadline = time.monotonic() + within
    while True:
        began = time.monotonic()
        try:
            return process.wait(timeout=_SLICE)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                raise
        if share < 1:
            ran = time.monotonic() - began  # on a busy host more than a slice
            pause(process, ran / share - ran)


def pause(process: subprocess.Popen[bytes], seconds: Seconds) -> None:
    """Stop a process that leads a session, with its group, for a while. It must not have been waited for, so that its
    number is still its own."""
    os.killpg(process.pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGCONT)


def _yield_processor(pid: int, priority: int) -> None:
    """Give a session leader and the processes it starts this priority.

    Linux shares the processor between sessions first (`sched_autogroup`), where the process's own priority does not
    count: so the session gets it, too.
    """
    os.setpriority(os.PRIO_PROCESS, pid, priority)
    with contextlib.suppress(OSError):  # the kernel has no such groups
        Path(f"/proc/{pid}/autogroup").write_text(str(priority), encoding="ascii")
