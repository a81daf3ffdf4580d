# syntax=docker/dockerfile:1
# Two stages: the first makes the wheels, the second has only what runs.
FROM python:3.12-slim AS build
WORKDIR /build
COPY constraints.txt ./
COPY client client
COPY models models
COPY packages packages
COPY server server
RUN python -m venv /opt/recollect \
    && /opt/recollect/bin/pip install --no-cache-dir --constraint constraints.txt \
       "./client[web]" "./server[encryption,postgres,s3]"
# Nothing here fetches a model: tokenizers asks for what does. Nor does anything run tests of libraries, or install.
RUN /opt/recollect/bin/pip uninstall --yes --quiet filelock fsspec hf-xet huggingface-hub tqdm \
    && find /opt/recollect/lib -depth -type d \( -name tests -o -name SelfTest \) -exec rm -r {} + \
    && /opt/recollect/bin/pip uninstall --yes --quiet pip
# The commit of the sources, for versions: --build-arg COMMIT="$(git rev-parse HEAD)"
ARG COMMIT=""
RUN printf %s "$COMMIT" > "$(/opt/recollect/bin/python -c 'import recollect; print(recollect.__path__[0])')/COMMIT"

FROM python:3.12-slim
RUN useradd --system --uid 10001 --home-dir /data recollect \
    && mkdir -p /data /backups /run/recollect \
    && chown recollect /data /backups /run/recollect \
    && chmod 0700 /data /backups /run/recollect
COPY --from=build /opt/recollect /opt/recollect
USER 10001
# Reached through a Unix socket in a shared folder. With a certificate and a token it may listen on TCP too:
# RECOLLECT_LISTEN=unix:/run/recollect/recollect.sock,0.0.0.0:50051 RECOLLECT_TLS_CERT=… RECOLLECT_TLS_KEY=…
ENV PATH=/opt/recollect/bin:$PATH \
    RECOLLECT_DATA_DIR=/data \
    RECOLLECT_LISTEN=unix:/run/recollect/recollect.sock \
    RECOLLECT_LOG_FORMAT=json
EXPOSE 50051
VOLUME ["/data", "/run/recollect"]
# It imports for a second of processor: seldom, and with time.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["recollect-server", "health"]
STOPSIGNAL SIGTERM
ARG COMMIT=""
LABEL org.opencontainers.image.title="Recollect" \
    org.opencontainers.image.description="Keeps every conversation of an AI agent, streams it live, and finds it again." \
    org.opencontainers.image.vendor="Recollect contributors" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="0.1.0" \
    org.opencontainers.image.revision="$COMMIT"
ENTRYPOINT ["recollect-server"]
CMD ["serve"]
