"""What a driver of a stream is started with, as digests: a launch takes a standby only if both have the same."""

from collections.abc import Mapping, Sequence

from streamwarden.lifecycle.supervision.standby import Fit, fit_of
from streamwarden.services.fleet.launching.deployed_code import code_of
from streamwarden.services.fleet.launching.launch import FOLDER_VARIABLE
from streamwarden.stream.spec import StreamSpec


def fit(spec: StreamSpec, environment: Mapping[str, str], command: Sequence[str] | None) -> Fit:
    """See `lifecycle.supervision.standby.Fit`. Raises ConfigError for an environment that cannot run a driver.

    The spec is compared as it is stored: a number that was given as 60 is read back as 60.0.
    """
    from streamwarden.config.stored_spec import (
        spec_from_dict,  # pydantic: only a stream with a standby needs it here
        spec_to_dict,
    )

    stored = spec_to_dict(spec_from_dict(spec_to_dict(spec)))
    own = {name: value for name, value in environment.items() if name != FOLDER_VARIABLE}
    return fit_of(stored, code_of(spec), own, command)
