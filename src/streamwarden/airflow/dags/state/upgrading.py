"""`upgrade_stream`: tries a new version of a stream's job on forks, and switches the stream to it.

The stream's own DAG launches its drivers, with the settings that Airflow has for them. So the new version is started
as a person does it in Airflow: the stream is wanted running, and its DAG launches a driver.
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Param

from streamwarden.airflow.dags.controls import REASON
from streamwarden.airflow.dags.state.forms import text
from streamwarden.airflow.dags.state.operations import Asked, Checked, Done, Operation
from streamwarden.errors import CheckpointError, ConfigError, ProcessError
from streamwarden.lifecycle.upgrades.journal import Step
from streamwarden.lifecycle.upgrades.preflight import obstacles
from streamwarden.lifecycle.upgrades.report import report
from streamwarden.services.upgrades.live import LiveStream
from streamwarden.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamwarden.lifecycle.upgrades.journal import Upgrade as Journal
    from streamwarden.lifecycle.upgrades.preflight import Obstacle
    from streamwarden.services.upgrades.proposal import Proposal
    from streamwarden.services.upgrades.upgrading import Order
    from streamwarden.stream.spec import StreamSpec

_DOC: Final = """\
Upgrades a stream to a new version of its job, with a way back.

The task `preflight` tries the new version on forks, from the stream's own state: its report is in its log and in the
note of the run. A difference is refused unless the form accepts it. After a person's approval the stream is stopped at
a batch boundary, a savepoint is taken, the stream's file names the new job, and the stream is started and watched. If
its driver fails or a check turns CRITICAL, the savepoint is restored and the old version goes on: then the run is red.
An upgrade that was interrupted is completed by another run without a job. On a shell: `streamwarden upgrade`.
"""

_LAUNCHED_WITHIN: Final = 600.0
"""Seconds in which the stream's DAG has to launch a driver: its run ends, and the scheduler begins the next one."""


@dataclass(kw_only=True)
class _SupervisedStream(LiveStream):
    """The stream, whose drivers its DAG launches.

    Args:
        supervise: makes sure that its DAG is not paused.
    """

    supervise: Callable[[], None]
    sleep: Callable[[float], None] = time.sleep

    def start(self, reason: str) -> None:
        """Let its DAG launch a driver, and wait for that. Raises ProcessError if it launches none."""
        stream, began = self.declared().name, time.time()
        self.fleet.set_running(stream, self.by, reason)
        self.supervise()
        while time.time() < began + _LAUNCHED_WITHIN:
            latest = self.store.drivers.latest(stream)
            if latest is not None and (latest.launched_at >= began or self.fleet.observe(latest.driver_id).alive):
                return  # one that lives was launched before this task was killed
            self.sleep(1.0)
        raise ProcessError(
            f"the DAG of {stream} has launched no driver within {_LAUNCHED_WITHIN:.0f} s",
            expected="a run of that DAG that launches one",
            where=f"stream_{stream}",
            next_step="read the log of that DAG's newest run",
        )


class Upgrade(Operation):
    """Switches a stream to a new version of its job."""

    dag_id, doc, name, check_name, stops_first = "upgrade_stream", _DOC, "upgrade", "preflight", False

    def fields(self) -> dict[str, Param]:
        return {
            "job": text(
                "Job",
                "The new version: a file of the project, as spark_jobs/departures_v2.py; empty: complete the upgrade "
                "that was interrupted",
            ),
            "reason": REASON,
            "batches": Param(
                5,
                type="integer",
                minimum=1,
                maximum=1000,
                title="Batches",
                description="How many of the newest batches both versions execute on forks",
            ),
            "accept": Param(
                False,
                type="boolean",
                title="Accept a difference",
                description="Go on although the output, or what the preflight names, differs (--accept-difference)",
            ),
            "beside": text(
                "Beside",
                "How long the new version runs beside the old one before the switch, as 1 hour (--beside); empty: not "
                "at all",
            ),
            "watch": Param(
                "5 minutes",
                type="string",
                maxLength=50,
                title="Watch",
                description="How long the new version is watched before it counts as well",
            ),
            "rollback": Param(
                True,
                type="boolean",
                title="Go back by itself",
                description="If the new version fails; otherwise it is left as it is (--no-rollback)",
            ),
        }

    def check(self, asked: Asked) -> Checked:
        """The preflight; or the upgrade that was interrupted, if the form names no job."""
        from streamwarden.services.upgrades.upgrading import interrupted

        if asked.params["job"]:
            return self._tried(asked)
        folder, begun = interrupted(_spec(asked))
        return Checked(
            subject=f"Complete the upgrade of the stream {asked.spec.name} to {begun.after}?",
            said={"Interrupted": f"the upgrade {begun.id} from {begun.before}, asked by {begun.by} ({begun.step})"},
            details={"folder": str(folder), "digest": ""},
        )

    def _tried(self, asked: Asked) -> Checked:
        from streamwarden.services.upgrades.upgrading import require_possible, tried

        order, spec = _order(asked), _spec(asked)
        require_possible(_live(asked), spec, rollback=order.rollback)
        proposal = _proposal(asked)
        digest = _digest(proposal)
        found, folder = tried(proposal, order.batches)
        lines = [line.text for line in report(found)]
        asked.tell("\n".join([*lines, f"  logs, and the rows that differ: {folder}"]))
        asked.note("\n".join(lines))
        if standing := obstacles(found, order.accepted):
            raise _refused(spec, folder, standing)
        beside = f"the new version runs beside it for {asked.params['beside']}; then " if order.beside else ""
        way_back = "the savepoint is restored, and the old version goes on" if order.rollback else "a person decides"
        return Checked(
            subject=f"Upgrade the stream {spec.name} to {asked.params['job']}?",
            said={
                "Preflight": "; ".join(line.strip() for line in lines),
                "Rows that differ, and logs": f"{folder} on the host of the worker",
                "The stream": f"{beside}it is stopped at a batch boundary, a savepoint is taken, and it is started "
                f"with the new version and watched for {asked.params['watch']}",
                "If the new version fails": way_back,
            },
            details={
                "folder": str(folder),
                "digest": digest,
                "left_out": () if found.output is None else found.output.left_out,
            },
        )

    def carry_out(self, asked: Asked, details: Mapping[str, Any]) -> Done:
        from streamwarden.services.upgrades.upgrading import continued

        store, live, folder = asked.space.store, _live(asked), Path(details["folder"])
        ended = continued(store, live, _spec(asked), folder)
        return _done(ended if ended is not None else _begun(asked, live, folder, details))

    def was_done(self, asked: Asked, since: float) -> bool:
        """The journal says so, and how it ended: `carry_out` reads it."""
        return False


