"""What free text costs: the model reads the prompt and each token of it once."""

from __future__ import annotations

import pytest

from cdec.core import FreeText
from cdec.core.models.wrapping import wrap_module
from cdec.samplers import SAMPLERS, Request
from tests.core.models.tiny_models import VOCABULARY, tiny_module
from tests.laws.toys import toy_set

ROWS = [[20, 21, 22], [20, 30], [40]]
PROMPT = [5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
@pytest.mark.parametrize(
    "free",
    [FreeText(after=("\x07",), budget=9), FreeText(between=("\x07", "\x0b"), regions=3, budget=4)],
    ids=["after", "between"],
)
def test_every_token_is_read_once(name: str, free: FreeText) -> None:
    model = wrap_module(tiny_module(name), VOCABULARY)
    constraint, read = toy_set(ROWS, VOCABULARY), 0
    for seed in range(4):
        request = Request.numbered(
            PROMPT, constraint, id=1, n=1, seed=seed, max_new_tokens=40, free=free
        )
        (samples,) = SAMPLERS["masked"]().draw_batch(model, [request])
        assert isinstance(samples, list)
        (sample,) = samples
        now, read = model.total_usage.tokens - read, model.total_usage.tokens
        # A decoder's first token is of no prompt.
        assert sample.target_tokens == now - (name == "t5")
        # Behind a region its own tokens are read again.
        regions = () if free.end is None else sample.regions
        again = sum(region["tokens"] for region in regions)
        # A text that the model ends before it has a token is forced from its prompt on.
        again += len(PROMPT) if sample.forced else 0
        assert now <= len(sample.token_ids) + len(PROMPT) + 1 + again
    assert model.tree.live == 0
