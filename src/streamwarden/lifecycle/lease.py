"""The lease: the right of one driver to run a stream, a set of claims that exclude every other driver."""

from dataclasses import dataclass
from typing import Final, Protocol

from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.location import canonical

_STREAM: Final = "stream:"
"""What the resource of a stream's name begins with; a checkpoint is an absolute path, or a URL with `//`."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One resource that a lease covers: the stream's name, or a checkpoint.

    Args:
        resource: `stream:NAME`, or the checkpoint as `resource_of` spells it. A driver that was launched by an
            earlier version holds its checkpoint as its file spells it.
        token: fencing token, larger for each new holder of this resource, never reused.
    """

    resource: str
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who may run a stream and write to its checkpoints. Times are Unix seconds.

    All claims are acquired, bound to the process, renewed and released together, each time in one transaction.

    Args:
        holder: the driver id.
        claims: the stream's name first, then the checkpoints in the order of their names.
        process: the driver's JVM; None between the claim and the launch.
        released_at: set by a holder that ended in good order.
        revision: `renewed_at` exactly as the store keeps it: it changes with each renewal and with nothing else. The
            times are those of the reader's clock, and each reading compares that with the store's again.
    """

    stream: str
    holder: str
    claims: tuple[Claim, ...]
    process: ProcessIdentity | None
    acquired_at: float
    renewed_at: float
    expires_at: float
    released_at: float | None = None
    revision: float | None = None

    @property
    def resources(self) -> tuple[str, ...]:
        return tuple(claim.resource for claim in self.claims)

    @property
    def checkpoints(self) -> tuple[str, ...]:
        return tuple(resource for resource in self.resources if not resource.startswith(_STREAM))

    @property
    def token(self) -> int:
        """The fencing token of the first claim: as a rule the stream's."""
        return self.claims[0].token

    def token_of(self, resource: str) -> int:
        """The fencing token for what is written under `resource`. Raises KeyError if this lease does not cover it."""
        return {resource_of(claim.resource): claim.token for claim in self.claims}[resource_of(resource)]

    def covers(self, checkpoint: str) -> bool:
        """Whether the checkpoint is one of this lease's, however it is spelled."""
        return resource_of(checkpoint) in {resource_of(claimed) for claimed in self.checkpoints}


class Liveness(Protocol):
    """Tells whether a process lives: True or False on this host, None where it cannot be seen (another host)."""

    def __call__(self, process: ProcessIdentity) -> bool | None: ...


def stream_resource(stream: str) -> str:
    """The resource by which a stream has one driver, whatever its checkpoints are. Pure."""
    return f"{_STREAM}{stream}"


def resource_of(name: str) -> str:
    """The resource that `name`, a checkpoint or a resource, stands for: one for all spellings of one checkpoint.

    A symbolic link, a second slash or another scheme of the same storage must not give a second lease on a checkpoint.
    """
    return name if name.startswith(_STREAM) else canonical(name)


def is_held(lease: Lease | None, *, now: float, alive: Liveness) -> bool:
    """Whether `lease` still excludes another writer.

    A process that can be seen decides: a living one holds the lease even past its expiry (the store may have been down,
    and the holder continues), a dead one does not hold it even before. If the process cannot be seen, the expiry
    decides. After an outage that would be too early, so an observer that acts on an expired lease waits longer
    (`services.fleet.lease_grace`).
    """
    if lease is None or lease.released_at is not None:
        return False
    runs = alive(lease.process) if lease.process is not None else None
    return now < lease.expires_at if runs is None else runs


def whereabouts(lease: Lease) -> str:
    """Host, pid and checkpoints of the driver that holds `lease`, for people. Pure."""
    place = "(not launched yet)"
    if lease.process is not None:
        place = f"on host {lease.process.host} as pid {lease.process.pid}"
    return f"{place} with the checkpoint {', '.join(lease.checkpoints)}" if lease.checkpoints else place
