"""Compiled steps: one new token behind each row, run by torch.compile over the rows' buffers.

The buffers are the static cache: tensors of fixed shape, of which a step writes one column, and
hides those that hold nothing. On a device the steps are CUDA graphs. Imports torch: import it
lazily.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch._dynamo import mark_static_address
from torch._dynamo.exc import TorchDynamoException

from cdec.core.errors import ExtraMissingError, ModelError
from cdec.core.models.transformers.llama import Llama, StaticCache

_Layers = Sequence[tuple[Tensor, Tensor]]
_SHAPES = 64
"""Times that a step may be compiled: one row, several, full buffers and others are told apart."""
_HINT = "Install a C++ compiler (g++), or leave out `compile`."


class CompiledStep:
    """The step of a decoder, compiled when it is first run: seconds, once for one row and once
    for several.

    Args:
        module: The decoder.
        backend: Of torch.compile.

    Raises:
        ExtraMissingError: There is no C++ compiler on a host that needs one.
    """

    def __init__(self, module: Llama, backend: str = "inductor") -> None:
        self._module = module
        if backend == "inductor" and not module.embedding.weight.is_cuda:
            _require_compiler()
        self._failure: ModelError | None = None
        is_graphed = backend == "inductor" and module.embedding.weight.is_cuda
        mode = "reduce-overhead" if is_graphed else None
        self._run: Callable[..., Tensor] = torch.compile(
            self._step, dynamic=True, fullgraph=True, backend=backend, mode=mode
        )
        self._is_graphed = is_graphed

    def __call__(
        self, tokens: Tensor, positions: Tensor, layers: _Layers, bias: Tensor, column: int
    ) -> Tensor:
        """Return the scores after one more token of each row, float[B, V].

        Args:
            tokens, positions: int64[B, 1].
            layers: Keys and values [B, groups, C, head size] of each layer; written.
            bias: float[B, 1, 1, C], -inf for columns that hold nothing; 0 is written for the new.
            column: Where the new token stands; no position is higher.

        Raises:
            ModelError: torch cannot compile here.
        """
        if self._failure is not None:
            raise self._failure
        rotations = self._module.rotations(column + 1)
        place = torch.tensor([column], device=tokens.device)
        if self._is_graphed:
            # Tensors that stay where they are need no copies.
            for part in (*rotations, *(part for layer in layers for part in layer)):
                mark_static_address(part)
        try:
            with torch._dynamo.config.patch(recompile_limit=_SHAPES):
                found = self._run(tokens, positions, rotations, bias, layers, place)
        except TorchDynamoException as error:
            first = str(error).strip().partition("\n")[0]
            self._failure = ModelError(
                f"torch cannot compile the model here: {first or type(error).__name__}",
                hint=_HINT,
            )
            raise self._failure from error
        # subtle: the next run of a graph writes its results where these lie.
        return found.clone() if self._is_graphed else found

    def _step(
        self,
        tokens: Tensor,
        positions: Tensor,
        rotations: tuple[Tensor, Tensor],
        bias: Tensor,
        layers: _Layers,
        column: Tensor,
    ) -> Tensor:
        cache = StaticCache(layers, column)
        return self._module.step(tokens, positions, rotations, bias, cache)


def _require_compiler() -> None:
    from torch._inductor import cpp_builder, exc

    try:
        cpp_builder.get_cpp_compiler()
    except exc.InvalidCxxCompiler as error:
        raise ExtraMissingError(
            "`compile` needs a C++ compiler, and none is found", hint=_HINT
        ) from error
