"""Drivers in cluster mode, on YARN and Kubernetes: submitted, followed and reattached to by the Spark provider itself.

Its durable mode keeps the application's id in Airflow's task state, so that the next try follows the living application
in place of submitting a second one. The lease stays the fence: a driver that finds its claim taken ends by itself, and
across DAG runs, which share no task state, a living driver is found and followed by it.
"""

from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import DEFAULT_SPARK_BINARY, SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from streamwarden.adapters.jvm.java import find_java
from streamwarden.adapters.jvm.spark_home import spark_home
from streamwarden.airflow.submitting import Submission
from streamwarden.clusters import MANAGERS, manager_of
from streamwarden.clusters.kubernetes import POD_NAME, namespace, pod_name
from streamwarden.errors import ConfigError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.services.fleet.launching.launch import RUNNER
from streamwarden.stream.spec import StreamSpec


def prepare(operator: SparkSubmitOperator, order: Submission) -> None:
    """Let the provider follow applications of this order: its hook, and its own ways to ask the cluster.

    Raises ConfigError if the connection does not say where to ask.
    """
    hook, manager = order.hook, manager_of(order.spec.spark.master)
    for cluster_manager in MANAGERS:
        if cluster_manager.in_cluster is not None:
            setattr(hook, cluster_manager.in_cluster.tracking, cluster_manager is manager)
            setattr(operator, cluster_manager.in_cluster.tracking, cluster_manager is manager)
    connection = hook._connection
    if connection["spark_binary"] == DEFAULT_SPARK_BINARY:
        connection["spark_binary"] = str(spark_home() / "bin" / DEFAULT_SPARK_BINARY)
        hook._env = {"SPARK_HOME": str(spark_home()), "JAVA_HOME": str(find_java())}
    if _in_image(order.spec):
        connection["namespace"] = connection["namespace"] or namespace(order.spec.spark)
    try:
        hook._validate_yarn_track_via_rm_api_config()
    except (ValueError, RuntimeError) as error:
        raise ConfigError(
            f"the ResourceManager cannot be asked: {error}",
            expected="its address in the connection, and requests-kerberos where the connection has a key",
            where=f"connection {operator._conn_id} of stream {order.spec.name}",
            next_step="add yarn_resourcemanager_webapp_address to the connection's extra",
        ) from error
    operator._hook = hook


def manager_address(hook: SparkSubmitHook) -> str | None:
    """Where the connection says that the manager's API is; None: it does not say."""
    return hook._get_yarn_rm_base_url() if hook._is_yarn_cluster_mode else None


def point_at(operator: SparkSubmitOperator, hook: SparkSubmitHook, folder: Path, spec: StreamSpec) -> None:
    """Make the operator submit the runner, with the settings and the argument of this driver's folder."""
    hook._properties_file = str(folder / files.PROPERTIES)
    hook._application_args = [str(folder)]
    if _in_image(spec):
        # The provider reads the pod's name from spark-submit's output, and does not find it there in every namespace.
        hook._conf[POD_NAME] = hook._kubernetes_driver_pod = pod_name(folder.name)
        # The runner is where the image has it: at the same path, as everything that a driver shares.
        operator.application = f"local://{RUNNER}"
    else:
        operator.application = str(RUNNER)


def followed(operator: SparkSubmitOperator, context: Any) -> str | None:
    """The application that an earlier try of this task submitted; None if there is none, or it is not known."""
    store = context.get("task_state_store")
    application = store.get(operator.external_id_key) if store is not None else None
    return str(application) if application else None


def forget_the_last_end(operator: SparkSubmitOperator, context: Any) -> None:
    """The provider keeps the success of an application; it must not count for the one that was submitted after it."""
    store = context.get("task_state_store")
    if store is not None and store.get(operator._K8S_DRIVER_STATUS_KEY) is not None:
        store.delete(operator._K8S_DRIVER_STATUS_KEY)


def is_active(operator: SparkSubmitOperator, context: Any) -> bool:
    """Whether the followed application is alive. Raises what the provider raises if the cluster does not answer."""
    application = followed(operator, context)
    return application is not None and operator.is_job_active(operator.get_job_status(application, context))


def _in_image(spec: StreamSpec) -> bool:
    in_cluster = manager_of(spec.spark.master).in_cluster
    return in_cluster is not None and in_cluster.image
