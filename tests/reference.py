"""Reference outputs from a NumPy implementation and from Hugging Face Transformers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from bert_keras import BertConfig, features
from bert_keras.checkpoints.hugging_face_names import FAMILIES
from tests import contracts, families

TOLERANCE = 1e-5


def numpy_outputs(model: Any, x: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Compute all outputs of an encoder or task in float64, from its weights by path."""
    weights = {path: w.astype("float64") for path, w in contracts.weights(model).items()}
    encoder = getattr(model, "encoder", model)
    outputs = _encode(weights, encoder.config, x)
    if encoder is model:
        return outputs
    return _heads(weights, encoder.config, x, outputs)


def _encode(w: dict[str, np.ndarray], config: BertConfig, x: Mapping[str, Any]) -> dict[str, Any]:
    length = x[features.TOKEN_IDS].shape[1]
    hidden = w["embeddings/token/embeddings"][x[features.TOKEN_IDS]]
    if config.position_rows:
        hidden = hidden + w["embeddings/position/embeddings"][config.position_offset :][:length]
    if config.num_segments:
        segments = x.get(features.SEGMENT_IDS, 0 * x[features.TOKEN_IDS])
        hidden = hidden + w["embeddings/segment/embeddings"][segments]
    if config.num_tasks:
        hidden = hidden + w["embeddings/task/embeddings"][0]
    if config.embedding_norm:
        hidden = _norm(w, config, "embeddings/layer_norm", hidden)
    if config.table_size != config.hidden_size:
        hidden = _dense(w, "embeddings/projection", hidden)
    states, attentions = [hidden], []
    for layer in range(config.num_layers):
        block = f"block_{layer * config.unique_layers // config.num_layers}"
        is_pre_norm = config.block == "pre_norm"
        has_norm = is_pre_norm and (config.first_norm or block != "block_0")
        x_norm = _norm(w, config, f"{block}/attention_layer_norm", hidden) if has_norm else hidden
        attended, probabilities = _attend(w, config, block, x_norm, x[features.PADDING_MASK], layer)
        hidden = hidden + attended
        if not is_pre_norm:
            hidden = _norm(w, config, f"{block}/attention_layer_norm", hidden)
        inner = hidden
        if is_pre_norm:
            inner = _norm(w, config, f"{block}/feedforward_layer_norm", hidden)
        hidden = hidden + _feed_forward(w, config, f"{block}/feedforward", inner)
        if not is_pre_norm:
            hidden = _norm(w, config, f"{block}/feedforward_layer_norm", hidden)
        states.append(hidden)
        attentions.append(probabilities)
    if config.block == "pre_norm":
        hidden = _norm(w, config, "final_norm", hidden)
        states[-1] = hidden
    outputs: dict[str, Any] = {
        features.SEQUENCE_OUTPUT: hidden,
        features.HIDDEN_STATES: tuple(states),
        features.ATTENTIONS: tuple(attentions),
    }
    if config.pooler:
        outputs[features.POOLED_OUTPUT] = np.tanh(_dense(w, "pooler/dense", hidden[:, 0]))
    return outputs


def _feed_forward(
    w: dict[str, np.ndarray], config: BertConfig, path: str, x: np.ndarray
) -> np.ndarray:
    inner, activate = _dense(w, f"{path}/intermediate", x), _ACTIVATIONS[config.activation]
    inner = activate(_dense(w, f"{path}/gate", x)) * inner if config.gated else activate(inner)
    return _dense(w, f"{path}/output", inner)


