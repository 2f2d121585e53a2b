"""What ended the drivers and queries of a stream: equal errors as one line, the newest first."""

from __future__ import annotations

from streamwarden.airflow.web.words.exceptions import Raised, raised
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from support.streams.queries import query_record

PLACED = "/srv/jobs/orders.py:{line}: KeyError: \"column '{column}' is missing\""


def driver(number: int, end: ExitRecord | None) -> DriverRecord:
    return DriverRecord(
        driver_id=f"orders-{number}",
        stream="orders",
        checkpoint="c",
        token=number,
        folder="f",
        launched_by="a test",
        launched_at=float(number),
        exit=end,
    )


def failed(at: float, message: str, kind: str | None = "KeyError") -> ExitRecord:
    return ExitRecord(kind=ExitKind.FAILED, ended_at=at, error_class=kind, message=message, next_step="correct the job")


def lines(*ends: ExitRecord | None) -> list[Raised]:
    return raised([driver(number, end) for number, end in enumerate(ends)])


def test_an_error_of_the_job_has_its_class_its_message_and_its_own_frame() -> None:
    (found,) = lines(failed(5.0, PLACED.format(line=46, column="gate")))
    assert (found.kind, found.text, found.place) == ("KeyError", "column 'gate' is missing", "orders.py:46")
    assert (found.driver_id, found.next_step) == ("orders-0", "correct the job")


def test_the_same_error_is_one_line_with_when_it_was_seen_first_and_last() -> None:
    """Also if its message differs, as long as it comes from the same place; the newest message is shown."""
    (found,) = lines(*(failed(at, PLACED.format(line=46, column=f"c{at}")) for at in (5.0, 9.0, 7.0)))
    assert (found.count, found.first_at, found.last_at, found.driver_id) == (3, 5.0, 9.0, "orders-1")
    assert "c9.0" in found.text


def test_another_place_or_another_class_is_another_error() -> None:
    at_46, at_47 = (failed(5.0, PLACED.format(line=line, column="gate")) for line in (46, 47))
    without_place = failed(5.0, "no such topic", "UNKNOWN_TOPIC"), failed(5.0, "no such topic", "TIMEOUT")
    assert len(lines(at_46, at_47, *without_place)) == 4


def test_messages_without_a_place_that_differ_in_numbers_alone_are_one_error() -> None:
    batches = (failed(at, f"batch {at:.0f} cannot be read\nat org.apache.Spark", "IO") for at in (1.0, 2.0))
    (found,) = lines(*batches)
    assert (found.count, found.place) == (2, "")
    assert found.text.startswith("batch 2 cannot be read")


def test_the_newest_comes_first_and_what_is_no_failure_is_left_out() -> None:
    stopped = ExitRecord(kind=ExitKind.STOPPED, ended_at=99.0, message="stopped by ann")
    forced = ExitRecord(kind=ExitKind.KILLED, ended_at=98.0, signal=9, on_request=True)
    killed = ExitRecord(kind=ExitKind.KILLED, ended_at=50.0, signal=9, message="out of memory")
    found = lines(stopped, forced, failed(5.0, "no"), killed, None)
    assert [each.kind for each in found] == ["signal 9", "KeyError"]
    assert found[0].text == "killed by signal 9 (out of memory)"


def test_a_query_that_ended_while_its_driver_went_on_is_listed_with_its_name() -> None:
    """That of a driver which failed is the driver's own error."""
    error = f"KeyError: {PLACED.format(line=46, column='gate')}"
    left, right = (
        query_record("pair", name, driver=f"orders-{number}", at=1.0, ended_at=7.0, error=error)
        for number, name in enumerate(("left", "right"))
    )
    found = raised([driver(0, None), driver(1, failed(7.0, "it failed", "X"))], [left, right])
    (of_query,) = [each for each in found if each.query]
    assert (of_query.query, of_query.kind, of_query.place, of_query.last_at) == (
        "left",
        "KeyError",
        "orders.py:46",
        7.0,
    )
    assert of_query.text == "column 'gate' is missing"
