"""Reads the state of a standalone master, by the message with which its web page asks for it.

Needs Spark's RPC (`RpcEnv`, `RpcAddress`) and `DeployMessages.RequestMasterState`.
"""

from typing import Any, Final

_MESSAGES: Final = "org.apache.spark.deploy.DeployMessages"


def forgot(session: Any, url: str, application: str) -> bool:
    """Whether the master at `url` is the active one and does not know the application. Raises what Spark raises if the
    master does not answer."""
    state = _state(session, url)
    return str(state.status()) == "ALIVE" and application not in [str(app.id()) for app in state.activeApps()]


def _state(session: Any, url: str) -> Any:
    jvm = session._jvm
    address = jvm.org.apache.spark.rpc.RpcAddress.fromSparkURL(url)
    master = _rpc(jvm, session.sparkContext._jsc.sc().env()).setupEndpointRef(address, "Master")
    kind = _class(jvm, f"{_MESSAGES}$MasterStateResponse")
    tag = _module(jvm, "scala.reflect.ClassTag$").apply(kind)
    return master.askSync(_module(jvm, f"{_MESSAGES}$RequestMasterState$"), tag)


def _rpc(jvm: Any, environment: Any) -> Any:
    """The driver's own `rpcEnv`. By a method handle: py4j lists the methods of a class before it calls one, and some of
    this one name classes that Spark does not ship."""
    handles = jvm.java.lang.invoke
    kind = handles.MethodType.methodType(_class(jvm, "org.apache.spark.rpc.RpcEnv"))
    getter = handles.MethodHandles.publicLookup().findVirtual(_class(jvm, "org.apache.spark.SparkEnv"), "rpcEnv", kind)
    arguments = jvm.java.util.ArrayList()
    arguments.add(environment)
    return getter.invokeWithArguments(arguments)


def _module(jvm: Any, name: str) -> Any:
    """A Scala object."""
    return _class(jvm, name).getField("MODULE$").get(None)


def _class(jvm: Any, name: str) -> Any:
    return jvm.org.apache.spark.util.Utils.classForName(name, True, False)
