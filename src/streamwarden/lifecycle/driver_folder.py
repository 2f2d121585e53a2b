"""The driver folder: which files a driver's life leaves, and how they are written.

    spec.json          the resolved spec that the driver runs, with its secrets redacted
    secrets.json       the same spec with its secrets, if it has any; removed after the end
    code.json          digests of the job's files, and the versions of the packages
    spark.properties   Spark's settings (a file, so that no setting shows in a process list); redacted after the end
    pod.json           on Kubernetes in cluster mode: what Spark makes the driver's pod of
    jvm.options        the JVM's options, if one of them holds a secret; removed after the end
    driver.log         stdout and stderr of spark-submit
    keeper.json        identity of the supervisor process
    lease.json         the lease that the launcher took for the driver
    process.json       identity of the JVM, written by the supervisor process
    outcome.json       why the driver ended, written by the runner
    exit.json          how the process ended, written by the supervisor process
    unresponsive.json  the runner's report that the JVM is unresponsive: the supervisor process kills the driver
    stop.json          the stop request, mirrored to the driver's host
    queries.json       the queries that the driver has started
    handovers.json     when functions of foreachBatch got the newest batches, and when they had written them
    launch.json        of a stream with a standby: what its driver was launched with, for its standby to be alike
    standby.json       the folder is a standby's: what it was prepared for. A launch that takes it renames the file to
                       promoted.json, and who ends it renames it to dismissed.json: only one of them can
    ready              the standby waits; its modification time is that of the JVM's last answer
    wanted             asks the supervisor process to prepare a standby of this driver
    go                 a pipe: a byte in it ends the standby's wait
    pool.json          of a driver that keeps a pool of standbys: how many of them there are to be, and its
                       command
    pool_wanted        asks the supervisor process to fill up the pool
    users/             of a standby of a pool, whose folder is below `.pool`: a file for each stream that may use it
    driver.json        of a standby of a pool that was promoted: the folder of the driver that it became
    group.json         of a stream of a group: the JVM that the driver was let into, written by the group's host
    left               the group's host has seen that no query of the driver runs in that JVM any more
    hold               while it is there, a function of foreachBatch that has ended does not return: see `handovers`
    events.jsonl       what happened to the driver
    spill.jsonl        progress that the store did not take
    unreadable.jsonl   progress that could not be understood: the error, and the report as it was
    tmp/               Spark's temporary files; removed after the end

A document is replaced whole (a reader sees the old or the new one); a line of a journal is appended in one write.
"""

import contextlib
import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from streamwarden import disk
from streamwarden.lifecycle.driver import DriverEvent, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.lease import Claim, Lease
from streamwarden.lifecycle.queries import QueryRecord
from streamwarden.lifecycle.supervision.stop import StopRequest
from streamwarden.redaction import redacted, redacted_properties, remember, secrets_of
from streamwarden.stream.spec import TriggerSpec

SPEC: Final = "spec.json"
SECRETS: Final = "secrets.json"
CODE: Final = "code.json"
PROPERTIES: Final = "spark.properties"
POD: Final = "pod.json"
OPTIONS: Final = "jvm.options"
LOG: Final = "driver.log"
SUPERVISOR: Final = "keeper.json"
PROCESS: Final = "process.json"
OUTCOME: Final = "outcome.json"
EXIT: Final = "exit.json"
STOP: Final = "stop.json"
UNRESPONSIVE: Final = "unresponsive.json"
EVENTS: Final = "events.jsonl"
SPILL: Final = "spill.jsonl"
UNREADABLE: Final = "unreadable.jsonl"
QUERIES: Final = "queries.json"
HANDOVERS: Final = "handovers.json"
HOLD: Final = "hold"
LAUNCH: Final = "launch.json"
STANDBY: Final = "standby.json"
PROMOTED: Final = "promoted.json"
DISMISSED: Final = "dismissed.json"
READY: Final = "ready"
WANTED: Final = "wanted"
GO: Final = "go"
POOL: Final = "pool.json"
POOL_WANTED: Final = "pool_wanted"
USERS: Final = "users"
DRIVER: Final = "driver.json"
LEASE: Final = "lease.json"
GROUP: Final = "group.json"
LEFT: Final = "left"
TEMPORARY: Final = "tmp"

POOLED: Final = ".pool"
"""The folder, among those of the streams, with the standbys of pools. No stream has such a name."""

OUTSIDE: Final = "outside.jsonl"
"""The file, in the folder of a drill's run, with what the jobs of the fork and its twins did outside of that folder."""

QUERY_STARTED: Final = "query_started"
"""Kind of the event that names the query and the run; the file keeps it while the store is down."""

QUARANTINE_GAP: Final = "quarantine_gap"
"""Kind of the event that names batches (`first` to `last` of the query `query_id`) whose malformed rows are not kept
aside and never will be, with the reason."""


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """`write_text` of `document` as JSON."""
    write_text(path, json.dumps(document, indent=1, sort_keys=True))


def write_text(path: Path, text: str) -> None:
    """Replace `path` by `text`, readable by its owner alone, durable before it is visible."""
    disk.replace(path, text, mode=disk.PRIVATE)


def read_document(path: Path) -> dict[str, Any] | None:
    """The JSON object in `path`; None if there is no such file or it holds no JSON object."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def append_line(path: Path, document: Mapping[str, Any]) -> None:
    """Add `document` as one line of JSON, in one write, so that several processes may append."""
    disk.append_line(path, json.dumps(document, separators=(",", ":")))


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a journal; a line cut off by a kill is left out."""
    with contextlib.suppress(FileNotFoundError), path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            with contextlib.suppress(ValueError, RecursionError):
                document = json.loads(line)
                if isinstance(document, dict):
                    yield document


