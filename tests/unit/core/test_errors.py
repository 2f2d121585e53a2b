"""Every error says what was observed, what was expected, where, and what to do next."""

import inspect
import pickle

import pytest

from streamwarden import errors


def every_error() -> list[type[errors.StreamwardenError]]:
    return [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.StreamwardenError) and kind.__module__ == errors.__name__
    ]


def test_a_message_has_its_four_parts_in_the_order_a_person_reads() -> None:
    error = errors.ConfigError(
        "'5 parsecs' is no duration", expected="30s", where="config/streams/a.yaml: trigger", next_step="write 5s"
    )
    assert str(error) == ("config/streams/a.yaml: trigger: '5 parsecs' is no duration; expected 30s; next: write 5s")


def test_parts_that_are_empty_leave_no_trace() -> None:
    assert str(errors.StoreError("the store is locked")) == "the store is locked"


@pytest.mark.parametrize("kind", every_error())
def test_an_error_survives_the_way_between_processes(kind: type[errors.StreamwardenError]) -> None:
    error = kind("seen", expected="wanted", where="here", next_step="act")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert copy.next_step == "act"


@pytest.mark.parametrize("kind", every_error())
def test_the_tree_in_the_docstring_names_every_error(kind: type[errors.StreamwardenError]) -> None:
    assert kind.__name__ in (errors.__doc__ or "")
