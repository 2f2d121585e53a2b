"""The limits of Airflow. A DAG that breaks one of them cannot be built or stored, and takes the DAGs of its DAG file
with it. The name of a stream or a drill needs no rule here: its pattern is stricter than that of a DAG id."""

from datetime import datetime
from typing import Final

from streamwarden.problems import KeyPath, Problem, show

LONGEST_TAG: Final = 100
"""`dag_tag.name`; the DAG's constructor checks it, too."""

LONGEST_OWNER: Final = 500
"""`log.owner` and `dag_owner_attributes.owner`."""

LONGEST_SCHEDULE: Final = 100
"""`dag.timetable_description` has 1000 characters for the schedule in words, which are up to six times as long."""


def label_problems(owner: str, tags: tuple[str, ...]) -> list[Problem]:
    """Problems of the owner and the tags of a DAG. Pure."""
    problems = [
        Problem(
            key=("tags", index),
            observed=f"a tag of {len(tag)} characters, {show(tag)}",
            allowed=f"1 to {LONGEST_TAG} characters, as Airflow allows",
            next_step="shorten it, or move the text to `description`",
        )
        for index, tag in enumerate(tags)
        if not 1 <= len(tag) <= LONGEST_TAG
    ]
    if len(owner) > LONGEST_OWNER:
        observed, allowed = f"{len(owner)} characters, {show(owner)}", f"at most {LONGEST_OWNER}, as Airflow allows"
        problems.append(Problem(key=("owner",), observed=observed, allowed=allowed, next_step="shorten it"))
    return problems


def schedule_problems(schedule: str | None, key: KeyPath = ("schedule",)) -> list[Problem]:
    """Problems of a DAG's schedule, which is the value of `key`. Pure."""
    if schedule is None:
        return []
    allowed = f"a cron expression or preset of at most {LONGEST_SCHEDULE} characters, such as 0 3 * * * or @daily"
    if len(schedule) > LONGEST_SCHEDULE:
        return [Problem(key=key, observed=f"{len(schedule)} characters", allowed=allowed)]
    from croniter import croniter  # imported here: most files have no schedule

    try:
        croniter(schedule, datetime(2024, 1, 1)).get_next()
    except (TypeError, ValueError) as error:  # bad syntax, or a date that never comes, such as 31 February
        return [Problem(key=key, observed=f"{show(schedule)}: {error}", allowed=allowed)]
    return []
