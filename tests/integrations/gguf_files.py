"""Tiny GGUF models of random weights, with the tokens of a JSON or of a SentencePiece model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
"""Types of tokens in the format."""


def save_bpe(path: Path, tokenizer_json: Path, *, eos: int, bos: int) -> Path:
    """Save a model with the tokens of a byte-level BPE tokenizer."""
    spec = json.loads(tokenizer_json.read_text())
    model = spec["model"]
    added = {token["id"]: token for token in spec["added_tokens"]}
    by_id = {i: content for content, i in model["vocab"].items()}
    by_id |= {i: token["content"] for i, token in added.items()}
    tokens = [by_id[i] for i in range(max(by_id) + 1)]
    types = [
        NORMAL if i not in added else CONTROL if added[i]["special"] else USER_DEFINED
        for i in range(len(tokens))
    ]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]

    def tell(writer: Any) -> None:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_merges(merges)

    return _save(path, tokens, types, tell, eos=eos, bos=bos)


def save_sentencepiece(path: Path, data: bytes) -> Path:
    """Save a model with the pieces of a SentencePiece model."""
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(data)
    kind = "llama" if proto.trainer_spec.model_type == 2 else "t5"

    def tell(writer: Any) -> None:
        writer.add_tokenizer_model(kind)
        writer.add_tokenizer_pre("default")
        writer.add_token_scores([piece.score for piece in proto.pieces])
        writer.add_bool("tokenizer.ggml.add_space_prefix", proto.normalizer_spec.add_dummy_prefix)

    tokens = [piece.piece for piece in proto.pieces]
    types = [piece.type for piece in proto.pieces]
    trainer = proto.trainer_spec
    return _save(path, tokens, types, tell, eos=trainer.eos_id, bos=trainer.bos_id)


def _save(
    path: Path, tokens: list[str], types: list[int], tell: Any, *, eos: int, bos: int
) -> Path:
    """Write a Llama of one layer, whose logits differ enough to choose by."""
    width, inner, heads = 32, 64, 4
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(1)
    writer.add_context_length(256)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // heads)
    writer.add_vocab_size(len(tokens))
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_eos_token_id(eos)
    writer.add_bos_token_id(bos)
    writer.add_add_bos_token(True)
    tell(writer)
    rng = np.random.default_rng(3)
    shapes = {
        "token_embd": (len(tokens), width),
        "output": (len(tokens), width),
        **{f"blk.0.attn_{name}": (width, width) for name in ("q", "k", "v", "output")},
        "blk.0.ffn_gate": (inner, width),
        "blk.0.ffn_up": (inner, width),
        "blk.0.ffn_down": (width, inner),
    }
    for name, shape in shapes.items():
        weights = rng.normal(0, 0.5, shape).astype(np.float32)
        writer.add_tensor(f"{name}.weight", weights)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
