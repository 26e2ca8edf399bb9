"""One expert as it is computed: two or three matrices, biases, and the activation of its family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from planner.calibrate.errors import CalibrationError
from planner.fields.sentences import shown


@dataclass(frozen=True)
class Expert:
    """Weights of one expert, float32. f is its inner width, d the width of its input and output."""

    up: np.ndarray
    """[f, d]"""
    down: np.ndarray
    """[d, f]"""
    gate: np.ndarray | None = None
    """[f, d]; None: an expert of two matrices"""
    up_bias: np.ndarray | None = None
    down_bias: np.ndarray | None = None
    gate_bias: np.ndarray | None = None

    def with_weights(self, gate: np.ndarray | None, up: np.ndarray, down: np.ndarray) -> Expert:
        """The same expert with other matrices; biases stay as they are."""
        return replace(self, gate=gate, up=up, down=down)


@dataclass(frozen=True)
class Activation:
    """What stands between the first matrices and the last.

    ``silu``: silu(g) u. ``clamped``: silu(min(g, limit)) clip(u, +-limit) (DeepSeek-V4). ``gpt-oss``: both clamped,
    then g sigmoid(alpha g) (u + 1) (arXiv 2508.10925). ``situ``: alpha tanh(g / alpha) sigmoid(g) times
    limit tanh(u / limit) (Kimi-K3). ``relu2``: max(u, 0)^2, without a gate (Nemotron-H).
    """

    kind: str
    limit: float = 0.0
    alpha: float = 0.0

    @property
    def gated(self) -> bool:
        return self.kind != "relu2"

    def __call__(self, gate: np.ndarray | None, up: np.ndarray) -> np.ndarray:
        """float32 [samples, f]"""
        if self.kind == "relu2":
            return np.square(np.maximum(up, np.float32(0)))
        assert gate is not None
        if self.kind == "silu":
            return gate * _sigmoid(gate) * up
        limit, alpha = np.float32(self.limit), np.float32(self.alpha)
        if self.kind == "situ":
            return alpha * np.tanh(gate / alpha) * _sigmoid(gate) * limit * np.tanh(up / limit)
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
        if self.kind == "clamped":
            return gate * _sigmoid(gate) * up
        return gate * _sigmoid(alpha * gate) * (up + np.float32(1))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    """By tanh, which does not overflow."""
    half = np.float32(0.5)
    return half * np.tanh(half * x) + half


def activation_of(model_type: str, config: Mapping[str, Any] | None) -> Activation:
    """The activation of a family; figures that the config states win over the family's published ones.

    Raises CalibrationError for a function that is not understood.
    """
    text = config.get("text_config", config) if isinstance(config, Mapping) else {}
    text = text if isinstance(text, Mapping) else {}
    stated = text.get("mlp_hidden_act", text.get("hidden_act", text.get("hidden_activation")))

    def figure(key: str, published: float) -> float:
        value = text.get(key, published)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e6:
            raise CalibrationError(f"The config has {key} {shown(value)}; a number above 0 is needed.")
        return float(value)

    if model_type == "gpt_oss":
        return Activation("gpt-oss", limit=figure("swiglu_limit", 7.0), alpha=figure("swiglu_alpha", 1.702))
    if model_type == "nemotron_h" or stated == "relu2":
        return Activation("relu2")
    if stated == "situ" or (model_type == "kimi_linear" and stated is None):
        beta, linear = figure("activation_situ_beta", 4.0), figure("activation_situ_linear_beta", 25.0)
        return Activation("situ", limit=linear, alpha=beta)
    if stated not in (None, "silu", "swish"):
        raise CalibrationError(
            f"The config names the activation {shown(stated)}, which is not understood; silu, situ and relu2 are."
        )
    if model_type == "deepseek_v4" or text.get("swiglu_limit") is not None:
        return Activation("clamped", limit=figure("swiglu_limit", 10.0))
    return Activation("silu")


def hidden(expert: Expert, x: np.ndarray, activation: Activation) -> np.ndarray:
    """What enters the last matrix, float32 [samples, f], for inputs x [samples, d]."""
    up = x @ expert.up.T
    if expert.up_bias is not None:
        up += expert.up_bias
    gate = None
    if expert.gate is not None:
        gate = x @ expert.gate.T
        if expert.gate_bias is not None:
            gate += expert.gate_bias
    return activation(gate, up)


def output(expert: Expert, inner: np.ndarray) -> np.ndarray:
    """float32 [samples, d] from the inner activations [samples, f]."""
    y = inner @ expert.down.T
    if expert.down_bias is not None:
        y += expert.down_bias
    return y


def relative_error(found: np.ndarray, reference: np.ndarray) -> float:
    """Mean squared error over the mean square of the reference; 0 where both are zero throughout.

    Raises CalibrationError when only the reference is zero: nothing is relative to that.
    """
    reference = reference.astype(np.float64)
    error = float(np.square(found - reference).sum())
    size = float(np.square(reference).sum())
    if size == 0.0:
        if error == 0.0:
            return 0.0
        raise CalibrationError("the reference output is zero throughout, so no error is relative to it.")
    return error / size
