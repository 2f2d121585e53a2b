"""Driver down: the stream should be running, its driver has ended, and nothing has restarted it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streamwarden.health.check import DRIVERS, Check, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import AIRFLOW, DRIVER_DOWN, FAILING, SUPERVISION
from streamwarden.health.signals.stopped import ended_well, is_down, is_stopped
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.supervision.restart import Restart, decide, describe
from streamwarden.lifecycle.supervision.restarter import Restarter
from streamwarden.units import format_duration


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How long the restart of the driver has been overdue."""
    if is_stopped(window):
        return CHECK.verdict(window, Status.OK, "not running, as requested", 0.0)
    if not window.drivers:
        return CHECK.verdict(window, Status.UNKNOWN, "the stream has never run")
    driver = window.drivers[-1]
    if not is_down(window):
        if window.driver_alive is None:
            reason = "its driver is on another host, and it is unknown whether it is alive"
            return CHECK.verdict(window, Status.UNKNOWN, reason)
        return CHECK.verdict(window, Status.OK, "its driver is alive", 0.0)
    if ended_well(driver):
        return CHECK.verdict(window, Status.OK, "its driver ended without a failure", 0.0)
    return _down(window, driver, thresholds.of(CHECK.name))


def _down(window: Window, driver: DriverRecord, limits_in_force: Mapping[str, float]) -> Verdict:
    gone_since = driver.exit.ended_at if driver.exit is not None else _first_seen(window, driver)
    due_at = gone_since + _delay(window, driver, gone_since)
    overdue = round(max(0.0, window.now - due_at), 6)
    why = _why_down(window, driver)
    how = describe(driver.exit) if driver.exit is not None else "vanished without a recorded exit"
    ago = format_duration(max(0.0, window.now - gone_since))
    status = Status.CRITICAL if why.certain else CHECK.grade(overdue, limits_in_force)
    if status is Status.OK:
        status = Status.UNKNOWN  # neither running nor overdue
        wait = f"since {format_duration(overdue)}" if overdue else f"in {format_duration(due_at - window.now)}"
        reason = f"the driver ended {ago} ago: {how}; its restart is due {wait} ({CHECK.limits_text(limits_in_force)})"
    else:
        reason = f"the driver ended {ago} ago: {how}; {why.words}"
    evidence: dict[str, object] = {
        "driver": driver.driver_id,
        "gone_since": gone_since,
        "due_at": due_at,
        "restarter": window.restarter.value,
        "launched_by": driver.launched_by,
    }
    return CHECK.verdict(window, status, reason, overdue, evidence, why.advice)


@dataclass(frozen=True, slots=True)
class _Cause:
    """Why no driver runs, and what to do; `certain`: nothing will restart it, however long one waits."""

    words: str
    advice: str
    certain: bool = False


def _why_down(window: Window, driver: DriverRecord) -> _Cause:
    name = window.spec.name
    if driver.exit is not None and not driver.exit.curable:
        advice = f"{driver.exit.next_step or 'Fix the cause'}. Then run `streamwarden start {name}`."
        return _Cause("a restart cannot cure this", advice, certain=True)
    words, advice, certain = _CAUSES[window.restarter]
    budget = f"{window.spec.restart.budget.count} failures in {format_duration(window.spec.restart.budget.per)}"
    return _Cause(words.format(name=name, by=driver.launched_by, budget=budget), advice.format(name=name), certain)


_CAUSES: Final[Mapping[Restarter, tuple[str, str, bool]]] = {
    Restarter.GAVE_UP: (
        "its supervisor gave up after more than {budget}",
        "Read the driver's log and fix the cause. Then run `streamwarden start {name}`, which also unpauses the DAG "
        "stream_{name}.",
        True,
    ),
    Restarter.PAUSED_DAG: (
        "nothing restarts it, because the DAG stream_{name} is paused",
        "Unpause the DAG stream_{name}: it starts the driver at once. Or run `streamwarden start {name}`.",
        True,
    ),
    Restarter.NOTHING: (
        "nothing restarts it: {by} started it, and no supervisor followed it",
        "Run `streamwarden start {name}`. With `--supervise`, or with the DAG stream_{name} unpaused, the stream is "
        "restarted after a failure.",
        True,
    ),
    Restarter.DAG: (
        "its restart is overdue, although the DAG stream_{name} is not paused",
        "Look at the newest run of the DAG stream_{name}, and check that Airflow's scheduler and triggerer run. "
        "`streamwarden start {name}` starts the stream without them.",
        False,
    ),
    Restarter.SHELL: (
        "its restart is overdue: the `streamwarden start --supervise` that followed it has probably ended",
        "Run `streamwarden start {name} --supervise` again, or unpause the DAG stream_{name}.",
        False,
    ),
    Restarter.UNKNOWN: (
        "its restart is overdue: the DAG stream_{name}, which followed it, has not restarted it",
        "Check that the DAG stream_{name} is not paused, and that Airflow's scheduler and triggerer run. `streamwarden "
        "start {name}` starts the stream without them.",
        False,
    ),
}


def _first_seen(window: Window, driver: DriverRecord) -> float:
    """The first evaluation that found the driver gone, Unix seconds: one that vanished has no recorded end."""
    before = window.previous.get(CHECK.name)
    if before is None or before.evidence.get("driver") != driver.driver_id:
        return window.now
    return float(before.evidence.get("gone_since", window.now))  # type: ignore[arg-type]


def _delay(window: Window, driver: DriverRecord, ended_at: float) -> float:
    """Seconds after its end until a supervisor restarts it; the longest back-off if the budget may be used up."""
    if driver.exit is None:
        return 0.0
    decision = decide(window.drivers, window.spec.restart, ended_at)
    return decision.after if isinstance(decision, Restart) else window.spec.restart.cap


CHECK = Check(
    name=DRIVER_DOWN,
    title="Driver down",
    unit=ValueUnit.SECONDS,
    target="a driver runs while the stream should be running",
    thresholds=limits(60.0, 180.0, ValueUnit.SECONDS, "time for which a restart has been overdue"),
    judge=check,
    judges=DRIVERS,
    consequence_of=(*FAILING, SUPERVISION, AIRFLOW),
    reads=(
        "The store's record of the newest driver, whether its process is alive, the desired state of the stream, and "
        "what restarts the driver: the stream's DAG, `streamwarden start --supervise`, or nothing. A restart is due "
        "after the back-off of the stream's `restart` policy, counted from the driver's end. The value is the time "
        "since then. It is CRITICAL at once if nothing will restart the driver: its supervisor gave up, the "
        "stream's DAG is paused, the driver was started by hand and no supervisor followed it, or a restart cannot "
        "cure the cause of its end. The health DAG knows whether a DAG is paused. In a shell this is not known. A "
        "stream that was stopped on request, or should be stopped, is OK, and so is one whose query ended by itself."
    ),
    unknown=(
        "The stream never ran, its restart is not yet overdue, or it is unknown whether a driver on another host is "
        "alive."
    ),
    advice=(
        "Read why the driver ended (`streamwarden status NAME`, `streamwarden logs NAME`). Then let the supervisor run "
        "again, or run `streamwarden start NAME`."
    ),
    source="Design of Streamwarden: a supervisor notices the end of a driver within seconds.",
    essential=True,
)
