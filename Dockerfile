# Streamwarden with everything it runs on: the locked packages, Spark among them, a Java, the drivers' class archive and
# the jars for topics and object stores. Every container of docker-compose.yaml runs it, apart from the servers.
#
# The source comes last: after a change of it, a build takes seconds and adds a layer of a few megabytes.
FROM python:3.11-slim-bookworm AS tools
COPY packaging/uv.txt /tools/
RUN python3.11 -m venv /tools \
    && /tools/bin/pip install --quiet --no-cache-dir --require-hashes -r /tools/uv.txt

FROM python:3.11-slim-bookworm AS environment
# The folder of manuals: Java's package cannot be set up without it, and slim images may lack it.
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/* /usr/lib/jvm/java-17-*/lib/ct.sym

RUN useradd --create-home --uid 1000 streamwarden \
    && mkdir -p /data/airflow /data/logs /data/streams \
    && chown -R streamwarden /data

# Of the lock, what Streamwarden needs to run. uv compares each file with the lock's hashes, and stays out of the image. So
# do the packages' own tests, headers and scripts in the form before their minification, RocksDB for other systems, and
# Arrow's server Flight, which nothing here speaks to. The bytecode of Kubernetes' clients (62 MB) stays: Airflow's Spark
# provider imports both at each reading of dags/streams.py, which takes 4.5 s of processor with it and 6.8 s without.
WORKDIR /opt/streamwarden
COPY packaging/image packaging/image
COPY packaging/pyspark-client packaging/pyspark-client
COPY requirements.txt .
RUN --mount=type=bind,from=tools,source=/tools,target=/tools \
    python3.11 -m venv --without-pip .venv \
    && python3.11 packaging/image/runtime_lock.py requirements.txt > /tmp/requirements.txt \
    && /tools/bin/uv pip sync --quiet --no-cache --compile-bytecode --python .venv/bin/python /tmp/requirements.txt \
    && rm /tmp/requirements.txt \
    && cd .venv/lib/python3.11/site-packages \
    && python3.11 /opt/streamwarden/packaging/image/one_platform.py pyspark/jars \
    && find numpy pandas pyarrow scipy tornado -type d '(' -name test -o -name tests ')' -prune -exec rm -r {} + \
    && find bokeh/server/static/js -name '*.js' ! -name '*.min.js' -delete \
    && rm -r pyarrow/include pyarrow/*flight*
ENV PATH=/opt/streamwarden/.venv/bin:$PATH

# The jars and the archive go into the environment, next to Spark, and not below /data: a volume there would hide them.
# They do not change with the source, so the cache keeps them, and the copies in the last stage stay the same layers.
FROM environment AS prepared
RUN apt-get update && apt-get install -y --no-install-recommends maven
COPY src src
ENV PYTHONPATH=/opt/streamwarden/src
RUN --mount=type=cache,target=/kept --mount=type=cache,target=/root/.m2 \
    mkdir -p .venv/share \
    && if [ -d /kept/streamwarden ]; then cp -a /kept/streamwarden .venv/share/; fi \
    && python -m streamwarden.cli prepare \
    && python -m streamwarden.cli prepare --kafka --s3 \
    && rm -rf /kept/streamwarden && cp -a .venv/share/streamwarden /kept/

FROM environment
COPY --from=prepared /opt/streamwarden/.venv/share/streamwarden .venv/share/streamwarden
COPY pyproject.toml README.md LICENSE ./
RUN --mount=type=bind,from=tools,source=/tools,target=/tools \
    mkdir -p src/streamwarden && touch src/streamwarden/__init__.py \
    && /tools/bin/uv pip install --quiet --no-cache --no-deps --python .venv/bin/python --editable .
COPY . .
# The image's user can read the checkout and cannot change it, whatever permissions it had.
RUN chmod -R a+rX config dags packaging plugins spark_jobs src \
    && python -m compileall -q src spark_jobs
# On Kubernetes it is the image of Spark's pods, too, which are started with `driver …` or `executor`. Their first process
# reaps what a driver leaves, and a number as the user lets a pod demand that it is not root.
USER 1000
VOLUME /data
ENTRYPOINT ["tini", "-s", "--", "/opt/streamwarden/packaging/kubernetes/entrypoint.sh"]
