"""The oracle in docs/how-to/oracles.md works as it stands there."""

import gzip
import json
import math
import re
from pathlib import Path

from streamwarden.services.verifying.oracle_files import load_oracle
from streamwarden.verification.oracle import RunFacts
from support.oracles.reconciling import reconcile

GUIDE = Path(__file__).parents[3] / "docs/how-to/oracles.md"


def test_the_oracle_of_the_guide_accepts_sums_in_another_order(tmp_path: Path) -> None:
    (tmp_path / "oracles").mkdir()
    code = re.search(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert code is not None
    (tmp_path / "oracles/daily_revenue.py").write_text(code[1])
    amounts = [0.1] * 39
    file = tmp_path / "sales.json.gz"
    lines = [json.dumps({"shop": "a", "day": "2013-01-01", "amount": amount}) for amount in amounts]
    file.write_bytes(gzip.compress("\r\n".join(lines).encode()))
    oracle = load_oracle(tmp_path / "daily_revenue.py")
    expected = oracle([file], RunFacts(files={0: [file]}, watermarks={0: 0}, committed=0))
    in_another_order = math.fsum(amounts)
    assert expected.rows[("a", "2013-01-01")] != (39, in_another_order)
    outcome = reconcile(
        expected.rows,
        [(("a", "2013-01-01"), (39, in_another_order))],
        value_columns=expected.value_columns,
        tolerances=expected.tolerances,
    )
    assert outcome.exactly_once
    kinds = {name: kind.shown for name, kind in expected.column_types().items() if kind is not None}
    assert kinds == {"shop": "string", "day": "string", "sales": "bigint", "revenue": "double"}
