"""An import that fails names the extra to install, if Streamwarden itself needs the package."""

from __future__ import annotations

import sys

import pytest

from streamwarden.errors import MissingExtra, StreamwardenError

ABSENT = "nycflights13_absent"


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of the extra `demo` that is not installed."""
    monkeypatch.setitem(sys.modules["streamwarden.extras"].PACKAGES, ABSENT, "demo")
    return ABSENT


def run_in(module: str, source: str) -> dict[str, object]:
    """Executes the source as the code of a module of this name."""
    space: dict[str, object] = {"__name__": module}
    exec(source, space)
    return space


def test_an_import_of_streamwarden_names_the_extra(absent: str) -> None:
    with pytest.raises(MissingExtra) as caught:
        run_in("streamwarden.services.replay.flights", f"import {absent}")
    assert caught.value.name == absent
    assert "streamwarden[demo]" in caught.value.next_step
    assert caught.value.where == sys.prefix


@pytest.mark.parametrize("module", ["__main__", "spark_jobs.orders", "pandas.compat", "streamwardens"])
def test_an_import_of_anybody_else_fails_as_ever(absent: str, module: str) -> None:
    with pytest.raises(ModuleNotFoundError) as caught:
        run_in(module, f"import {absent}")
    assert not isinstance(caught.value, StreamwardenError)


def test_asking_for_a_package_is_no_import(absent: str) -> None:
    space = run_in("streamwarden.x", f"import importlib.util; found = importlib.util.find_spec({absent!r})")
    assert space["found"] is None


def test_a_fallback_for_an_absent_package_still_works(absent: str) -> None:
    space = run_in("streamwarden.x", f"try:\n    import {absent}\nexcept ImportError:\n    fallback = True")
    assert space["fallback"] is True


def test_a_package_that_no_extra_brings_fails_as_ever() -> None:
    with pytest.raises(ModuleNotFoundError) as caught:
        run_in("streamwarden.x", "import nothing_of_this_name")
    assert not isinstance(caught.value, StreamwardenError)
