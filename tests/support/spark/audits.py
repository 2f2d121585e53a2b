"""Audits in the session of a test, in place of a process of their own."""

from __future__ import annotations

import json
from pathlib import Path

from streamwarden.services.auditing.auditing import Request, judged
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.balance import Audit, Result


def audited_here(spec: StreamSpec, folder: Path, request: Request | Audit) -> Audit:
    """The audit. `folder`: for its files; it must not exist yet."""
    from streamwarden.spark.programs.audit import main

    assert isinstance(request, Request)
    folder.mkdir()
    (folder / "request.json").write_text(json.dumps(request.document))
    main(folder)
    result = Result.of_json((folder / "result.json").read_text())
    assert result.failed is None, result
    return judged(spec, request, result)
