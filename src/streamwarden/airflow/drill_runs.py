"""The id of a drill run, from that of its DAG run."""

import hashlib
import re


def drill_run_id(drill: str, dag_run_id: str) -> str:
    """The drill's run id for a DAG run: the same for each of its tasks and tries, and safe as a file name.

    Airflow's run ids contain colons, plus signs, and anything that a user typed: the readable part is cut, and a digest
    keeps it unique.
    """
    digits = re.sub(r"[^0-9]", "", dag_run_id)
    stamp = f"{digits[:8]}T{digits[8:14]}" if len(digits) >= 14 else "manual"
    return f"{drill}-{stamp}-{hashlib.sha256(dag_run_id.encode()).hexdigest()[:8]}"
