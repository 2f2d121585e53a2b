"""The tab State: the savepoints of a stream, what its checkpoint can still show, changes of its state, and
looks at it."""

from collections.abc import Mapping
from typing import Any, Final

from streamwarden.airflow.web.access import allowed_of, declared
from streamwarden.airflow.web.state import details
from streamwarden.airflow.web.state.offers import offers
from streamwarden.airflow.web.tabs.tab import Of, Opened, Tab
from streamwarden.services.state.looks import Looks
from streamwarden.services.state.requested.assignments import Assignments
from streamwarden.services.state.requested.deletions import Deletions

ACTIONS: Final = (
    *("create_savepoint", "verify_savepoint", "restore_stream", "rewind_stream", "repartition_stream"),
    *("compact_state", "delete_keys", "set_value", "upgrade_stream", "look_at_state"),
)
"""Ids of the DAGs that the page runs."""


def _read(opened: Opened, part: str) -> Mapping[str, Any]:
    """What a part shows; all of it for the whole page."""
    space, stream, query = opened.space, opened.stream, opened.asked.query
    found: dict[str, Any] = {"may": allowed_of(ACTIONS, opened.user, "POST")}
    if part in ("", "savepoints"):
        found["saved"] = details.savepoints(space, stream, query)
    if part in ("", "kept", "changes"):
        found["found"] = details.state(space, stream, query)
    if part in ("", "changes"):
        found["offers"] = offers(declared(space, stream, query), found["found"].kept)
        for kind in (Deletions, Assignments):
            found[kind.folder] = details.documents(kind, space, stream, query).newest() if opened.changes else []
    if part in ("", "looks"):  # the contents of a state are data: who may only read the stream does not see them
        found["looks"] = details.documents(Looks, space, stream, query).newest() if opened.changes else []
    return found


TAB: Final = Tab(
    name="state",
    label="State",
    page="stream_state.html",
    parts={
        "savepoints": "state_savepoints.html",
        "kept": "state_kept.html",
        "changes": "state_changes.html",
        "looks": "state_looks.html",
    },
    read=_read,
    of=Of.QUERY,
)
