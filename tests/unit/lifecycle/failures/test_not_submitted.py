"""A driver that spark-submit could not hand to its cluster: what its provider's error says, as Spark 4.3 printed it."""

from __future__ import annotations

from streamwarden.lifecycle.failures.exits import not_submitted

COMMAND = "Cannot execute: spark-submit --conf spark.name=Error. Error code is: 1. Kubernetes spark exit code is: None"
FORBIDDEN = """
Last spark-submit output:
Exception in thread "main" io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: POST at: \
https://127.0.0.1:49225/api/v1/namespaces/streams/pods. Message: pods is forbidden: User \
"system:serviceaccount:streams:powerless" cannot create resource "pods" in API group "" in the namespace "streams". \
Received status: Status(apiVersion=v1, code=403, details=StatusDetails(causes=[], kind=pods), reason=Forbidden)
at io.fabric8.kubernetes.client.KubernetesClientException.copyAsCause(KubernetesClientException.java:205)
"""
INVALID = """
Last spark-submit output:
Exception in thread "main" io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: POST at: \
https://127.0.0.1:38767/api/v1/namespaces/streams/pods. Message: Pod "x-driver" is invalid: \
spec.containers[0].ports[2].containerPort: Required value. Received status: Status(apiVersion=v1, code=422)
"""


def test_a_right_that_is_missing_keeps_the_stream_down() -> None:
    end = not_submitted("AirflowException", COMMAND + FORBIDDEN, at=1.0)
    assert (end.cause, end.curable) == ("kubernetes_access_denied", False)
    for word in ("system:serviceaccount:streams:powerless", 'create resource "pods"', 'namespace "streams"'):
        assert word in end.message
    assert "role" in end.next_step


def test_an_unknown_reason_is_told_in_sparks_words_and_not_hidden_behind_the_command() -> None:
    end = not_submitted("AirflowException", COMMAND + INVALID, at=1.0)
    assert (end.cause, end.curable) == (None, True)
    assert "containerPort: Required value" in end.message
    assert "Cannot execute" not in end.message


def test_without_any_output_the_error_itself_is_told() -> None:
    end = not_submitted("AirflowException", COMMAND, at=1.0)
    assert end.message == COMMAND
    assert end.error_class == "AirflowException"
    assert end.next_step
