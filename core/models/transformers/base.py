"""Language models of the transformers library: their base, and those without a key-value cache.

Recurrent and hybrid models (RWKV, Mamba and their kin) carry a state that can be neither cut nor
shared by position, so prefixes are computed whole; RWKV's go on from the states of the last passes.
Imports torch: import it lazily.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cdec.core.models.base import Budget, TreeModel
from cdec.core.models.context_tree import NONE
from cdec.core.models.language_model import Contexts, Prompt, event_rounding

if TYPE_CHECKING:
    from cdec.core.models.prompts import PromptEncoder
    from cdec.core.tokens.vocabulary import Vocabulary

_VALUES_PER_TENSOR = 256
"""Values of each tensor that are looked at, evenly spread: training moves all of them."""
_NOT_THE_LAW = frozenset(
    {"_name_or_path", "name_or_path", "transformers_version", "_commit_hash", "architectures"}
    | {"_attn_implementation_autoset", "attn_implementation", "use_cache", "torch_dtype", "dtype"}
)
"""Settings that change no distribution; precisions are those of the tensors."""
_USUAL = Budget()


def arithmetic_of(weights: Tensor) -> str:
    """Return the dtype in whose digits weights are multiplied, ``float32`` say."""
    dtype, device = weights.dtype, weights.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    if dtype != torch.float32:
        return str(dtype).removeprefix("torch.")
    try:
        asked = torch.get_float32_matmul_precision()
    except RuntimeError:  # Backends were told one by one; what they may do then is not asked.
        asked = "medium"
    # TF32 has as many digits as float16.
    return {"highest": "float32", "high": "float16"}.get(asked, "bfloat16")


class TransformersModel(TreeModel):
    """Base of the models that run a transformers module.

    Scores are float32 tensors on the model's device, whatever the weights' dtype.

    Args:
        module: The model, in evaluation mode, its weights on their devices.
        vocabulary: Of the logits' width.
        prompts: Turns prompts into token ids.
        context_length: Tokens of prompt and text together; None where unbounded.
        budget: What it may compute at once, and keep.
    """

    def __init__(
        self,
        module: Any,
        vocabulary: Vocabulary,
        prompts: PromptEncoder,
        *,
        context_length: int | None,
        budget: Budget = _USUAL,
    ) -> None:
        weights = module.get_input_embeddings().weight
        device = weights.device
        super().__init__(
            vocabulary,
            device=str(device),
            context_length=context_length,
            cache_bytes=budget.cache_bytes,
        )
        self._weights: Tensor = weights
        self._own_rounding: float | None = None
        self.budget = budget
        self._module = module
        self._prompts = prompts
        self.prompt_form = prompts.form
        self.chat_template = prompts.template
        self._device = device
        self._accepts = frozenset(inspect.signature(module.forward).parameters)
        keeps = ("logits_to_keep", "num_logits_to_keep")
        self._keeps = next((name for name in keeps if name in self._accepts), None)

    @property
    def event_rounding(self) -> float:
        """Nats by which log P of an event may differ: of the arithmetic in use, unless it was set.

        The weights' own, or what torch was told to multiply them in: autocast, TF32.
        """
        own = self._own_rounding
        return event_rounding(arithmetic_of(self._weights)) if own is None else own

    @event_rounding.setter
    def event_rounding(self, nats: float) -> None:
        self._own_rounding = nats

    def fingerprint(self) -> str:
        """Return 64 hexadecimal digits that tell the model's weights and settings from another's.

        Looked at are the configuration, and of each tensor its name, shape, precision and some
        ``_VALUES_PER_TENSOR`` values: enough to tell any two trained models apart, not a proof
        against a model that was made to deceive. Cost: tens of milliseconds.
        """
        # Not how the weights are run, with or without a cache, but what they are.
        module = self._module
        identity = getattr(module, "identity", None) or (type(module).__name__, module.state_dict())
        digest = hashlib.sha256(identity[0].encode())
        settings = {k: v for k, v in module.config.to_dict().items() if k not in _NOT_THE_LAW}
        digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
        for name, tensor in sorted(identity[1].items()):
            _add_tensor(digest, name, tensor)
        return digest.hexdigest()

    def encode_prompt(self, prompt: Prompt) -> list[int]:
        """Return a prompt's token ids; see ``PromptEncoder.encode``."""
        return self._prompts.encode(prompt)

    def _forward(self, nodes: Contexts) -> Tensor:
        parts = [
            self._evaluate_chunk(nodes[first : first + self.budget.max_batch_rows])
            for first in range(0, len(nodes), self.budget.max_batch_rows)
        ]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return torch.empty((0, self.vocabulary.width), device=self._device)
        return torch.cat(parts)

    @abstractmethod
    def _evaluate_chunk(self, nodes: Contexts) -> Tensor:
        """Return the logits after at most ``max_batch_rows`` contexts, float32[M, V]."""

    def _tensor(self, array: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def _keep(self, count: int) -> dict[str, Any]:
        """Return the argument that asks for the logits of the last ``count`` columns alone."""
        return {} if self._keeps is None else {self._keeps: count}


_LOGITS_BYTES = 256 << 20
"""Bytes of float32 logits a forward pass, all its rows and columns; a single row may take more."""


class FullForwardModel(TransformersModel):
    """A causal model that reads each sequence from its beginning; O(length) a new token."""

    def _evaluate_chunk(self, nodes: Contexts) -> Tensor:
        positions = self._positions(nodes)
        columns = len(np.unique(positions))
        if "logits_to_keep" not in self._accepts:
            columns = int(positions.max()) + 1
        size = 4 * len(nodes) * columns * self.vocabulary.width
        if len(nodes) == 1 or size <= _LOGITS_BYTES:
            return self._run(nodes)
        # subtle: every row gives logits at the columns of all rows, so those of similar lengths
        # go together: 256 rows of 256 lengths would be the square of what is asked for.
        order = np.argsort(positions, kind="stable")
        halves = np.split(order, [len(order) // 2])
        scores = torch.cat([self._evaluate_chunk(nodes[half]) for half in halves])
        return scores[self._tensor(np.argsort(order))]

    def _positions(self, nodes: Contexts) -> NDArray[np.int64]:
        """Return the column of each context's last token, int64[n]."""
        start: NDArray[np.int64] = self._tree.of_root("start", nodes)
        return start + self._tree.depth[nodes] - 1

    def _run(self, nodes: Contexts) -> Tensor:
        """Return the logits after ``nodes`` from one forward pass, float32[M, V]."""
        rows, batch, positions = self._sequences(nodes)
        lengths = np.array([len(row) for row in rows], np.int64)
        tokens = np.zeros((len(rows), int(lengths.max())), np.int64)
        for i, row in enumerate(rows):
            tokens[i, : len(row)] = row
        # Logits at the needed columns alone, where the model takes a list of them.
        columns, column = np.unique(positions, return_inverse=True)
        arguments: dict[str, Any] = {}
        if "logits_to_keep" in self._accepts:
            arguments["logits_to_keep"] = self._tensor(columns)
        else:
            column = positions
        if "attention_mask" in self._accepts and (lengths < tokens.shape[1]).any():
            mask = np.arange(tokens.shape[1]) < lengths[:, None]
            arguments["attention_mask"] = self._tensor(mask.astype(np.int64))
        if "use_cache" in self._accepts:
            arguments["use_cache"] = False
        with torch.no_grad():
            output = self._module(input_ids=self._tensor(tokens), return_dict=True, **arguments)
        logits: Tensor = output.logits[self._tensor(batch), self._tensor(column.reshape(-1))]
        return logits.to(self._device).float()

    def _sequences(
        self, nodes: Contexts
    ) -> tuple[list[list[int]], NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows that cover ``nodes``, and for each node its row and its column."""
        row_of: dict[int, int] = {}
        rows: list[list[int]] = []
        heads: list[int] = []
        for node in nodes[np.argsort(-self._tree.depth[nodes], kind="stable")].tolist():
            if node in row_of:
                continue
            rows.append(self.whole_tokens(node))
            heads.append(node)
            # A prefix of a row needs no row of its own.
            above = node
            while above != NONE and above not in row_of:
                row_of[above] = len(rows) - 1
                above = int(self._tree.parent[above])
        self._count(np.array(heads, np.int64), 1, [len(row) for row in rows])
        batch = np.array([row_of[node] for node in nodes.tolist()], np.int64)
        return rows, batch, self._positions(nodes)


class RecurrentModel(FullForwardModel):
    """A recurrent model whose module takes and returns the states behind its rows (RWKV).

    The states of the last two passes are kept, so a step behind their contexts costs O(1) a token.
    What goes on from other contexts is read from its beginning.

    subtle: of one new token each, transformers' RWKV mixes the rows of a batch (it adds [n, h] to
    [n, 1, h]). So several rows read their last two tokens, behind the states before these.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._passes: list[tuple[Contexts, list[Tensor]]] = []

    def _forget(self, nodes: Contexts) -> None:
        super()._forget(nodes)
        if any(np.isin(heads, nodes).any() for heads, _ in self._passes):
            self._passes = []

    def _evaluate_chunk(self, nodes: Contexts) -> Tensor:
        parent = self._tree.parent
        path = [nodes, parent[nodes].astype(np.int64)]
        if np.isin(path[1], nodes).any():
            # A run and its prefixes: a row gives the scores of all of them, and no states.
            return super()._evaluate_chunk(nodes)
        if len(nodes) > 1:
            path.append(np.where(path[1] == NONE, NONE, parent[path[1]]).astype(np.int64))
        held = self._states_of(path.pop(), len(path))
        if held is None:
            logits, states = self._read(nodes)
        else:
            tokens = self._tree.token[np.stack(path[::-1], axis=1)].astype(np.int64)
            self._count(nodes, 1, tokens.shape[1])
            logits, states = self._advanced(self._tensor(tokens), held)
        self._passes = [*self._passes[-1:], (nodes, states)]
        return logits

    def _states_of(self, nodes: Contexts, back: int) -> list[Tensor] | None:
        """Return copies of the states of nodes in the last pass but ``back - 1``, if all are."""
        if len(self._passes) < back:
            return None
        heads, states = self._passes[-back]
        rows = np.searchsorted(heads, nodes).clip(max=len(heads) - 1)
        if not (heads[rows] == nodes).all():
            return None
        return [part.index_select(0, self._tensor(rows)) for part in states]

    def _read(self, nodes: Contexts) -> tuple[Tensor, list[Tensor]]:
        """Read whole prefixes; return the scores after them, and their states, ``nodes`` first."""
        whole = [self.whole_tokens(node) for node in nodes.tolist()]
        lengths = np.array([len(tokens) for tokens in whole], np.int64)
        self._count(nodes, 1, lengths)
        order, parts = [], []
        # subtle: rows of one pass must agree in length, or a state would hold padding.
        for length in np.unique(lengths).tolist():
            mine = np.flatnonzero(lengths == length)
            tokens = np.array([whole[i] for i in mine.tolist()], np.int64)
            order.append(mine)
            parts.append(self._advanced(self._tensor(tokens), None))
        back = self._tensor(np.argsort(np.concatenate(order)))
        states = [
            torch.cat(part)[back] for part in zip(*(found[1] for found in parts), strict=True)
        ]
        return torch.cat([found[0] for found in parts])[back], states

    def _advanced(self, tokens: Tensor, states: list[Tensor] | None) -> tuple[Tensor, list[Tensor]]:
        """Run the module over int64[n, Q] tokens; ``states`` is written. Return scores [n, V]."""
        with torch.no_grad():
            output = self._module(input_ids=tokens, state=states, use_cache=True, return_dict=True)
        return output.logits[:, -1].to(self._device).float(), output.state


def _add_tensor(digest: Any, name: str, tensor: Any) -> None:
    if not isinstance(tensor, torch.Tensor):
        digest.update(f"{name} {tensor!r}".encode())
        return
    digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
    # subtle: layers that are not in memory have shapes and no values.
    if tensor.is_meta or not tensor.numel():
        return
    flat = tensor.detach().reshape(-1)
    places = np.unique(np.linspace(0, tensor.numel() - 1, _VALUES_PER_TENSOR).astype(np.int64))
    values = flat[torch.from_numpy(places).to(flat.device)]
    digest.update(values.cpu().contiguous().view(torch.uint8).numpy().tobytes())
