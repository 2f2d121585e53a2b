"""Restart loop: the stream's drivers keep failing."""

from streamwarden.health.check import DRIVERS, Check, Threshold, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import NOT_RUNNING
from streamwarden.health.signals.stopped import is_stopped
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.units import format_duration


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How many drivers failed or were killed recently."""
    limits_in_force = thresholds.of(CHECK.name)
    if not window.drivers:
        return CHECK.verdict(window, Status.UNKNOWN, "no driver of this stream is known")
    since = window.now - limits_in_force["per"]
    ends = [driver for driver in window.drivers if _died(driver, window) >= since]
    last = window.drivers[-1]
    value = float(len(ends))
    status = CHECK.grade(value, limits_in_force)
    reason = (
        f"{len(ends)} drivers failed or were killed within {format_duration(limits_in_force['per'])} "
        f"({CHECK.limits_text(limits_in_force)})"
    )
    if last.exit is not None and last.exit.is_failure and not last.exit.curable and not is_stopped(window):
        status = Status.CRITICAL
        reason = f"a restart cannot cure the cause of the driver's end: {_said(last)}"
    elif ends:
        reason += f"; the last: {_said(ends[-1])}"
    evidence: dict[str, object] = {
        "died": [
            {"driver": failed.driver_id, "at": _died(failed, window), "why": _said(failed)} for failed in ends[-5:]
        ],
    }
    return CHECK.verdict(window, status, reason, value, evidence)


def _died(driver: DriverRecord, window: Window) -> float:
    """When the driver failed or was killed, Unix seconds; -1 if it did not. A vanished one counts from its launch."""
    if driver.exit is not None:
        return driver.exit.ended_at if driver.exit.is_failure else -1.0
    replaced = driver is not window.drivers[-1]
    return driver.launched_at if replaced or window.driver_alive is False else -1.0


def _said(driver: DriverRecord) -> str:
    end = driver.exit
    if end is None:
        return "vanished without a recorded exit"
    name = end.error_class or (f"signal {end.signal}" if end.signal else f"exit code {end.exit_code}")
    message, _, _ = end.message.partition("\n")  # the rest is Spark's plan
    text = f"{end.kind} ({name}) {message}".strip()
    return text if not end.next_step else f"{text}; next: {end.next_step}"


CHECK = Check(
    name="restart_loop",
    title="Restart loop",
    unit=ValueUnit.TIMES,
    target="fewer than 2 failures an hour",
    thresholds=(
        *limits(2, 4, ValueUnit.TIMES, "drivers that failed or were killed within `per`"),
        Threshold("per", 3600.0, ValueUnit.SECONDS, "time span in which they are counted"),
    ),
    judge=check,
    consequence_of=NOT_RUNNING,
    judges=DRIVERS,
    reads=(
        "The store's drivers that were launched or ended within the last day: those whose exit is `failed` or "
        "`killed`, or that vanished, within `per`. Stops on request do not count, even if they had to be forced, and "
        "neither do completed runs and fenced drivers. "
        "A cause that a restart cannot cure (schema changed, checkpoint damaged, configuration wrong) is CRITICAL by "
        "itself, unless people want the stream stopped."
    ),
    unknown="No driver of the stream is known.",
    advice=(
        "Read why the drivers ended (`streamwarden status`, driver.log). A loop also makes each recovery longer, "
        "because state snapshots are not uploaded: see `replay_debt`."
    ),
    source="The fifth failure in an hour exhausts the default restart budget (5 an hour).",
)
