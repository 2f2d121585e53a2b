"""`make test-unit`: each file runs in one of two processes, and the status of each tells what failed there."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.claimed_files import ClaimedFiles

pytest_plugins = ("pytester",)

LARGE = """
    import pathlib

    def test_a():
        pathlib.Path({other!r}).touch()

    def test_b():
        assert False
"""


def run(pytester: pytest.Pytester, claims: Path) -> tuple[list[str], int]:
    """The tests that one process ran, and its status."""
    without = [word for name in ("cacheprovider", "xdist", "schemathesis", "anyio") for word in ("-p", f"no:{name}")]
    done = pytester.inline_run(*without, plugins=[ClaimedFiles(claims)])
    return [report.nodeid for report in done.getreports("pytest_runtest_logreport") if report.when == "call"], done.ret


def test_each_test_runs_once_and_what_fails_is_in_the_status(pytester: pytest.Pytester, tmp_path: Path) -> None:
    """While the first process runs the largest file, another one claims the next."""
    other = tmp_path / "test_small.py"
    pytester.makepyfile(test_large=LARGE.format(other=str(other)), test_small="def test_c(): ...")
    assert run(pytester, tmp_path) == (["test_large.py::test_a", "test_large.py::test_b"], pytest.ExitCode.TESTS_FAILED)
    other.unlink()
    assert run(pytester, tmp_path) == (["test_small.py::test_c"], pytest.ExitCode.OK)
    pytester.makepyfile(test_wrong="import nothing_of_this_name")
    assert run(pytester, tmp_path) == ([], pytest.ExitCode.TESTS_FAILED)
