# docker build -t cdec . && docker run --rm cdec            (the demo)
# docker run --rm -v "$PWD:/work" cdec compile-set cities.txt
FROM python:3.11-slim
RUN useradd --create-home --home-dir /home/cdec cdec \
    && mkdir /work && chown cdec /work
COPY . /src
RUN pip install --no-cache-dir \
    -c /src/constraints.txt /src \
    && rm -rf /src
USER cdec
# Kernels are compiled on first use and kept in this user's cache; the demo does it once.
RUN cdec demo > /dev/null
WORKDIR /work
ENTRYPOINT ["cdec"]
CMD ["demo"]
