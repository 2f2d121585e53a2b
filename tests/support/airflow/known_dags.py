"""DAGs as Airflow's database has them once its DAG processor has read their files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import DAG

BUNDLE = "tests"


def know(dags: Iterable[DAG], *, paused: bool = False) -> None:
    """Write the DAGs to the database of this process."""
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.db import synchronize_log_template
    from airflow.utils.session import create_session

    with create_session() as session:
        synchronize_log_template(session=session)
        session.merge(DagBundleModel(name=BUNDLE))
        session.commit()
        for dag in dags:
            dag.is_paused_upon_creation = paused
            lazy = LazyDeserializedDAG.from_dag(dag)
            SerializedDAG.bulk_write_to_db(BUNDLE, None, [lazy], session=session)
            SerializedDagModel.write_dag(lazy, bundle_name=BUNDLE, session=session)
