"""The two embedded architectures, and the fast parts of their training on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

CONTEXT = 2048
VOCABULARY = 4096

SHAPES: dict[str, dict[str, int]] = {
    "target": {
        "hidden_size": 256,
        "intermediate_size": 704,
        "num_hidden_layers": 5,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
    },
    "draft": {
        "hidden_size": 96,
        "intermediate_size": 192,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
    # For tests: trains in seconds.
    "tiny": {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    },
}


def build_model(shape: str, vocabulary_size: int, seed: int) -> Any:
    """Create an untrained ``LlamaForCausalLM``.

    Args:
        shape: Key of ``SHAPES``.
        vocabulary_size: Rows of the embedding, which is tied to the output layer.
        seed: Seed of the initial weights.

    Returns:
        The model in float32 on the CPU.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary_size,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
        **SHAPES[shape],
    )
    return LlamaForCausalLM(config)


def causal_matmul_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **_: object,
) -> tuple[Tensor, None]:
    """Attend causally by plain matrix products.

    The backward pass of the fused CPU kernel is several times slower than bfloat16 matrix
    products at the short lengths that most of the training uses.

    Args:
        module: The layer; unused.
        query: [batch, heads, length, width].
        key: [batch, key heads, length, width].
        value: [batch, key heads, length, width].
        attention_mask: Ignored: packed rows have no padding.
        scaling: Factor of the scores.
        dropout: Ignored.

    Returns:
        [batch, length, heads, width], and no weights.
    """
    batch, heads, length, width = query.shape
    groups = key.shape[1]
    rows = heads // groups * length
    scores = (query.reshape(batch, groups, rows, width) * scaling) @ key.transpose(2, 3)
    future = torch.full((length, length), float("-inf"), dtype=query.dtype).triu(1)
    weights = torch.softmax(scores.view(batch, heads, length, length) + future, dim=-1)
    mixed = weights.view(batch, groups, rows, length) @ value
    return mixed.view(batch, heads, length, width).transpose(1, 2).contiguous(), None


def register_attention() -> str:
    """Make ``causal_matmul_attention`` known to transformers and return its name."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    name = "causal_matmul"
    ALL_ATTENTION_FUNCTIONS[name] = causal_matmul_attention
    ALL_MASK_ATTENTION_FUNCTIONS[name] = lambda *_, **__: None
    return name


class ChunkedCrossEntropy(torch.autograd.Function):
    """The autograd node behind ``chunked_cross_entropy``."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, weights: Tensor, chunk: int
    ) -> Tensor:
        """Compute the loss and keep its gradients for ``backward``."""
        rows, shares = hidden.shape[0], weights / weights.sum()
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros(weight.shape, dtype=torch.float32)
        total = torch.zeros(())
        for start in range(0, rows, chunk):
            part, target = hidden[start : start + chunk], labels[start : start + chunk, None]
            share = shares[start : start + chunk, None]
            logits = (part @ weight.t()).float()
            logits.sub_(logits.amax(1, keepdim=True))
            wanted = logits.gather(1, target)
            logits.exp_()
            norm = logits.sum(1, keepdim=True)
            total += ((norm.log() - wanted) * share).sum()
            logits.mul_(share / norm)
            logits.scatter_add_(1, target, -share)
            gradient = logits.to(hidden.dtype)
            grad_hidden[start : start + chunk] = gradient @ weight
            grad_weight += gradient.t() @ part
        ctx.save_for_backward(grad_hidden, grad_weight.to(weight.dtype))
        return total

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        """Scale the gradients kept by ``forward``."""
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grad_outputs[0], grad_weight * grad_outputs[0], None, None, None


def chunked_cross_entropy(
    hidden: Tensor, weight: Tensor, labels: Tensor, weights: Tensor, chunk: int = 1024
) -> Tensor:
    """Compute the weighted mean next-token loss with the logits of a few rows in memory at a time.

    The gradient is taken in the forward pass, chunk by chunk, so the [rows, vocabulary] matrix,
    which costs more time to page in than to multiply, never exists.

    Args:
        hidden: [rows, width] last hidden states.
        weight: [vocabulary, width] output layer.
        labels: int64[rows] next tokens.
        weights: float32[rows] weight of each row.
        chunk: Rows at a time.

    Returns:
        The mean loss in nats, a float32 scalar.
    """
    # torch leaves ``Function.apply`` untyped.
    apply: Callable[..., Tensor] = ChunkedCrossEntropy.apply
    return apply(hidden, weight, labels, weights, chunk)
