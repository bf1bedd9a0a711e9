# syntax=docker/dockerfile:1
# `spinewise` as an image. Build and run: docs/operations.md, "In a container".
FROM python:3.11-slim AS build

# Extras of the image: pass --build-arg EXTRAS="" for none, or any others that pyproject.toml lists.
ARG EXTRAS="postgres,xlsx,duckdb"

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/spinewise
WORKDIR /src
COPY . .
RUN /opt/spinewise/bin/python -m pip install --constraint constraints.txt ".${EXTRAS:+[${EXTRAS}]}" \
    && /opt/spinewise/bin/python -m pip check

FROM python:3.11-slim

LABEL org.opencontainers.image.title="Spinewise" \
      org.opencontainers.image.licenses="Apache-2.0"

# A user without a password or privileges. The folders are open to any user id, so that `--user` of the caller works.
RUN useradd --uid 10001 --create-home --home-dir /home/spinewise --shell /usr/sbin/nologin spinewise \
    && mkdir -p /data /state \
    && chmod 1777 /home/spinewise /data /state
COPY --from=build /opt/spinewise /opt/spinewise

# The ledger lives in /state: mount a volume there, or it is lost with the container.
ENV PATH=/opt/spinewise/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HOME=/home/spinewise \
    XDG_STATE_HOME=/state \
    DO_NOT_TRACK=1 \
    PREFECT_SERVER_ANALYTICS_ENABLED=false \
    PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY=false

WORKDIR /data
USER spinewise
ENTRYPOINT ["spinewise"]
CMD ["--help"]
