"""The store: everything Streamwarden remembers, in one SQL database.

SQLite (WAL) is the embedded default; the SQL is portable to PostgreSQL. The truth about batches is in the checkpoint's
own logs and the truth about processes in their folders: a store that is down costs neither a batch nor a stream.

    store        Store, the only entry point
    tables       the columns of each table; migrations/ changes those of an older store
    text         how text enters a column: without secrets, and without what a database cannot keep
    database     connections and transactions; explain: errors as StoreError
    leases, drivers, queries, stops, batches, measurements, verdicts, incidents, journals: one repository each
    merging      merges reports and logs of one batch into one row, in any order
    compact      what checks and charts read of a report, stored beside it; compact_rows: reads it
    hours, rollup, retention: raw rows are kept for days, hourly roll-ups for more than a year
"""

from streamwarden.adapters.store.database import StoreBusy
from streamwarden.adapters.store.history.batches import Summary
from streamwarden.adapters.store.history.measurements import Statistic
from streamwarden.adapters.store.history.retention import Pruned
from streamwarden.adapters.store.history.rollup import Rolled
from streamwarden.adapters.store.store import Store

__all__ = ["Pruned", "Rolled", "Statistic", "Store", "StoreBusy", "Summary"]
