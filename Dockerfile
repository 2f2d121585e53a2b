# Streamwarden with everything it runs on: the locked packages, Spark among them, a Java, and the drivers' class archive.
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install -y --no-install-recommends make openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/streamwarden
COPY . .
RUN make setup

RUN useradd --create-home --uid 1000 streamwarden \
    && mkdir -p /data/airflow /data/logs /data/streams \
    && chown -R streamwarden /data
USER streamwarden
ENV PATH=/opt/streamwarden/.venv/bin:$PATH
VOLUME /data
