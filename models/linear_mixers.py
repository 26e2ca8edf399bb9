"""Token mixers with a recurrent state instead of a growing cache.

FLOP of one token per state element: decay 1, update 2, read 2; the delta rule reads the state once more (2).
"""

from __future__ import annotations

from models.architecture import Mixer, Tensor
from models.blocks import linear, plain

_DECAY_UPDATE_READ = 5
_DELTA_RULE = 7


def delta_net(
    hidden: int, key_heads: int, value_heads: int, key_dim: int, value_dim: int, kernel: int
) -> tuple[Mixer, list[Tensor]]:
    """Gated DeltaNet (arXiv 2412.06464) as in Qwen3-Next.

    H (2 kd + 2 vd) + 2 H nv + (2 kd + vd) K + 2 nv + dv + vd H; the state is nv matrices of dk x dv in F32.
    """
    kd, vd = key_heads * key_dim, value_heads * value_dim
    component = "attn_linear"
    tensors = [
        *linear("in_proj_qkvz", component, 2 * kd + 2 * vd, hidden),
        *linear("in_proj_ba", component, 2 * value_heads, hidden),
        plain("conv1d", component, 2 * kd + vd, kernel),
        plain("A_log, dt_bias", component, value_heads, 1, 2),
        plain("norm", component, value_dim),
        *linear("out_proj", component, hidden, vd),
    ]
    mixer = Mixer(
        kind="linear",
        heads=value_heads,
        kv_heads=key_heads,
        qk_dim=key_dim,
        v_dim=value_dim,
        state_elements=value_heads * key_dim * value_dim,
        state_flops_per_element=_DELTA_RULE,
        conv_elements=(2 * kd + vd) * (kernel - 1),
    )
    return mixer, tensors


def kimi_delta(hidden: int, heads: int, head_dim: int, kernel: int, full_rank_gate: bool) -> tuple[Mixer, list[Tensor]]:
    """Kimi delta attention (arXiv 2510.26692); with the full-rank gate of Kimi-K3

    3 d P + 3 P K + nh + d hd + hd P + P + d nh + d P + hd + P d with P = nh hd. One hd x hd state per head in F32.
    """
    wide = heads * head_dim
    component = "attn_kda"
    tensors = [
        *linear("q_proj", component, wide, hidden),
        *linear("k_proj", component, wide, hidden),
        *linear("v_proj", component, wide, hidden),
        plain("convs", component, wide, kernel, 3),
        plain("A_log", component, heads),
        *linear("f_a_proj", component, head_dim, hidden),
        *linear("f_b_proj", component, wide, head_dim),
        plain("dt_bias", component, wide),
        *linear("b_proj", component, heads, hidden),
        plain("o_norm", component, head_dim),
        *linear("o_proj", component, hidden, wide),
    ]
    if full_rank_gate:
        tensors += linear("g_proj", component, wide, hidden)
    else:
        tensors += linear("g_a_proj", component, head_dim, hidden) + linear("g_b_proj", component, wide, head_dim)
    mixer = Mixer(
        kind="linear",
        heads=heads,
        kv_heads=heads,
        qk_dim=head_dim,
        v_dim=head_dim,
        state_elements=heads * head_dim * head_dim,
        state_flops_per_element=_DELTA_RULE,
        conv_elements=3 * wide * (kernel - 1),
    )
    return mixer, tensors


def lightning(hidden: int, heads: int, head_dim: int) -> tuple[Mixer, list[Tensor]]:
    """Lightning attention of MiniMax-M1 (arXiv 2506.13585): 4 H nh hd + nh hd H + nh hd; one hd x hd state per head."""
    wide = heads * head_dim
    component = "attn_linear"
    tensors = [
        *linear("qkv_proj", component, 3 * wide, hidden),
        *linear("output_gate", component, wide, hidden),
        *linear("out_proj", component, hidden, wide),
        plain("norm", component, wide),
    ]
    mixer = Mixer(
        kind="linear",
        heads=heads,
        kv_heads=heads,
        qk_dim=head_dim,
        v_dim=head_dim,
        state_elements=heads * head_dim * head_dim,
        state_flops_per_element=_DECAY_UPDATE_READ,
    )
    return mixer, tensors


def mamba1(
    hidden: int, expand: int, state: int, kernel: int, dt_rank: int, conv_bias: bool, proj_bias: bool
) -> tuple[Mixer, list[Tensor]]:
    """Mamba-1 as in Jamba (arXiv 2403.19887), with norms on dt, B and C.

    2 H I + I K + I + I (R + 2 N) + R I + I + I N + I + I H + R + 2 N with I = expand H.
    """
    inner = expand * hidden
    component = "mamba"
    tensors = [
        *linear("in_proj", component, 2 * inner, hidden, proj_bias),
        plain("conv1d.weight", component, inner, kernel),
        *linear("x_proj", component, dt_rank + 2 * state, inner),
        *linear("dt_proj", component, inner, dt_rank, bias=True),
        plain("A_log", component, inner, state),
        plain("D", component, inner),
        *linear("out_proj", component, hidden, inner, proj_bias),
        plain("dt, b and c layernorm", component, dt_rank + 2 * state),
    ]
    if conv_bias:
        tensors.append(plain("conv1d.bias", component, inner))
    mixer = Mixer(
        kind="mamba",
        heads=inner,
        kv_heads=1,
        qk_dim=state,
        v_dim=1,
        state_elements=inner * state,
        state_flops_per_element=_DECAY_UPDATE_READ,
        conv_elements=inner * (kernel - 1),
    )
    return mixer, tensors


def mamba2(
    hidden: int, heads: int, head_dim: int, groups: int, state: int, kernel: int, conv_bias: bool, proj_bias: bool
) -> tuple[Mixer, list[Tensor]]:
    """Mamba-2 (arXiv 2405.21060) as in Nemotron-H: H (2 I + 2 G N + nh) + (I + 2 G N)(K + 1) + 3 nh + I + I H."""
    inner = heads * head_dim
    channels = inner + 2 * groups * state
    component = "mamba"
    tensors = [
        *linear("in_proj", component, inner + channels + heads, hidden, proj_bias),
        plain("conv1d.weight", component, channels, kernel),
        plain("A_log, D, dt_bias", component, heads, 1, 3),
        plain("norm", component, inner),
        *linear("out_proj", component, hidden, inner, proj_bias),
    ]
    if conv_bias:
        tensors.append(plain("conv1d.bias", component, channels))
    mixer = Mixer(
        kind="mamba",
        heads=heads,
        kv_heads=groups,
        qk_dim=state,
        v_dim=head_dim,
        state_elements=inner * state,
        state_flops_per_element=_DECAY_UPDATE_READ,
        conv_elements=channels * (kernel - 1),
    )
    return mixer, tensors
