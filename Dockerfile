# Streamwarden with everything it runs on: the locked packages, Spark among them, a Java, the drivers' class archive and
# the jars for topics and object stores. Every container of docker-compose.yaml runs it, apart from the servers.
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install -y --no-install-recommends make openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/streamwarden
COPY . .
# The image's user can read the checkout and cannot change it, whatever permissions it had.
RUN make setup \
    && .venv/bin/python -m compileall -q src spark_jobs \
    && chmod -R a+rX .

# The jars go into the environment, next to Spark, and not below /data: a volume there would hide them.
RUN apt-get update \
    && apt-get install -y --no-install-recommends maven \
    && .venv/bin/streamwarden prepare --kafka \
    && .venv/bin/streamwarden prepare --s3 \
    && apt-get purge -y --auto-remove maven \
    && rm -rf /root/.m2 /var/lib/apt/lists/*

RUN useradd --create-home --uid 1000 streamwarden \
    && mkdir -p /data/airflow /data/logs /data/streams \
    && chown -R streamwarden /data
ENV PATH=/opt/streamwarden/.venv/bin:$PATH
VOLUME /data

# On Kubernetes it is the image of Spark's pods, too, which are started with `driver …` or `executor`. Their first process
# reaps what a driver leaves, and a number as the user lets a pod demand that it is not root.
RUN apt-get update && apt-get install -y --no-install-recommends tini && rm -rf /var/lib/apt/lists/*
USER 1000
ENTRYPOINT ["tini", "-s", "--", "/opt/streamwarden/packaging/kubernetes/entrypoint.sh"]