def _attend(
    w: dict[str, np.ndarray],
    config: BertConfig,
    block: str,
    x: np.ndarray,
    padding_mask: np.ndarray,
    layer: int,
) -> tuple[np.ndarray, np.ndarray]:
    path = f"{block}/attention"
    heads = (*x.shape[:2], -1, config.head_size)
    query, key, value = (
        _dense(w, f"{path}/{name}", x).reshape(heads) for name in ("query", "key", "value")
    )
    shared = config.num_heads // config.key_value_heads
    key, value = (each.repeat(shared, axis=2) for each in (key, value))
    positions = config.attention_positions
    if positions.startswith("rotary"):
        base = config.rotary_base
        if config.is_local(layer) and config.local_rotary_base is not None:
            base = config.local_rotary_base
        turn = partial(_turned, base=base, positions=positions, scale=config.rotary_scale)
        query, key = turn(query), turn(key)
        value = turn(value) if config.rotary_values else value
    scores = np.einsum("BTNK,BSNK->BNTS", query, key)
    if config.has_relative_positions:
        scores = scores + _distance_scores(w, config, path, query, key)
    if positions.startswith("disentangled"):
        scores = (scores + _disentangled_scores(w, config, path, query, key)) / math.sqrt(3)
    scores = scores / math.sqrt(query.shape[-1])
    if positions in ("alibi", "buckets"):
        scores = scores + _distance_bias(w, config, x.shape[1])
    is_seen = padding_mask[:, None, None, :] == 1
    if config.is_local(layer):
        assert config.window is not None
        away = np.arange(x.shape[1])[:, None] - np.arange(x.shape[1])
        is_seen = is_seen & (np.abs(away) <= config.window)
    scores = np.where(is_seen, scores, -1e9)
    exponents = np.exp(scores - scores.max(-1, keepdims=True))
    probabilities = exponents / exponents.sum(-1, keepdims=True)
    context = np.einsum("BNTS,BSNK->BTNK", probabilities, value).reshape((*x.shape[:2], -1))
    return _dense(w, f"{path}/output", context), probabilities


def _turned(x: np.ndarray, base: float, positions: str, scale: float) -> np.ndarray:
    """Turn pairs of numbers by complex multiplication (Su et al., 2021, equation 13).

    NTK scaling is that of Su's page https://kexue.fm/archives/9706, equation 6.
    """
    half = x.shape[-1] // 2
    pairs = x[..., :half] + 1j * x[..., half:]
    if positions == "rotary_interleaved":
        pairs = x[..., ::2] + 1j * x[..., 1::2]
    rates = (base * scale) ** (-np.arange(half) / half) * scale ** (-1 / half)
    turned = pairs * np.exp(1j * np.arange(x.shape[1])[:, None, None] * rates)
    if positions == "rotary_interleaved":
        return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)
    return np.concatenate([turned.real, turned.imag], axis=-1)


def _distance_bias(w: dict[str, np.ndarray], config: BertConfig, length: int) -> np.ndarray:
    """Compute the bias of each head and pair of tokens, one pair after the other."""
    bias = np.zeros((config.num_heads, length, length))
    for t in range(length):
        for s in range(length):
            if config.attention_positions == "alibi":
                power = config.num_heads  # of two, in every config here
                slopes = 2.0 ** (-8.0 * np.arange(1, power + 1) / power)
                bias[:, t, s] = -slopes * abs(t - s)
            else:
                bias[:, t, s] = w["distance_bias/table/embeddings"][_bucket(config, t - s)]
    return bias


def _bucket(config: BertConfig, distance: int) -> int:
    """Return the bucket of a distance (Raffel et al., 2020, §2.1; T5's code)."""
    half = config.position_buckets // 2
    exact, away = half // 2, abs(distance)
    bucket = away
    if away >= exact:
        share = math.log(away / exact) / math.log(config.max_distance / exact)
        bucket = min(half - 1, exact + int(share * (half - exact)))
    return bucket + (half if distance < 0 else 0)


def _disentangled_scores(
    w: dict[str, np.ndarray], config: BertConfig, path: str, query: np.ndarray, key: np.ndarray
) -> np.ndarray:
    """Compute content-to-position and position-to-content scores (He et al., 2021, equation 4)."""
    vectors = w["distance_vectors/table/embeddings"]
    if config.position_norm:
        vectors = _norm(w, config, "distance_vectors/layer_norm", vectors, kind="layer")
    is_shared = config.attention_positions == "disentangled_shared"
    prefix = "" if is_shared else "position_"
    heads = (len(vectors), -1, config.head_size)
    of_queries = _dense(w, f"{path}/{prefix}query", vectors).reshape(heads)
    of_keys = _dense(w, f"{path}/{prefix}key", vectors).reshape(heads)
    batch, length, count, _ = query.shape
    scores = np.zeros((batch, count, length, length))
    for t in range(length):
        for s in range(length):
            row = _distance_row(config, t - s)
            scores[:, :, t, s] = (query[:, t] * of_keys[row]).sum(-1)
            scores[:, :, t, s] += (key[:, s] * of_queries[row]).sum(-1)
    return scores


