# docker build -t cdec . && docker run --rm cdec            (the demo)
# docker run --rm -v "$PWD:/work" cdec compile-set cities.txt
FROM python:3.11-slim AS wheel
COPY . /src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /src

FROM python:3.11-slim
RUN useradd --create-home --home-dir /home/cdec cdec \
    && mkdir /work && chown cdec /work
COPY constraints.txt /tmp/
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir -c /tmp/constraints.txt /wheels/*.whl \
    && rm -r /wheels /tmp/constraints.txt
USER cdec
WORKDIR /work
ENTRYPOINT ["cdec"]
CMD ["demo"]
