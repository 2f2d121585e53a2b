"""The jobs that are compared: one line each."""

from benchmarks.side_by_side.jobs import device_heartbeats, flight_departures, user_sessions
from benchmarks.side_by_side.jobs.job import Job

JOBS: dict[str, Job] = {job.name: job for job in (flight_departures.JOB, user_sessions.JOB, device_heartbeats.JOB)}