def _distance_row(config: BertConfig, distance: int) -> int:
    """Return the row of a distance (He et al., 2021, equation 3; log buckets of version 2)."""
    span, middle, away = config.max_distance, config.position_buckets // 2, abs(distance)
    if config.position_buckets:
        span = config.position_buckets
        if away > middle:
            share = math.log(away / middle) / math.log((config.max_distance - 1) / middle)
            distance = int(math.copysign(middle + math.ceil(share * (middle - 1)), distance))
    return min(max(distance + span, 0), 2 * span - 1)


def _distance_scores(
    w: dict[str, np.ndarray], config: BertConfig, path: str, query: np.ndarray, key: np.ndarray
) -> np.ndarray:
    """Compute relative position scores.

    Source: Shaw et al., 2018, equation 5; the term of the keys: Huang et al., 2020, equation 15.
    """
    batch, length, heads, _ = query.shape
    table = w[f"{path}/distance/embeddings"]
    scores = np.zeros((batch, heads, length, length))
    for t in range(length):
        for s in range(length):
            vector = table[t - s + config.max_positions - 1]
            scores[:, :, t, s] = query[:, t] @ vector
            if config.position_embedding == "relative_key_query":
                scores[:, :, t, s] += key[:, s] @ vector
    return scores


def _heads(
    w: dict[str, np.ndarray], config: BertConfig, x: Mapping[str, Any], encoded: dict[str, Any]
) -> dict[str, Any]:
    logits, activate = {}, _ACTIVATIONS[config.activation]
    if features.MASK_POSITIONS in x:
        positions = x[features.MASK_POSITIONS][:, :, None]
        hidden = np.take_along_axis(encoded[features.SEQUENCE_OUTPUT], positions, axis=1)
        for layer in ("mlm/dense", "mlm/second_dense"):
            hidden = activate(_dense(w, layer, hidden)) if f"{layer}/kernel" in w else hidden
        if "mlm/layer_norm/gamma" in w:
            hidden = _norm(w, config, "mlm/layer_norm", hidden, kind="layer")
        table = w.get("mlm/output/embeddings", w["embeddings/token/embeddings"])
        logits[features.MLM] = hidden @ table.T + w.get("mlm/bias", 0.0)
    if "rtd/dense/kernel" in w:
        hidden = activate(_dense(w, "rtd/dense", encoded[features.SEQUENCE_OUTPUT]))
        logits[features.RTD] = _dense(w, "rtd/output", hidden)
    for pair in (features.NSP, features.SOP):
        if f"{pair}/dense/kernel" in w:
            logits[pair] = _dense(w, f"{pair}/dense", encoded[features.POOLED_OUTPUT])
    return logits


def _dense(w: dict[str, np.ndarray], path: str, x: np.ndarray) -> np.ndarray:
    return x @ w[f"{path}/kernel"] + w.get(f"{path}/bias", 0.0)


def _norm(
    w: dict[str, np.ndarray], config: BertConfig, path: str, x: np.ndarray, kind: str | None = None
) -> np.ndarray:
    if (kind or config.norm) == "layer":
        x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + config.layer_norm_epsilon)
    return x * w[f"{path}/gamma"] + w.get(f"{path}/beta", 0.0)


_ACTIVATIONS = {
    "gelu": lambda x: 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0.0),
    "silu": lambda x: x / (1.0 + np.exp(-x)),
    "tanh": np.tanh,
}


# Family -> beginning of the names of its classes, and the values of its tiny config.
HUGGING_FACE: dict[str, tuple[str, dict[str, Any]]] = {
    family: (rows.classes["BertEncoder"].removesuffix("Model"), families.their_values(family))
    for family, rows in FAMILIES.items()
}


def hugging_face_model(transformers: Any, ending: str, family: str = "bert", **changes: Any) -> Any:
    """Return a tiny Transformers model with random weights, as after a training.

    `ending` is the end of the class name, such as "ForMaskedLM"; `family` is a key of
    `HUGGING_FACE`.
    """
    name, sizes = HUGGING_FACE[family]
    config = getattr(transformers, f"{name}Config")(
        attn_implementation="eager", **{**sizes, **changes}
    )
    return as_trained(getattr(transformers, f"{name}{ending}")(config).eval())


