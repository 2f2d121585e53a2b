"""A checkpoint has exactly one writer: who gets the lease, who keeps it, who is fenced."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.store import Store
from streamwarden.adapters.store.drivers import leases as lease_module
from streamwarden.adapters.store.tables import leases
from streamwarden.errors import LeaseHeld, LeaseLost
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.lease import Claim, Lease

CHECKPOINT = "/data/checkpoints/flights"
JVM = ProcessIdentity(host="node-1", pid=4711, started_at=1000)
OTHER = ProcessIdentity(host="node-1", pid=4712, started_at=2000)


class World:
    """Processes as a host sees them: those in `seen` are on this host; `living` of them live."""

    def __init__(self) -> None:
        self.living: set[ProcessIdentity] = set()
        self.unseen: set[ProcessIdentity] = set()

    def __call__(self, process: ProcessIdentity) -> bool | None:
        return None if process in self.unseen else process in self.living


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def store(open_store: Callable[..., Store], world: World) -> Store:
    return open_store(alive=world)


def acquire(store: Store, holder: str, now: float, ttl: float = 30.0) -> Lease:
    return store.leases.acquire(CHECKPOINT, stream="flights", holder=holder, ttl=ttl, now=now)


def test_the_first_to_ask_gets_the_lease(store: Store) -> None:
    lease = acquire(store, "driver-1", now=100)
    assert (lease.holder, lease.token, lease.process, lease.expires_at) == ("driver-1", 1, None, 130)
    assert store.leases.current(CHECKPOINT) == lease


def test_a_lease_that_was_never_claimed_has_no_holder(store: Store) -> None:
    assert store.leases.current(CHECKPOINT) is None


def test_a_refusal_names_the_holder_and_the_next_step(store: Store, world: World) -> None:
    lease = store.leases.bind(acquire(store, "driver-1", now=0), JVM, ttl=30, now=1)
    world.living.add(JVM)
    with pytest.raises(LeaseHeld) as caught:
        acquire(store, "driver-2", now=2)
    message = str(caught.value)
    for part in ("driver-1", "node-1", "4711", "1970-01-01 00:00:00", CHECKPOINT, "streamwarden stop flights"):
        assert part in message
    assert store.leases.current(CHECKPOINT) == lease


def test_before_the_driver_is_launched_the_expiry_decides(store: Store) -> None:
    acquire(store, "driver-1", now=0, ttl=30)
    with pytest.raises(LeaseHeld, match="not launched yet"):
        acquire(store, "driver-2", now=29.9)
    assert acquire(store, "driver-2", now=30).token == 2


def test_a_living_process_holds_even_long_after_the_expiry(store: Store, world: World) -> None:
    """The store was down, the driver could not renew, and it goes on."""
    store.leases.bind(acquire(store, "driver-1", now=0), JVM, ttl=30, now=1)
    world.living.add(JVM)
    with pytest.raises(LeaseHeld):
        acquire(store, "driver-2", now=1_000_000)


def test_a_dead_process_does_not_hold_even_before_the_expiry(store: Store) -> None:
    store.leases.bind(acquire(store, "driver-1", now=0), JVM, ttl=30, now=1)
    assert acquire(store, "driver-2", now=2).token == 2


def test_a_pid_that_another_program_got_is_not_the_holder(store: Store, world: World) -> None:
    store.leases.bind(acquire(store, "driver-1", now=0), JVM, ttl=30, now=1)
    world.living.add(replace(JVM, started_at=JVM.started_at + 1))
    assert acquire(store, "driver-2", now=2).token == 2


def test_on_another_host_the_expiry_decides(store: Store, world: World) -> None:
    world.unseen.add(JVM)
    store.leases.bind(acquire(store, "driver-1", now=0), JVM, ttl=30, now=10)
    with pytest.raises(LeaseHeld):
        acquire(store, "driver-2", now=39.9)
    assert acquire(store, "driver-2", now=40).token == 2


def test_renewing_pushes_the_expiry_and_keeps_the_process(store: Store, world: World) -> None:
    world.unseen.add(JVM)
    lease = store.leases.bind(acquire(store, "driver-1", now=0), JVM, ttl=30, now=1)
    renewed = store.leases.renew(lease, ttl=30, now=20)
    assert (renewed.expires_at, renewed.process, renewed.acquired_at) == (50, JVM, 0)
    assert store.leases.current(CHECKPOINT) == renewed


def test_the_launcher_may_renew_without_knowing_the_process(store: Store) -> None:
    claim = acquire(store, "driver-1", now=0)
    store.leases.bind(claim, JVM, ttl=30, now=1)
    assert store.leases.renew(claim, ttl=30, now=2).process == JVM


def test_a_holder_that_was_replaced_is_fenced(store: Store, world: World) -> None:
    old = store.leases.bind(acquire(store, "driver-1", now=0), JVM, ttl=30, now=1)
    new = store.leases.bind(acquire(store, "driver-2", now=2), OTHER, ttl=30, now=3)
    for attempt in (
        lambda: store.leases.renew(old, ttl=30, now=4),
        lambda: store.leases.bind(old, JVM, ttl=30, now=4),
    ):
        with pytest.raises(LeaseLost) as caught:
            attempt()
        assert "driver-2" in str(caught.value)
        assert "4712" in str(caught.value)
        assert "stop this query" in caught.value.next_step
    assert store.leases.current(CHECKPOINT) == new


def test_a_released_lease_is_free_at_once_and_cannot_be_renewed(store: Store, world: World) -> None:
    lease = store.leases.bind(acquire(store, "driver-1", now=0), JVM, ttl=30, now=1)
    world.living.add(JVM)
    store.leases.release(lease, now=2)
    with pytest.raises(LeaseLost, match="gave its lease back"):
        store.leases.renew(lease, ttl=30, now=3)
    assert acquire(store, "driver-2", now=3).token == 2


def test_releasing_a_lease_that_is_not_the_current_one_has_no_effect(store: Store) -> None:
    old = acquire(store, "driver-1", now=0)
    new = acquire(store, "driver-2", now=60)
    store.leases.release(old, now=61)
    assert store.leases.current(CHECKPOINT) == new
    store.leases.release(new, now=62)
    store.leases.release(new, now=70)
    released = store.leases.current(CHECKPOINT)
    assert released is not None
    assert released.released_at == 62


def test_a_holder_whose_answer_was_lost_asks_again_and_gets_the_same_lease(store: Store) -> None:
    first = acquire(store, "driver-1", now=0)
    again = acquire(store, "driver-1", now=5)
    assert (again.token, again.acquired_at, again.expires_at) == (first.token, 0, 35)


def test_tokens_only_grow_and_the_history_is_kept(store: Store) -> None:
    for turn in range(5):
        acquire(store, f"driver-{turn}", now=100 * turn)
    history = store.leases.history(CHECKPOINT)
    assert [(lease.holder, lease.token) for lease in history] == [(f"driver-{turn}", turn + 1) for turn in range(5)]


def test_a_stream_has_one_driver_whatever_its_checkpoint_is(store: Store, world: World) -> None:
    """Two hosts with two data folders and one store: the second learns where the first driver is."""
    first = store.leases.bind(acquire(store, "driver-1", now=0), JVM, ttl=30, now=1)
    world.living.add(JVM)
    with pytest.raises(LeaseHeld) as caught:
        store.leases.acquire("/elsewhere/flights", stream="flights", holder="driver-2", ttl=30, now=2)
    message = str(caught.value)
    for part in ("driver-1", "node-1", "4711", CHECKPOINT, "stream flights", "streamwarden stop flights"):
        assert part in message
    assert store.leases.current("stream:flights") == first
    assert store.leases.current("/elsewhere/flights") is None


def test_a_lease_has_all_of_its_checkpoints_or_none(store: Store) -> None:
    store.leases.acquire("/cp/b", stream="other", holder="driver-1", ttl=30, now=0)
    with pytest.raises(LeaseHeld, match="/cp/b"):
        store.leases.acquire("/cp/a", "/cp/b", "/cp/c", stream="flights", holder="driver-2", ttl=30, now=1)
    assert [store.leases.current(each) for each in ("stream:flights", "/cp/a", "/cp/c")] == [None] * 3
    both = store.leases.acquire("/cp/c", "/cp/a", stream="flights", holder="driver-2", ttl=30, now=2)
    assert both.resources == ("stream:flights", "/cp/a", "/cp/c")
    assert store.leases.current("/cp/a") == store.leases.current("/cp/c") == both


def test_all_claims_are_bound_renewed_and_released_together(store: Store, world: World) -> None:
    world.unseen.add(JVM)
    lease = store.leases.acquire("/cp/a", "/cp/b", stream="flights", holder="driver-1", ttl=30, now=0)
    renewed = store.leases.renew(store.leases.bind(lease, JVM, ttl=30, now=1), ttl=30, now=20)
    assert {store.leases.current(each) for each in lease.resources} == {renewed}
    assert (renewed.process, renewed.expires_at) == (JVM, 50)
    store.leases.release(lease, now=21)
    released = [store.leases.current(each) for each in lease.resources]
    assert [each.released_at for each in released if each is not None] == [21, 21, 21]


def test_a_living_driver_claims_more_checkpoints(store: Store, world: World) -> None:
    """A query that is discovered at its start; the call may be repeated, since its answer may be lost."""
    lease = store.leases.bind(acquire(store, "driver-1", now=0), JVM, ttl=30, now=1)
    world.living.add(JVM)
    more = store.leases.add(lease, "/cp/late", ttl=30, now=5)
    assert more.checkpoints == ("/cp/late", CHECKPOINT)
    assert (more.process, more.expires_at, more.token_of(CHECKPOINT)) == (JVM, 35, lease.token)
    assert store.leases.add(lease, "/cp/late", ttl=30, now=5) == more
    with pytest.raises(LeaseHeld, match="driver-1"):
        store.leases.acquire("/cp/late", stream="other", holder="driver-2", ttl=30, now=6)
    store.leases.release(lease, now=7)  # by its launcher, which knows of no more than it claimed itself
    heir = store.leases.acquire("/cp/late", stream="other", holder="driver-2", ttl=30, now=8)
    assert heir.token_of("/cp/late") > more.token_of("/cp/late")


def test_a_checkpoint_that_another_driver_has_is_not_added(store: Store, world: World) -> None:
    world.living |= {JVM, OTHER}
    lease = store.leases.bind(acquire(store, "driver-1", now=0), JVM, ttl=30, now=1)
    other = store.leases.acquire("/cp/late", stream="other", holder="driver-2", ttl=30, now=0)
    store.leases.bind(other, OTHER, ttl=30, now=1)
    with pytest.raises(LeaseHeld, match="driver-2"):
        store.leases.add(lease, "/cp/late", ttl=30, now=5)
    assert store.leases.current(CHECKPOINT) == lease


def test_a_driver_that_was_replaced_adds_nothing(store: Store) -> None:
    old = store.leases.bind(acquire(store, "driver-1", now=0), JVM, ttl=30, now=1)
    acquire(store, "driver-2", now=2)
    with pytest.raises(LeaseLost, match="driver-2"):
        store.leases.add(old, "/cp/late", ttl=30, now=3)
    assert store.leases.current("/cp/late") is None


def test_one_claim_that_was_replaced_is_the_loss_of_the_lease(store: Store) -> None:
    lease = store.leases.acquire("/cp/a", "/cp/b", stream="flights", holder="driver-1", ttl=30, now=0)
    store.leases.acquire("/cp/b", stream="other", holder="driver-2", ttl=30, now=30)
    with pytest.raises(LeaseLost, match="driver-2"):
        store.leases.renew(lease, ttl=30, now=31)
    found = store.leases.current("/cp/a")
    assert found is not None
    assert found.renewed_at == 0, "nothing is renewed by halves"


def test_tokens_grow_for_each_checkpoint_and_each_name(store: Store) -> None:
    """A stream that is moved to a checkpoint of an older stream and back: every writer of a checkpoint has a higher
    token than the one before, which is what the ledger of a table compares."""
    turns = [("flights", "/cp/a"), ("other", "/cp/b"), ("other", "/cp/a"), ("flights", "/cp/b"), ("flights", "/cp/a")]
    highest: dict[str, int] = {}
    for turn, (stream, checkpoint) in enumerate(turns):
        lease = store.leases.acquire(checkpoint, stream=stream, holder=f"driver-{turn}", ttl=1, now=10 * turn)
        for claim in lease.claims:
            assert claim.token > highest.get(claim.resource, 0)
            highest[claim.resource] = claim.token


def test_a_driver_of_a_version_without_claims_on_names_has_its_name_all_the_same(store: Store, world: World) -> None:
    """A rolling upgrade: the older driver has only a row for its checkpoint, and goes on to renew it."""
    old = acquire(store, "driver-1", now=0)
    bare = replace(old, claims=old.claims[1:])
    with store._database._engine.begin() as connection:
        connection.execute(leases.delete().where(leases.c.checkpoint == "stream:flights"))
    bare = store.leases.bind(bare, JVM, ttl=30, now=1)
    world.living.add(JVM)
    with pytest.raises(LeaseHeld, match=CHECKPOINT):
        store.leases.acquire("/elsewhere/flights", stream="flights", holder="driver-2", ttl=30, now=2)
    store.leases.release(bare, now=3)
    assert store.leases.acquire("/elsewhere/flights", stream="flights", holder="driver-2", ttl=30, now=4).token == 1


def test_checkpoints_do_not_share_leases(store: Store) -> None:
    acquire(store, "driver-1", now=0)
    other = store.leases.acquire(CHECKPOINT + "2", stream="other", holder="driver-2", ttl=30, now=0)
    assert other.token == 1


@pytest.mark.parametrize("holder_asks_first", [True, False], ids=["holder renews first", "newcomer claims first"])
def test_after_the_store_was_replaced_by_an_empty_one_there_is_still_one_writer(
    open_store: Callable[..., Store], world: World, holder_asks_first: bool
) -> None:
    """The living holder's token is higher than anything the new store granted, so the newcomer is the one to stop."""
    held = Lease(
        stream="flights",
        holder="driver-1",
        claims=(Claim("stream:flights", 7), Claim(CHECKPOINT, 7)),
        process=JVM,
        acquired_at=0,
        renewed_at=90,
        expires_at=120,
    )
    world.living.add(JVM)
    store = open_store(alive=world)
    if holder_asks_first:
        store.leases.renew(held, ttl=30, now=100)
        with pytest.raises(LeaseHeld, match="driver-1"):
            acquire(store, "driver-2", now=101)
    else:
        newcomer = acquire(store, "driver-2", now=99)
        assert store.leases.renew(held, ttl=30, now=100).token == 7
        with pytest.raises(LeaseLost, match="driver-1"):
            store.leases.bind(newcomer, OTHER, ttl=30, now=101)
    current = store.leases.current(CHECKPOINT)
    assert current is not None
    assert (current.holder, current.token, current.expires_at) == ("driver-1", 7, 130)


