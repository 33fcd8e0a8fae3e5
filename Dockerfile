# One image for web, scheduler, beat and node. For MI300X, build it on ROCm's own torch image, which is kept:
#   docker build --build-arg BASE=rocm/pytorch:latest .
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}
ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 DATA=/data
WORKDIR /app
COPY pyproject.toml constraints.txt README.md ./
COPY zaya_model zaya_model
COPY webapp webapp
COPY workers workers
COPY manage.py ./
RUN python -c "import torch" 2>/dev/null || pip install "torch==2.13.0"
RUN pip install -c constraints.txt -e '.[train,web]' && useradd --system --create-home zayaboard \
    && mkdir /data /runs && chown zayaboard /data /runs
USER zayaboard
VOLUME /data /runs
CMD ["uvicorn", "webapp.asgi:application", "--host=0.0.0.0", "--port=8000", "--timeout-graceful-shutdown=2", "--no-server-header"]
