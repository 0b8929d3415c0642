"""A vLLM server on the loopback with a tiny random model, for tests and the benchmark."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers

from cdec.data import embedded_model_path

PROCESSOR = "cdec.integrations.vllm.v1:ConstraintProcessor"
MIDDLEWARE = "cdec.integrations.vllm.middleware.ConstraintMiddleware"
ENGINE = {"dtype": "float32", "enforce_eager": True, "max_model_len": 256, "max_num_seqs": 64}
"""What the engines of the tests have in common."""


def random_model(folder: Path) -> Path:
    """Write a random llama of 4,096 tokens, peaked so that rounding decides no greedy text."""
    source = Path(embedded_model_path())
    config = transformers.LlamaConfig(
        vocab_size=4096,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    torch.manual_seed(7)
    module = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.2)
    module.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / name, folder / name)
    return folder


def environment(**more: str) -> dict[str, str]:
    """Return the variables of a process that runs a small engine on a CPU."""
    small = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
    }
    return {**os.environ, **small, "VLLM_USE_V2_MODEL_RUNNER": "0", **more}


@contextmanager
def served(model: Path, settings: Path, log: Path, *more: str) -> Iterator[str]:
    """Run an OpenAI-compatible server; yields its address once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"]
    command += ["--enforce-eager", "--max-model-len", "256", "--max-num-seqs", "64"]
    command += ["--served-model-name", "tiny", "--logits-processors", PROCESSOR]
    command += ["--middleware", MIDDLEWARE, *more]
    address = f"http://127.0.0.1:{port}"
    with log.open("w") as written:
        process = subprocess.Popen(
            command, env=environment(CDEC_SERVING=str(settings)), stdout=written, stderr=written
        )
        try:
            _wait(process, address, log)
            yield address
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    began = time.monotonic()
    while time.monotonic() - began < 600:
        if process.poll() is not None:
            raise RuntimeError(log.read_text())
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise RuntimeError("the server does not answer\n" + log.read_text()[-3000:])


def ask(address: str, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return status and answer of one completion."""
    data = json.dumps({"model": "tiny", **body}).encode()
    request = urllib.request.Request(
        f"{address}/v1/completions", data, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