def _begun(asked: Asked, live: LiveStream, folder: Path, details: Mapping[str, Any]) -> "Journal":
    """The upgrade as it was tried. Raises ConfigError if the new version is another one by now, CheckpointError if it
    wrote other rows beside the old one."""
    from streamwarden.services.upgrades.upgrading import approved

    proposal = _proposal(asked)
    if _digest(proposal) != details["digest"]:
        raise ConfigError(
            f"the job or the file of {asked.spec.name} was changed after it was tried",
            expected="the version that was approved",
            where=proposal.after.job,
            next_step="run the DAG again: it tries the new version as it is now",
        )
    ended = approved(asked.space.store, live, proposal, _order(asked), folder, tuple(details["left_out"]))
    if isinstance(ended, tuple):
        raise _refused(asked.spec, folder, ended)
    return ended


def _refused(spec: "StreamSpec", folder: Path, standing: "Sequence[Obstacle]") -> CheckpointError:
    return CheckpointError(
        f"{spec.name} is not upgraded, and nothing was changed: {'; '.join(found.observed for found in standing)}",
        expected="a version that goes on from the stream's state, with the same output",
        where=str(folder),
        next_step="; ".join(dict.fromkeys(found.next_step for found in standing)),
    )


def _done(ended: "Journal") -> Done:
    if ended.step is Step.DONE:
        way_back = f"the way back: savepoint {ended.savepoint}, batch {ended.batch}"
        return Done(sentence=f"{ended.stream} runs {Path(ended.after).name}: {ended.why}", more=way_back)
    before = Path(ended.before).name
    return Done(sentence=f"not upgraded: {ended.stream} runs {before} again: {ended.why}", well=False)


def _proposal(asked: Asked) -> "Proposal":
    from streamwarden.services.upgrades.proposal import propose

    spec = _spec(asked)
    return propose(spec, Path(spec.project) / asked.params["job"], None, asked.space.thresholds())


def _spec(asked: Asked) -> "StreamSpec":
    """The stream as its file declares it. Raises ConfigError for one query of several."""
    return asked.space.stream(asked.params["stream"])


def _digest(proposal: "Proposal") -> str:
    """Of all that was tried: both texts of the stream's file, and the new job."""
    parts = (proposal.old_text.encode(), proposal.new_text.encode(), Path(proposal.after.job).read_bytes())
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def _order(asked: Asked) -> "Order":
    """Raises ConfigError for a time that is none."""
    from streamwarden.services.upgrades.upgrading import Order

    params = asked.params
    try:
        watch, beside = (parse_duration(params[name]) if params[name] else None for name in ("watch", "beside"))
    except ValueError as error:
        raise ConfigError(str(error), where="Watch, Beside", next_step="run the DAG again with a time") from None
    return Order(
        by=asked.by,
        reason=params["reason"],
        batches=params["batches"],
        accepted=params["accept"],
        watch=watch or 0.0,
        beside=beside,
        rollback=params["rollback"],
    )


def _live(asked: Asked) -> _SupervisedStream:
    space = asked.space
    return _SupervisedStream(
        store=space.store,
        fleet=space.fleet,
        monitor=space.health_monitor(),
        declared=partial(space.stream, asked.spec.name),
        by=asked.by,
        say=asked.tell,
        supervise=asked.supervise,
    )