def as_trained(model: Any) -> Any:
    """Give a model of transformers random weights, as after a training, and return it."""
    import torch

    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if not parameter.requires_grad:  # RoFormer's table of rotations
                continue
            # The same standard deviations as in `contracts.as_trained`.
            deviation = 0.02 if "_embeddings" in parameter_name else 0.3
            layer = parameter_name.removeprefix(f"{model.base_model_prefix}.").lower()
            is_scale = "norm" in layer and layer.endswith("weight")
            parameter.normal_(1.0 if is_scale else 0.0, deviation, generator=generator)
    return model


def ntk_rates(config: Any, device: Any = None, **_: Any) -> tuple[Any, float]:
    """Compute the rotary rates of Alibaba's code for GTE.

    Transformers has no such function. It has the arguments of those in its ROPE_INIT_FUNCTIONS.
    """
    import torch

    size = config.hidden_size // config.num_attention_heads
    factor, base = config.rope_parameters["factor"], config.rope_parameters["rope_theta"]
    powers = torch.arange(0, size, 2, device=device).float() / size
    return 1.0 / (base * factor) ** powers / factor ** (2 / size), 1.0


_KERAS_HUB_SIZES = {
    "vocabulary_size": contracts.TINY.vocab_size,
    "num_layers": contracts.TINY.num_layers,
    "num_heads": contracts.TINY.num_heads,
    "hidden_dim": contracts.TINY.hidden_size,
    "intermediate_dim": contracts.TINY.intermediate_size,
    "max_sequence_length": contracts.TINY.max_positions,
}
_KERAS_HUB_MORE: dict[str, dict[str, Any]] = {
    "AlbertBackbone": {"embedding_dim": 4, "num_layers": 4, "num_groups": 2},
    "ElectraBackbone": {"embedding_dim": 4},
}


def keras_hub_model(library: Any, name: str, **changes: Any) -> Any:
    """Return a tiny KerasHub backbone, such as "BertBackbone", with weights of `as_trained`."""
    values = {**_KERAS_HUB_SIZES, **_KERAS_HUB_MORE.get(name, {}), **changes}
    if name == "ElectraBackbone":
        values["vocab_size"] = values.pop("vocabulary_size")
    return contracts.as_trained(getattr(library.models, name)(**values))


_LOGITS = {
    "ForSequenceClassification": features.LABEL,
    "ForTokenClassification": features.TAGS,
    "ForMultipleChoice": features.CHOICE,
    "ForNextSentencePrediction": features.NSP,
    "ElectraForPreTraining": features.RTD,
}


