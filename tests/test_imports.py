"""Heavy packages are imported where they are needed, and by nothing that can do without."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numpy", "pyarrow", "torch", "transformers", "numba")
CHAT = """
from cdec.core import load_model
model = load_model()
prompts = ["What is it?", [{"role": "user", "content": "it"}], "It"]
model.evaluate(model.prefill(prompts))
"""
OPTIONS = """
from cdec.cli.frame.registry import COMMANDS, options_class_of
for name in COMMANDS: options_class_of(name)
"""
WITHOUT = {
    "integrations": ("import cdec.integrations", HEAVY),
    "data": ("import cdec.data", (*HEAVY, "orjson")),
    "table of methods": ("from cdec.samplers.registry import SAMPLERS; list(SAMPLERS)", HEAVY),
    "options of commands": (OPTIONS, HEAVY),
    "entities of a text": (
        "import io; from cdec.data import read_entities; list(read_entities(io.BytesIO(b'a')))",
        ("pyarrow",),
    ),
    "interface of models": (
        "import cdec.core.models.base, cdec.core.models.tabular, cdec.core.models.loading",
        ("torch", "transformers"),
    ),
    "kinds of artifacts": ("import cdec.core.artifacts.opened", ("torch",)),
    "model and chat": (CHAT, ("transformers",)),
}


@pytest.mark.parametrize(
    "what",
    [pytest.param(w, marks=pytest.mark.slow) if w == "model and chat" else w for w in WITHOUT],
)
def test_what_can_do_without_a_package_does_not_import_it(what: str) -> None:
    code, packages = WITHOUT[what]
    code += f"\nimport sys; print(*{{*{packages!r}}} & {{*sys.modules}})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""
