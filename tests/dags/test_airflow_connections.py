"""Connections in the forms in which Airflow itself writes them."""

from airflow.sdk import Connection as Airflows

from streamwarden.adapters.connections import connection


def test_what_airflow_itself_writes_is_read_back() -> None:
    """Both of Airflow's own forms; a password with every character that a URI could trip over."""
    theirs = Airflows(
        conn_id="warehouse",
        conn_type="postgres",
        host="db",
        port=5432,
        login="ann",
        password="p@s:s/w?r#d%&",
        schema="flights",
        extra='{"sslmode": "require"}',
    )
    ours = connection("warehouse", {"AIRFLOW_CONN_WAREHOUSE": theirs.as_json()})
    assert (ours.login, ours.password, ours.extra) == ("ann", "p@s:s/w?r#d%&", {"sslmode": "require"})
    assert connection("warehouse", {"AIRFLOW_CONN_WAREHOUSE": theirs.get_uri()}) == ours
