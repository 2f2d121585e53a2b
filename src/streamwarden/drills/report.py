"""A finished drill for people (Markdown) and for strangers (the journal document). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from streamwarden.drills.journal import DrillRun, DrillStatus, JournalEntry
from streamwarden.drills.outcome import describe_not_judged, told_delivery

JOURNAL_FORMAT = 1


def verdict_word(run: DrillRun) -> str:
    """`PASSED`, `DEVIATED`, `ABORTED`, `FAILED` or `RUNNING`: both axes in the one word that a table has room for."""
    if run.status is DrillStatus.COMPLETED:
        return "PASSED" if run.passed else "DEVIATED"
    return run.status.value.upper()


def document(run: DrillRun, entries: Sequence[JournalEntry]) -> dict[str, Any]:
    """The journal as JSON: the drill, the fork, the proof, the batches, the reconciliation, every entry."""
    return {
        "format": JOURNAL_FORMAT,
        "run_id": run.run_id,
        "drill": run.drill,
        "stream": run.stream,
        "verdict": verdict_word(run),
        "status": run.status.value,
        "deviated": run.deviated,
        "reason": run.reason,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "facts": dict(run.facts),
        "entries": [{**asdict(entry), "step": entry.step.value} for entry in entries],
    }


def summary(run: DrillRun, entries: Sequence[JournalEntry]) -> str:
    """The run in Markdown, at most a screen, worst news first."""
    facts = run.facts
    took = f", took {run.ended_at - run.started_at:.0f} s" if run.ended_at else ""
    lines = [
        f"# Drill {run.drill} on {run.stream}: {verdict_word(run)}",
        "",
        run.reason or "The drill is still running.",
        "",
        "| what | result |",
        "|---|---|",
        f"| run | `{run.run_id}` |",
        f"| started | {_time(run.started_at)}{took} |",
        f"| completed | {run.status.value} |",
        f"| deviated | {_deviated(run.deviated)} |",
        *_fork(facts),
        f"| steady state before | {_held(facts.get('steady_before'))} |",
        f"| fault | {_fault(facts)} |",
        *_told(facts),
        *_recovery(facts),
        f"| steady state after | {_held(facts.get('steady_after'))} |",
        *_output(facts),
        f"| healing | {_cell(facts.get('heal', {}).get('message', 'not done'))} |",
    ]
    if "journal" in facts:
        lines.append(f"| journal | `{facts['journal']}` |")
    lines += ["", "## What happened", ""]
    lines += [
        f"- {_clock(entry.at)} {entry.step.value}: {_one_line(entry.message)}"
        for entry in entries
        if entry.kind != "traceback"
    ]
    return "\n".join(lines) + "\n"


def _fork(facts: Mapping[str, Any]) -> list[str]:
    fork = facts.get("fork")
    if not fork:
        return ["| fork | none was made |"]
    start = "with an empty checkpoint" if fork["batch"] is None else f"after batch {fork['batch']}"
    return [f"| fork | {fork['stream']}, starts {start}, {fork['unseen']} input {fork['what']}s to read |"]


def _fault(facts: Mapping[str, Any]) -> str:
    proof = facts.get("fault")
    if proof:
        return _cell(f"{proof['kind']}, landed at attempt {proof['attempts']}: {proof['message']}")
    misses = facts.get("misses", [])
    return _cell(f"missed: {'; '.join(misses)}") if misses else "did not land"


def _told(facts: Mapping[str, Any]) -> list[str]:
    told = facts.get("told")
    return [] if told is None else [f"| told | {_cell(('yes: ' if told['holds'] else 'no: ') + told['message'])} |"]


def _recovery(facts: Mapping[str, Any]) -> list[str]:
    lines = []
    recovery = facts.get("recovery")
    if recovery is None:
        lines.append("| recovery | not observed |")
    elif recovery["first_commit_at"] is None:
        lines.append(f"| recovery | never came back: {_cell(recovery['message'])} |")
    else:
        target = facts["drill"]["recovery"]["target"]
        lines.append(
            f"| recovery measured | batch {recovery['first_new_batch']} committed {recovery['recovery_seconds']:.1f} s"
            f" after {'the way out was taken' if 'told' in facts else 'the fault'} (target {target:.1f} s), "
            + (
                f"{recovery['restart_seconds']:.1f} s after the launch |"
                if recovery.get("restarted", True)
                else "by the driver that was struck |"
            )
        )
    for prediction in facts.get("predicted", []):
        seconds = prediction["seconds"]
        value = f"{seconds:.1f} s" if seconds is not None else f"not known ({'; '.join(prediction['missing'])})"
        terms = " + ".join(f"{term['name']} {term['seconds']:.1f} s" for term in prediction["terms"])
        lines.append(f"| recovery predicted | {value}: {prediction['formula']}{f' ({terms})' if terms else ''} |")
    return lines


def _output(facts: Mapping[str, Any]) -> list[str]:
    counts, judgement = facts.get("reconciliation"), facts.get("judgement")
    if counts is None:
        return ["| output | not verified |"]
    lines = [
        f"| output | {counts['lost']} lost, {counts['duplicated']} duplicated, {counts['unexpected']} unexpected,"
        f" {counts['wrong']} wrong: {counts['actual']} rows, {counts['expected']} expected |",
        f"| input records verified | {counts['records']} |",
    ]
    if (delivery := told_delivery(counts)) is not None:
        lines.append(f"| delivery | {delivery} |")
    if (not_judged := describe_not_judged(counts)) is not None:
        lines.append(f"| columns | {_cell(not_judged)} |")
    lines += [f"| problem | {_cell(problem)} |" for problem in counts.get("problems", ())[:3]]
    if judgement is not None:
        verdict = "accepts the output" if judgement["success"] else "rejects the output"
        lines.append(f"| judge | {_cell(judgement['judge'])} {verdict} |")
    for kind, rows in counts["samples"].items():
        lines += [f"| {kind}, for example | `{_cell(row)}` |" for row in rows[:3]]
    return lines


def _held(held: Mapping[str, Any] | None) -> str:
    if held is None:
        return "not observed"
    return _cell(f"{'holds' if held['holds'] else 'does not hold'}: {held['message']}")


def _deviated(deviated: bool | None) -> str:
    return "not known: the drill says nothing about the stream" if deviated is None else ("yes" if deviated else "no")


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S.%f")[:-3]


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


def _cell(text: object) -> str:
    return _one_line(text).replace("|", "\\|")
