"""URLs with passwords and signatures, typed wherever a file is: neither stored nor shown."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import fsspec
import numpy as np

from tests.cli import light
from tools.campaign.attack import Try
from tools.campaign.server import use_light_models
from tools.campaign.typed import typed

_SECRET = "hush7"
_USERS = ("", f"user:{_SECRET}@", f"{_SECRET}@", f"a:b:{_SECRET}@", f"user:%40{_SECRET}%3A@")
_PARAMETERS = (
    "sig", "key", "token", "X-Amz-Signature", "X-Amz-Security-Token", "api_key", "access_token",
    "password", "client_secret", "Credential",
)  # fmt: skip
_KINDS = ("memory://", "MEMORY://", "http://", "nosuch://", "memory:/")
_WAYS = (
    ("compile-set", "{}"), ("compile-set", "{}", "-o", "o.arrow", "--force"), ("inspect", "{}"),
    ("inspect", "{}", "--json"), ("check", "{}", "-i", "texts"), ("compile-set", "{}", "--force"),
    ("check", "letters.arrow", "-i", "{}"), ("compile-set", "texts", "--deny", "{}", "--force"),
    ("sample", "-a", "{}", "--prompt", "x", "--method", "masked", "-o", "s.jsonl", "--force"),
    ("sample", "-a", "letters.arrow", "-i", "{}", "--method", "masked", "-o", "s.jsonl", "--force"),
    ("sample", "-a", "letters.arrow", "--and", "{}", "--prompt", "x", "--method", "masked"),
    ("sample", "-a", "letters.arrow", "--prompt", "x", "--method", "masked", "-o", "{}"),
)  # fmt: skip


def open_urls(folder: Path) -> Try:
    """Return what types a URL with a secret in it, and looks for it in all that is left."""
    use_light_models()
    work = folder / "work"
    os.environ["CDEC_CACHE_DIR"] = str(folder / "cache")
    files = fsspec.filesystem("memory")

    def type_one(seed: int) -> str:
        rng = np.random.default_rng(seed)
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        os.chdir(work)
        light.compile_letters(work / "letters.arrow")
        (work / "texts").write_text("Berlin\n")
        name = str(rng.choice(["t.txt", "letters.arrow", "gone.txt"]))
        url = _url(rng, name)
        there = {"t.txt": b"a\nab\n", "letters.arrow": (work / "letters.arrow").read_bytes()}
        if name in there and url.lower().startswith("memory://"):
            files.pipe("/" + url[9:], there[name])
        words = _WAYS[int(rng.integers(len(_WAYS)))]
        status, said = typed([word.format(url) for word in words], folder / "said", seed)
        assert _SECRET not in said, (seed, words, url, said)
        _look_through(folder, (seed, words, url))
        files.store.clear()
        return f"{words[0]}: {'done' if status == 0 else said.partition('error ')[2].split(':')[0]}"

    return type_one


def _url(rng: np.random.Generator, name: str) -> str:
    kind = str(rng.choice(_KINDS))
    host = "127.0.0.1:9" if kind == "http://" else "bucket"
    user = _USERS[int(rng.integers(len(_USERS)))]
    names = rng.choice(_PARAMETERS, size=int(rng.integers(0, 4)), replace=False)
    query = "&".join(f"{parameter}={_SECRET}" for parameter in names)
    return f"{kind}{user}{host}/{name}{'?' if query else ''}{query}"


def _look_through(folder: Path, what: object) -> None:
    """Look for the secret in every file, its name too."""
    for path in folder.rglob("*"):
        assert _SECRET not in path.name, (what, path)
        if path.is_file() and "kernels" not in path.parts:
            assert _SECRET.encode() not in path.read_bytes(), (what, path)
