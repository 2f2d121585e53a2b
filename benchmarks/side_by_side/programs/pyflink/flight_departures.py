"""`flight_departures` in Flink SQL: no row crosses to Python."""

from __future__ import annotations

from pyflink.table import EnvironmentSettings, TableEnvironment
from settings import configuration, given

FLIGHTS = """
CREATE TABLE flights (
    flight_id STRING, event_time TIMESTAMP_LTZ(3), origin STRING, carrier STRING, dest STRING, tailnum STRING,
    departed_at TIMESTAMP_LTZ(3), dep_delay INT,
    WATERMARK FOR event_time AS event_time - INTERVAL '2' HOUR
) WITH (
    'connector' = 'kafka', 'topic' = '{source}', 'properties.bootstrap.servers' = '{servers}',
    'scan.startup.mode' = 'earliest-offset', 'scan.parallelism' = '{partitions}',
    'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601', 'json.ignore-parse-errors' = 'true'
)"""
WINDOWS = """
CREATE TABLE windows (
    window_start TIMESTAMP(3), window_end TIMESTAMP(3), origin STRING, carrier STRING, flights BIGINT,
    departures BIGINT, cancellations BIGINT, delay_minutes BIGINT
) WITH (
    'connector' = 'kafka', 'topic' = '{sink}', 'properties.bootstrap.servers' = '{servers}',
    'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601',
    'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{sink}',
    'properties.transaction.timeout.ms' = '600000'
)"""
QUERY = """
INSERT INTO windows
SELECT window_start, window_end, origin, carrier, COUNT(*), COUNT(departed_at), COUNT(*) - COUNT(departed_at),
    COALESCE(SUM(CAST(dep_delay AS BIGINT)), 0)
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(event_time), INTERVAL '15' MINUTE, INTERVAL '1' HOUR))
WHERE flight_id IS NOT NULL AND origin IS NOT NULL AND carrier IS NOT NULL
GROUP BY window_start, window_end, origin, carrier"""

if __name__ == "__main__":
    of = given()
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration(of)).build()
    tables = TableEnvironment.create(settings)
    for statement in (FLIGHTS, WINDOWS):
        tables.execute_sql(statement.format(**vars(of)))
    tables.execute_sql(QUERY).wait()