def write_spec(folder: Path, document: Mapping[str, Any]) -> None:
    """The spec that the driver runs. What people and other processes read of it holds no secret."""
    shown = redacted(document)
    write_document(folder / SPEC, shown)
    if shown != document:
        write_document(folder / SECRETS, document)


def read_spec(folder: Path) -> dict[str, Any] | None:
    """The spec that the driver runs, with its secrets until the driver has ended; None if there is none."""
    return read_document(folder / SECRETS) or read_document(folder / SPEC)


def tidy(folder: Path) -> None:
    """Remove what a driver needs no more after its end: its temporary files and its secrets. What a failing disk keeps
    is removed by the next process that cleans up."""
    with contextlib.suppress(OSError):
        disk.remove_folder(folder / TEMPORARY, below=folder.parent)
    forget_secrets(folder)


def forget_secrets(folder: Path) -> None:
    """Remove the secrets, which a driver reads once, at its start. This process redacts them from now on."""
    remember(*secrets_of(read_spec(folder) or {}))
    with contextlib.suppress(OSError):
        for name in (SECRETS, OPTIONS):
            (folder / name).unlink(missing_ok=True)
        settings = (folder / PROPERTIES).read_text(encoding="ascii")
        if (shown := redacted_properties(settings)) != settings:
            write_text(folder / PROPERTIES, shown)


def write_process(folder: Path, process: ProcessIdentity) -> None:
    """The JVM's identity, for the processes of this host that observe it."""
    write_document(folder / PROCESS, dataclasses.asdict(process))


def read_process(folder: Path) -> ProcessIdentity | None:
    """The JVM's identity; None before it was started."""
    document = read_document(folder / PROCESS)
    return ProcessIdentity(**document) if document else None


def write_lease(folder: Path, lease: Lease) -> None:
    """The launcher's claim, for the driver to adopt."""
    write_document(folder / LEASE, dataclasses.asdict(lease))


def read_lease(folder: Path) -> Lease | None:
    """The launcher's claim; None if there is none."""
    document = read_document(folder / LEASE)
    if not document:
        return None
    process = document["process"]
    claims = tuple(Claim(**claim) for claim in document["claims"])
    return Lease(**{**document, "claims": claims, "process": ProcessIdentity(**process) if process else None})


def write_membership(folder: Path, jvm: ProcessIdentity) -> None:
    """The JVM of a group that the driver is let into."""
    write_document(folder / GROUP, dataclasses.asdict(jvm))


def read_membership(folder: Path) -> ProcessIdentity | None:
    """The JVM of a group that the driver was let into; None: it was let into none."""
    document = read_document(folder / GROUP)
    return ProcessIdentity(**document) if document else None


def settle_standby(folder: Path, name: str) -> bool:
    """Decide what becomes of a standby that waits, `PROMOTED` or `DISMISSED`; False if that was decided already, or the
    folder is no standby's. Of several that decide at once one succeeds."""
    try:
        (folder / STANDBY).rename(folder / name)
    except OSError:
        return False
    return True


def is_pooled(folder: Path) -> bool:
    """Whether the folder is that of a standby of a pool, and not that of a stream's driver."""
    return folder.parent.name == POOLED


def driver_of(home: Path) -> Path:
    """The folder of the driver that the process of the folder `home` is: elsewhere if a launch took it from a pool."""
    document = read_document(home / DRIVER) if is_pooled(home) else None
    return home if document is None else Path(document["folder"])


def write_stop(folder: Path, request: StopRequest) -> None:
    """Mirror a stop request to the driver's host."""
    write_document(folder / STOP, dataclasses.asdict(request))


def read_stop(folder: Path) -> StopRequest | None:
    """The mirrored stop request; None if there is none."""
    document = read_document(folder / STOP)
    return StopRequest(**document) if document else None


def write_outcome(folder: Path, record: ExitRecord) -> None:
    """Why the driver ended, as the runner reports it."""
    write_document(folder / OUTCOME, redacted(dataclasses.asdict(record)))


def read_outcome(folder: Path) -> ExitRecord | None:
    """Why the driver ended, as the runner reports it; None if the runner could not write it."""
    document = read_document(folder / OUTCOME)
    return ExitRecord.from_document(document) if document else None


def write_queries(folder: Path, records: Iterable[QueryRecord]) -> None:
    """The driver's queries, for the process that records its end if the store did not get them."""
    write_document(folder / QUERIES, redacted({record.query_id: dataclasses.asdict(record) for record in records}))


def read_queries(folder: Path) -> tuple[QueryRecord, ...]:
    """The driver's queries; none if it has started none."""
    documents = (read_document(folder / QUERIES) or {}).values()
    return tuple(QueryRecord(**{**document, "trigger": TriggerSpec(**document["trigger"])}) for document in documents)


def append_event(folder: Path, event: DriverEvent) -> None:
    """Add an event to the driver's own journal."""
    append_line(folder / EVENTS, redacted(dataclasses.asdict(event)))


def read_events(folder: Path) -> tuple[DriverEvent, ...]:
    """The driver's own journal."""
    return tuple(DriverEvent(**document) for document in read_lines(folder / EVENTS))
