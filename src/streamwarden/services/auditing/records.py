"""Keeps the result of an audit: a document with its evidence, and an incident if the books do not balance."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.disk import private_folder, replace
from streamwarden.health.check_relations import AUDIT_BALANCE
from streamwarden.health.incidents.stream_incidents import open_incident, resolve
from streamwarden.verification.comparing.balance import Audit, Outcome, Range

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

FOLDER: Final = "audits"
"""Of the data folder."""


def record(audit: Audit, data: Path, store: Store, now: float) -> Path:
    """Write the evidence; open or update the stream's incident, or resolve it. Returns the document.

    An incident is also opened for a stream that was stopped on purpose, because a stop does not bring rows back. An
    audit resolves it if its books balance and if it covers the batches that did not balance: later batches say
    nothing about them.

    Args:
        now: Unix seconds.

    Raises StoreError, OSError.
    """
    folder = data / FOLDER / audit.stream
    private_folder(folder, below=data)
    unbalanced = _unbalanced(folder)
    moment = datetime.fromtimestamp(now, UTC)
    upto = "none" if audit.range is None else str(audit.range.upto)
    evidence = folder / f"{moment:%Y%m%dT%H%M%S.%f}-batch-{upto}.json"
    document = {"at": moment.isoformat(), **audit.to_dict()}
    replace(evidence, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    if audit.outcome is Outcome.UNBALANCED:
        advice = (
            f"read {evidence}: it names the groups, the batches that have to write them, and each side of their books. "
            "Compare one of these groups with the input before you restart or rewind the stream"
        )
        open_incident(store.incidents, audit.stream, audit.sentence, advice, now, check=AUDIT_BALANCE)
    elif (
        audit.outcome is Outcome.BALANCED
        and audit.range is not None
        and (unbalanced is None or unbalanced in audit.range)
    ):
        settle(store, audit.stream, audit.sentence, now)
    return evidence


def settle(store: Store, stream: str, reason: str, now: float) -> bool:
    """Resolve the stream's incident; False: none is open. Raises StoreError."""
    incidents = [incident for incident in store.incidents.open(stream) if incident.check == AUDIT_BALANCE]
    for incident in incidents:
        store.incidents.save(resolve(incident, reason, now))
    return bool(incidents)


def _unbalanced(folder: Path) -> Range | None:
    """The batches of the newest audit whose books did not balance; None if there is none."""
    for document in sorted(folder.glob("*.json"), reverse=True):
        newest = json.loads(document.read_text(encoding="utf-8"))
        if newest["outcome"] == Outcome.UNBALANCED:
            return Range(after=newest["after"], upto=newest["upto"])
    return None