def hugging_face_outputs(model: Any, x: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return all outputs of a Transformers model under our names.

    MLM logits are taken at `mask_positions`.
    """
    import torch

    inputs = dict(x)
    positions = inputs.pop(features.MASK_POSITIONS, None)
    inputs = features.rename(inputs, features.HUGGING_FACE)
    with torch.no_grad():
        found = model(
            **{name: torch.tensor(array).long() for name, array in inputs.items()},
            output_hidden_states=True,
            output_attentions=True,
        )
    outputs: dict[str, Any] = {
        name: tuple(each.numpy() for each in found[name])
        for name in (features.HIDDEN_STATES, features.ATTENTIONS)
    }
    logits = found.get("prediction_logits", found.get("logits"))
    if logits is not None and positions is not None:
        outputs[features.MLM] = np.take_along_axis(logits.numpy(), positions[:, :, None], axis=1)
    elif logits is not None:
        ours = next(name for ending, name in _LOGITS.items() if ending in type(model).__name__)
        outputs[ours] = logits.numpy()[..., None] if ours == features.RTD else logits.numpy()
    for ours, theirs in (
        (features.NSP, "seq_relationship_logits"),
        (features.SOP, "sop_logits"),
        (features.START, "start_logits"),
        (features.END, "end_logits"),
        (features.SEQUENCE_OUTPUT, "last_hidden_state"),
        (features.POOLED_OUTPUT, "pooler_output"),
    ):
        if found.get(theirs) is not None:
            outputs[ours] = found[theirs].numpy()
    return outputs


def difference(left: Mapping[str, Any], right: Mapping[str, Any]) -> float:
    """Return the largest absolute difference over the common outputs; at least one is required."""
    names = left.keys() & right.keys()
    assert names, (sorted(left), sorted(right))
    pairs = [
        (np.asarray(one, "float64"), np.asarray(other, "float64"))
        for name in names
        for one, other in zip(_tuple(left[name]), _tuple(right[name]), strict=True)
    ]
    assert all(one.shape == other.shape for one, other in pairs)
    return max(float(np.abs(one - other).max()) for one, other in pairs)


def same_as_hugging_face(
    ours: Any, theirs: Any, x: Mapping[str, np.ndarray], *, padding: bool = True
) -> None:
    """Assert that all outputs, hidden states and attentions agree with a Transformers model.

    Without `padding`, those of padding are not compared.
    """
    expected = hugging_face_outputs(theirs, x)
    found = contracts.numpy(ours(x))
    assert found.keys() <= expected.keys(), sorted(found)
    encoder = getattr(ours, "encoder", ours)
    inside = encoder.with_outputs(hidden_states=True, attentions=True)
    inputs = {
        name: values.reshape(-1, values.shape[-1])  # the choices become rows of the batch
        for name, values in x.items()
        if name != features.MASK_POSITIONS
    }
    found |= {
        name: values
        for name, values in contracts.numpy(inside(inputs)).items()
        if name in (features.HIDDEN_STATES, features.ATTENTIONS)
    }
    if encoder.config.block == "pre_norm":  # theirs normalises the last of these states
        for states in (found, expected):
            states[features.HIDDEN_STATES] = states[features.HIDDEN_STATES][:-1]
    # DeBERTa's vectors of padding are zero there.
    if not padding or encoder.config.family.startswith("deberta"):
        mask = x[features.PADDING_MASK].reshape(-1, x[features.PADDING_MASK].shape[-1])
        found, expected = _of_tokens(found, mask), _of_tokens(expected, mask)
    assert difference(found, expected) < TOLERANCE


def _of_tokens(outputs: Mapping[str, Any], mask: np.ndarray) -> dict[str, Any]:
    """Return outputs with zeros for padding, where an axis counts tokens."""

    def without_padding(values: np.ndarray) -> np.ndarray:
        """Return values [batch, length, ...], or attentions [batch, heads, query, key]."""
        axis = 2 if values.ndim == 4 else 1
        if values.ndim <= axis or values.shape[axis] != mask.shape[1]:
            return values
        shape = [1] * values.ndim
        shape[0], shape[axis] = mask.shape
        return values * mask.reshape(shape)

    return {
        name: tuple(map(without_padding, value))
        if isinstance(value, tuple)
        else without_padding(value)
        for name, value in outputs.items()
    }


# Outputs with an axis of tokens: those of padding are not compared.
_OF_TOKENS = (features.SEQUENCE_OUTPUT, features.TAGS, features.START, features.END, features.RTD)


def same_at(opened: Any, model: Any, lengths: Iterable[int]) -> None:
    """Assert that the outputs of the real tokens agree at some lengths, with padding.

    The last quarter of the last row is padding.
    """
    config = getattr(opened, "encoder", opened).config
    for length in lengths:
        x = contracts.inputs_of(opened, length)
        mask = x[features.PADDING_MASK]
        mask[-1, ..., length * 3 // 4 :] = 0
        if config.position_offset:  # transformers counts the positions by the ids
            x[features.TOKEN_IDS][mask == 0] = config.position_offset - 1
        if features.MASK_POSITIONS in x:
            x[features.MASK_POSITIONS] %= length * 3 // 4
        found, expected = contracts.numpy(opened(x)), hugging_face_outputs(model, x)
        assert found.keys() <= expected.keys()
        for name, values in found.items():
            real = mask == 1 if name in _OF_TOKENS else ...
            assert_close(values[real], expected[name][real], name, length)


def assert_close(found: np.ndarray, expected: np.ndarray, *about: Any) -> None:
    """Assert a difference below the tolerance, a share of the largest output if that is above 1."""
    worst, largest = np.abs(found - expected).max(), max(1.0, np.abs(expected).max())
    assert worst < TOLERANCE * largest, (*about, worst, largest)


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
