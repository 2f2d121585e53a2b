"""Calls of PySpark's methods that go through Streamwarden first, so that a job need not know of it."""

import functools
from collections.abc import Callable
from typing import Any


def around(owner: type, name: str, call: Callable[..., Any]) -> None:
    """From now on, a call of the method `name` is one of `call`, which gets the method and then the arguments."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def called(*args: Any, **options: Any) -> Any:
        return call(method, *args, **options)

    setattr(owner, name, called)
