# The operator with the command line, and the job that Spark runs for a FleetRanking. From the root of the checkout:
#   docker build .
#   docker build --target fleet-job .
# BASE is any Debian 12; name it by digest where builds must repeat. docs/how-to/images.md says what is inside.
ARG BASE=debian:bookworm-slim
# As pyproject.toml has it, or the build ends.
ARG VERSION=0.1.0
# Only labels, of who publishes: the address of the repository, of its documentation, the commit, and when it was built.
ARG SOURCE
ARG DOCUMENTATION
ARG REVISION
ARG CREATED

FROM ${BASE} AS python
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates python3 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/log/*.log /var/log/apt \
 && groupadd --gid 65532 kafka-recovery \
 && useradd --uid 65532 --gid 65532 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin kafka-recovery

FROM python AS java
# Debian's slim images have no folder for manuals, and Java's package links into it.
RUN mkdir -p /usr/share/man/man1 \
 && apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/log/*.log /var/log/apt

FROM python AS tools
# For builds behind a proxy or a mirror; empty, they say nothing.
ARG PIP_CERT
ARG PIP_INDEX_URL
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv
COPY requirements/build.txt /src/requirements/build.txt
RUN python3 -m venv /build \
 && /build/bin/pip install --no-cache-dir --require-hashes --only-binary :all: --requirement /src/requirements/build.txt

FROM tools AS wheel
ARG VERSION
ARG SOURCE
COPY pyproject.toml hatch_build.py README.md LICENSE NOTICE /src/
COPY operator /src/operator
COPY spark /src/spark
RUN cd /src \
 && said=$(/build/bin/hatchling version) \
 && if [ "${VERSION}" != "$said" ]; then \
      echo "--build-arg VERSION is '${VERSION}', and pyproject.toml says $said: give the latter" >&2; exit 1; \
    fi \
 && REPOSITORY_URL="${SOURCE}" /build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheel /src

FROM tools AS fleet-job-packages
ARG PIP_CERT
ARG PIP_INDEX_URL
# Of pyspark there is only an archive of sources. It is checked by its hash like the rest, then built.
COPY requirements/spark.txt /src/requirements/spark.txt
RUN /build/bin/pip wheel --no-cache-dir --no-build-isolation --wheel-dir /build/spark \
    --require-hashes --only-binary :all: --no-binary pyspark --requirement /src/requirements/spark.txt \
 && python3 -m venv --without-pip /opt/kafka-recovery \
 && /build/bin/pip --python /opt/kafka-recovery install --no-cache-dir --no-deps --no-index /build/spark/*.whl \
 && rm -r /build/spark
COPY requirements/trim-pyarrow.sh spark/trim-spark.sh /src/
RUN sh /src/trim-pyarrow.sh /opt/kafka-recovery && sh /src/trim-spark.sh /opt/kafka-recovery
COPY --from=wheel /wheel /wheel
RUN /build/bin/pip --python /opt/kafka-recovery install --quiet --no-cache-dir --no-deps --no-index /wheel/*.whl \
 && /build/bin/cyclonedx-py environment --output-reproducible --output-format JSON \
    --output-file /opt/kafka-recovery/sbom.cdx.json /opt/kafka-recovery/bin/python

FROM tools AS operator-packages
ARG PIP_CERT
ARG PIP_INDEX_URL
COPY requirements/operator.txt /src/requirements/operator.txt
RUN python3 -m venv --without-pip /opt/kafka-recovery \
 && /build/bin/pip --python /opt/kafka-recovery install --no-cache-dir \
    --require-hashes --only-binary :all: --requirement /src/requirements/operator.txt
COPY requirements/trim-pyarrow.sh /src/
RUN sh /src/trim-pyarrow.sh /opt/kafka-recovery
COPY --from=wheel /wheel /wheel
RUN /build/bin/pip --python /opt/kafka-recovery install --quiet --no-cache-dir --no-deps --no-index /wheel/*.whl \
 && /build/bin/cyclonedx-py environment --output-reproducible --output-format JSON \
    --output-file /opt/kafka-recovery/sbom.cdx.json /opt/kafka-recovery/bin/python

FROM java AS fleet-job
ARG BASE
ARG VERSION
ARG SOURCE
ARG DOCUMENTATION
ARG REVISION
ARG CREATED
LABEL org.opencontainers.image.title="kafka-recovery-fleet-job" \
      org.opencontainers.image.description="Ranks the partitions of a fleet of Kafka clusters on Spark." \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.url="${SOURCE}" \
      org.opencontainers.image.documentation="${DOCUMENTATION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="${BASE}"
COPY --from=fleet-job-packages /opt/kafka-recovery /opt/kafka-recovery
COPY spark/fleet_job.py /opt/kafka-recovery/fleet_job.py
COPY spark/entrypoint.sh /opt/entrypoint.sh
# Without LANG Java garbles letters in a job's last words.
ENV LANG=C.UTF-8 PATH=/opt/kafka-recovery/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 \
    JAVA_HOME=/opt/kafka-recovery/java SPARK_HOME=/opt/kafka-recovery/spark PYSPARK_PYTHON=/opt/kafka-recovery/bin/python
# By number: Kubernetes proves runAsNonRoot by that alone. Hadoop's login wants a passwd entry.
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["/opt/entrypoint.sh"]

# Last, so that it is what `docker build .` makes.
FROM python AS operator
ARG BASE
ARG VERSION
ARG SOURCE
ARG DOCUMENTATION
ARG REVISION
ARG CREATED
LABEL org.opencontainers.image.title="kafka-recovery-operator" \
      org.opencontainers.image.description="Brings offline Kafka partitions back with the best replica that is left, and explains every choice." \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.url="${SOURCE}" \
      org.opencontainers.image.documentation="${DOCUMENTATION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="${BASE}"
COPY --from=operator-packages /opt/kafka-recovery /opt/kafka-recovery
ENV LANG=C.UTF-8 PATH=/opt/kafka-recovery/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# By number: Kubernetes proves runAsNonRoot by that alone. Its passwd entry is for libraries that ask who they are.
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["kafka-recovery-operator"]
