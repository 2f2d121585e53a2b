"""Resources pending: the cluster has no room for the driver or for its executors."""

from streamwarden.clusters import ClusterManager, manager_of
from streamwarden.health.check import DRIVERS, Check, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import RESOURCES_PENDING
from streamwarden.health.signals.resources import newest_wait
from streamwarden.health.signals.stopped import is_down
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window
from streamwarden.units import format_duration


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How long the driver's application has waited for its cluster."""
    if not window.drivers:
        return CHECK.verdict(window, Status.UNKNOWN, "the stream has never run")
    manager = manager_of(window.spec.spark.master)
    if manager.waits is None:
        return _unasked(window, manager)
    if is_down(window):
        return CHECK.verdict(window, Status.OK, "no driver runs, so none waits", 0.0)
    waiting = newest_wait(window)
    if waiting is None:
        return CHECK.verdict(window, Status.OK, "the driver waits for nothing of its cluster", 0.0)
    limits_in_force = thresholds.of(CHECK.name)
    status = CHECK.grade(waiting.value, limits_in_force)
    reason = f"the application has waited for {format_duration(waiting.value)}: it waits for {waiting.source}"
    evidence: dict[str, object] = {"driver": window.drivers[-1].driver_id, "measured_at": waiting.at}
    text = f"{reason} ({CHECK.limits_text(limits_in_force)})"
    return CHECK.verdict(window, status, text, waiting.value, evidence)


def _unasked(window: Window, manager: ClusterManager) -> Verdict:
    if not manager.has_executors:
        return CHECK.verdict(window, Status.OK, "the driver runs all tasks and waits for no cluster", 0.0)
    return CHECK.verdict(window, Status.UNKNOWN, f"{manager.title} is not asked what an application waits for")


CHECK = Check(
    name=RESOURCES_PENDING,
    title="Resources pending",
    unit=ValueUnit.SECONDS,
    target="the cluster gives the driver and its executors what they ask for",
    thresholds=limits(60.0, 600.0, ValueUnit.SECONDS, "time for which the application has waited for its cluster"),
    judge=check,
    judges=DRIVERS,
    reads=(
        "The measurement `resources_waited_seconds`, taken every ten seconds while the application waits: by the "
        "driver itself, and in cluster mode by the task that submitted it, until the driver runs. On YARN the "
        "application waits while the ResourceManager has accepted it and given it no container, and while it has asked "
        "for executors and none of them has a container. The reason names the queue and repeats the ResourceManager's "
        "own words. It is asked through its REST API, at the address that `yarn-site.xml` in `HADOOP_CONF_DIR` names. "
        "One that wants a Kerberos login there is not asked. On Kubernetes the application waits while the driver's "
        "pod is pending, and while the pods of all executors are. The reason names the pod and repeats what the "
        "scheduler, the node or the newest event says of it. The API server is asked with the credentials of Spark's "
        "settings, of the pod's account or of a kubeconfig."
    ),
    unknown="The stream has never run, or its cluster is not asked: a standalone one.",
    advice=(
        "Look at the queue in the cluster manager's pages: what else runs there, and what the queue may have. Give the "
        "queue more, name another one (`spark.queue`), or let the stream ask for less (`spark.executors`, "
        "`spark.driver_memory`). On Kubernetes the reason may also be an image that cannot be pulled: correct "
        "`spark.image`, or give the account the registry's secret. The application starts by itself when there is room."
    ),
    source="Design of Streamwarden: a cluster with room starts a container within seconds.",
)
