# feedproxy in a container, in two stages: the first builds, the second has only what runs.
#
#   docker build -t feedproxy .
#   docker run -p 127.0.0.1:8080:8080 -v feedproxy-store:/var/cache/feedproxy -v feedproxy-ca:/var/lib/feedproxy \
#     --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges --memory 2g --pids-limit 512 \
#     --stop-timeout 30 feedproxy
#
# feedproxy completes requests in progress within 20 s. Docker alone would kill it after 10 s.
#
# The admin listener is on the container's own loopback: `docker exec NAME feedproxy status`. To have it from
# outside: docker run -p 127.0.0.1:8081:8081 -e FEEDPROXY_ADMIN=0.0.0.0:8081 -e FEEDPROXY_ADMIN_TOKEN=SECRET …
#
# Set other options in the same way. A command after the image's name replaces CMD below, with the places of the
# store and of the CA.

# By digest, so that the same is built tomorrow; `make image-digests` renews it (Python 3.13.15 on Debian trixie now).
ARG BASE=python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${BASE} AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore

# Every file is checked against its hash here; what is installed below can come from nowhere else.
COPY constraints.txt ./
RUN python -m venv /build && /build/bin/pip wheel --quiet --require-hashes -r constraints.txt -w /wheels \
 && /build/bin/pip install --quiet --no-index --find-links /wheels setuptools

COPY pyproject.toml MANIFEST.in README.md LICENSE ./
COPY feedproxy feedproxy
COPY addons addons
# The manual page and the completions, which the wheel contains.
COPY conf/share conf/share
RUN /build/bin/pip wheel --quiet --no-deps --no-build-isolation -w /dist . \
 && python -m venv /opt/feedproxy \
 && /opt/feedproxy/bin/pip install --quiet --no-index --find-links /wheels "$(echo /dist/*.whl)[redis]" \
 && /opt/feedproxy/bin/python -m compileall -q /opt/feedproxy/lib \
 && /opt/feedproxy/bin/pip uninstall --quiet --yes pip


FROM ${BASE}
COPY --from=build /opt/feedproxy /opt/feedproxy
# The second folder holds mitmproxy's CA, which is made at the first start and must outlive the container.
RUN useradd --system --uid 10001 --home-dir /var/lib/feedproxy --shell /usr/sbin/nologin feedproxy \
 && install -d -o feedproxy -g feedproxy -m 0750 /var/cache/feedproxy /var/lib/feedproxy
ENV PATH=/opt/feedproxy/bin:$PATH HOME=/var/lib/feedproxy PYTHONUNBUFFERED=1
# By number, so that Kubernetes can check runAsNonRoot.
USER 10001
WORKDIR /var/lib/feedproxy
VOLUME ["/var/cache/feedproxy", "/var/lib/feedproxy"]
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=15s \
    CMD ["python", "-c", "import urllib.request as u; u.build_opener(u.ProxyHandler({})).open('http://127.0.0.1:8081/readyz', timeout=4)"]
ENTRYPOINT ["feedproxy"]
CMD ["serve", "--listen", "0.0.0.0:8080", "--store", "/var/cache/feedproxy", "--set", "confdir=/var/lib/feedproxy"]
