"""Text of the request for approval of a drill on a live stream. Pure."""

from streamwarden.drills.spec import DrillSpec
from streamwarden.drills.state import RunState


def subject(drill: DrillSpec) -> str:
    """One line."""
    return f"Hit the live stream {drill.stream} with {drill.breaks}?"


def body(state: RunState) -> str:
    """Markdown: what will happen, what is known of it, and until when an answer counts."""
    drill = state.drill
    (given,) = drill.sequence
    fault = given.chosen
    last_on_fork = state.preflight.last_on_fork if state.preflight is not None else "unknown"
    lines = [
        f"The drill **{drill.name}** hits the live stream **{drill.stream}** itself, not a copy of it.",
        f"- **Fault**: {given.kind}{given.detail}. {fault.description.does}",
        f"- **Why it may**: {fault.live.reason}.",
        f"- **What follows**: supervision starts the stream again if its driver ends. The first new batch is expected "
        f"within {drill.recovery.target:.0f} s. Nothing is deleted, and an audit checks the output before and after.",
        f"- **The same fault on a fork**: {last_on_fork}.",
    ]
    if drill.production is not None and state.approval is not None:
        hours = drill.production.allowed_hours
        lines += [
            f"- **Allowed hours**: {hours}. After an approval outside of them the drill is aborted.",
            f"- **An answer counts until**: {hours.clock(state.approval.until)}. Without one the drill is aborted.",
        ]
    return "\n\n".join([lines[0], "\n".join(lines[1:])]) + "\n"