def test_a_lease_that_is_replaced_while_it_is_read_still_has_the_claim_that_was_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL shows each statement what was committed before it: the second one may find no row of that holder."""
    first = acquire(store, "driver-1", now=0)
    store.leases.release(first, now=1)
    acquire(store, "driver-2", now=2)
    row = replace(first, claims=(Claim(CHECKPOINT, first.token_of(CHECKPOINT)),))
    monkeypatch.setattr(lease_module, "_current", lambda *_, **__: {CHECKPOINT: row})
    read = store.leases.current(CHECKPOINT)
    assert read is not None
    assert (read.holder, read.token, read.checkpoints) == ("driver-1", 1, (CHECKPOINT,))


@pytest.mark.parametrize(
    "other",
    [
        "/data/checkpoints//flights/",
        "/data/x/../checkpoints/./flights",
        "file:///data/checkpoints/flights",
    ],
)
def test_every_spelling_of_a_path_is_the_same_lease(store: Store, other: str) -> None:
    lease = acquire(store, "driver-1", now=0)
    with pytest.raises(LeaseHeld):
        store.leases.acquire(other, stream="copy", holder="driver-2", ttl=30, now=1)
    assert store.leases.current(other) == lease
    assert lease.covers(other)
    assert lease.token_of(other) == lease.token


@pytest.mark.parametrize("other", ["s3://lake//a/b", "S3A://LAKE/a/./b/", "s3n://lake/c/../a/b"])
def test_every_spelling_of_a_url_is_the_same_lease(store: Store, other: str) -> None:
    store.leases.acquire("s3a://lake/a/b", stream="flights", holder="driver-1", ttl=30, now=0)
    with pytest.raises(LeaseHeld):
        store.leases.acquire(other, stream="copy", holder="driver-2", ttl=30, now=1)
    assert store.leases.acquire("s3a://lake/a", stream="else", holder="driver-3", ttl=30, now=1).token == 1


def test_two_starts_through_a_symbolic_link_have_one_winner(store: Store, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    store.leases.acquire(f"{tmp_path}/link/flights", stream="flights", holder="driver-1", ttl=30, now=0)
    with pytest.raises(LeaseHeld, match="driver-1"):
        store.leases.acquire(f"{tmp_path}/real/flights", stream="copy", holder="driver-2", ttl=30, now=1)
    with pytest.raises(LeaseHeld, match="driver-1"):
        store.leases.add(
            store.leases.acquire(f"{tmp_path}/copy", stream="copy", holder="driver-2", ttl=30, now=1),
            f"{tmp_path}/real/flights",
            ttl=30,
            now=2,
        )


def of_an_earlier_version(store: Store, monkeypatch: pytest.MonkeyPatch, checkpoint: str) -> Lease:
    """A driver that holds its checkpoint as its file spells it."""
    with monkeypatch.context() as earlier:
        earlier.setattr(lease_module, "resource_of", lambda name: name)
        lease = store.leases.acquire(checkpoint, stream="flights", holder="driver-1", ttl=30, now=0)
        return store.leases.bind(lease, JVM, ttl=30, now=1)


def test_an_update_does_not_take_the_lease_of_a_driver_that_holds_another_spelling(
    store: Store, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    world.living.add(JVM)
    old = of_an_earlier_version(store, monkeypatch, f"{tmp_path}/link/flights")
    assert store.leases.current(f"{tmp_path}/link/flights") == old
    for holder, stream in (("driver-2", "copy"), ("driver-3", "flights")):
        with pytest.raises(LeaseHeld, match="driver-1"):
            store.leases.acquire(f"{tmp_path}/real/flights", stream=stream, holder=holder, ttl=30, now=2)
    assert store.leases.renew(old, ttl=30, now=3).expires_at == 33


def test_a_driver_with_another_spelling_that_was_replaced_is_fenced(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    old = of_an_earlier_version(store, monkeypatch, f"{tmp_path}/link/flights")  # its process is dead
    new = store.leases.acquire(f"{tmp_path}/link/flights", stream="copy", holder="driver-2", ttl=30, now=2)
    assert new.token_of(f"{tmp_path}/real/flights") > old.token
    with pytest.raises(LeaseLost, match="driver-2"):
        store.leases.renew(old, ttl=30, now=3)
    store.leases.release(new, now=4)
    latest = store.leases.acquire(f"{tmp_path}/real/flights", stream="copy", holder="driver-3", ttl=30, now=5)
    assert latest.checkpoints == (f"{tmp_path}/real/flights",)
