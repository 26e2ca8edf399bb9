"""What a model is made of: tensors, layers and the whole architecture, as frozen data.

Everything that is counted (parameters, bytes, KV, FLOP) is a sum over these, so that no quantity
has a second formula anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

KINDS: tuple[str, ...] = ("full", "window", "mla", "linear", "mamba", "none", "compressed")
"""Kinds of token mixer; the position in this tuple is the code in :class:`models.counts.LayerWork`."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One stored tensor, or ``copies`` tensors of the same shape.

    ``component`` is the name under which it is counted (as in the tables of parameter counts);
    ``role`` is the component that it would have in the main model (differs only inside MTP blocks).
    ``quantised`` is True for matrices that a weight format applies to; norms, biases, convolutions
    and small gates keep the checkpoint's 16 or 32 bit type.
    """

    name: str
    component: str
    rows: int
    cols: int = 1
    copies: int = 1
    quantised: bool = False
    role: str = ""
    stored_bits: int | None = None

    @property
    def parameters(self) -> int:
        """Number of values in all copies."""
        return self.rows * self.cols * self.copies

    @property
    def origin(self) -> str:
        """Component in the main model: what decides the native format."""
        return self.role or self.component


@dataclass(frozen=True, slots=True)
class Mixer:
    """How one layer mixes tokens: its KV geometry, window, index and recurrent state.

    ``kv_elements`` are the values cached per token, ``kv_vectors`` the vectors that they form (one
    quantisation scale each in an integer KV format). ``window`` caps what is held and read;
    ``chunked`` windows restart at multiples of ``window`` (Llama 4). ``compress_ratio`` tokens share one
    further cached entry of ``compressed_elements`` (DeepSeek-V4). An index (``index_topk`` > 0) reads
    only that many entries; ``index_keys`` says whether the layer holds keys of its own or follows the
    choice of an earlier layer.
    """

    kind: str
    heads: int = 0
    kv_heads: int = 0
    qk_dim: int = 0
    v_dim: int = 0
    kv_elements: int = 0
    kv_vectors: int = 0
    window: int | None = None
    chunked: bool = False
    latent_dim: int = 0
    rope_dim: int = 0
    compress_ratio: int = 0
    compressed_elements: int = 0
    index_heads: int = 0
    index_dim: int = 0
    index_topk: int = 0
    index_keys: bool = False
    state_elements: int = 0
    state_bytes: int = 4
    state_flops_per_element: int = 0
    conv_elements: int = 0


@dataclass(frozen=True, slots=True)
class Layer:
    """One block: a token mixer, then dense or MoE feed-forward (either may be absent)."""

    index: int
    mixer: Mixer
    tensors: tuple[Tensor, ...]
    experts: int = 0
    top_k: int = 0
    shared_experts: int = 0
    part: str = "decoder"

    @property
    def is_moe(self) -> bool:
        """True when the layer routes tokens to experts."""
        return self.experts > 0

    @property
    def expert_tensors(self) -> tuple[Tensor, ...]:
        """The tensors of one routed expert."""
        return tuple(replace(t, copies=t.copies // self.experts) for t in self.tensors if t.origin == "routed")

    @property
    def expert_parameters(self) -> int:
        """Parameters of one routed expert; 0 in a dense layer."""
        return sum(t.parameters for t in self.expert_tensors) if self.experts else 0

    @property
    def ffn(self) -> str:
        """``moe``, ``dense`` or ``none``."""
        if self.experts:
            return "moe"
        return "dense" if any(t.origin == "dense_mlp" for t in self.tensors) else "none"


@dataclass(frozen=True, slots=True)
class FormatRule:
    """An exception to the format of a component: in some layers (None: all), for some tensors (empty: all)."""

    component: str
    format: str
    layers: frozenset[int] | None = None
    names: tuple[str, ...] = ()

    def covers(self, layer: int | None, name: str) -> bool:
        """True when the rule applies to the tensor ``name`` of ``layer``."""
        in_layer = self.layers is None or layer in self.layers
        return in_layer and (not self.names or name.split(".")[0] in self.names)


@dataclass(frozen=True, slots=True)
class NativeFormat:
    """In which weight format the checkpoint stores the matrices of each component.

    ``by_component`` names the format of a component; what is not named is stored in ``base``, a plain 16 or 32 bit
    type. ``rules`` win over it, and ``mtp``, when given, over both inside MTP blocks.
    """

    base: str = "bf16"
    by_component: tuple[tuple[str, str], ...] = ()
    rules: tuple[FormatRule, ...] = ()
    mtp: str | None = None
    source: str = ""

    def format_of(self, component: str, layer: int | None = None, name: str = "", mtp: bool = False) -> str:
        """Format id of the matrix ``name`` of ``component`` in ``layer`` (None: outside the layers)."""
        if mtp and self.mtp is not None:
            return self.mtp
        for rule in self.rules:
            if rule.component == component and rule.covers(layer, name):
                return rule.format
        for known, format_id in self.by_component:
            if known == component:
                return format_id
        return self.base

    @property
    def label(self) -> str:
        """Format of the routed experts, which names the checkpoint in short."""
        return self.format_of("routed")


@dataclass(frozen=True, eq=False)
class Architecture:
    """A model, ready to be counted and planned. ``mtp_*`` are multi-token-prediction blocks.

    Compared and hashed by identity, so that results can be cached per object.
    """

    id: str
    name: str
    family: str
    model_type: str
    hidden_size: int
    vocab_size: int
    layers: tuple[Layer, ...]
    extra: tuple[Tensor, ...]
    tied_embeddings: bool = False
    mtp_layers: int = 0
    mtp_blocks: tuple[Layer, ...] = ()
    max_context_tokens: int | None = None
    native: NativeFormat = field(default_factory=NativeFormat)
    encoder_decoder: bool = False
    plannable: bool = True
    why_not: str | None = None
    notes: tuple[str, ...] = ()
    provenance: str = ""

    @property
    def num_layers(self) -> int:
        """Blocks of the main model (encoder blocks included, MTP blocks not)."""
        return len(self.layers)

    @property
    def moe_layers(self) -> tuple[int, ...]:
        """Indices of the layers that route to experts."""
        return tuple(layer.index for layer in self.layers if layer.is_moe)

    @cached_property
    def _first_moe(self) -> Layer:
        return next(layer for layer in self.layers if layer.is_moe)

    @property
    def experts(self) -> int:
        """Routed experts of a MoE layer."""
        return self._first_moe.experts

    @property
    def top_k(self) -> int:
        """Routed experts that a token visits in a MoE layer."""
        return self._first_moe.top_k

    @property
    def shared_experts(self) -> int:
        """Experts of a MoE layer that every token visits."""
        return self._first_moe.shared_experts

    @cached_property
    def expert_parameters(self) -> int:
        """Parameters of one routed expert."""
        return self._first_moe.expert_parameters

    def tensors(self) -> Iterator[tuple[int | None, Tensor]]:
        """Every tensor of the checkpoint with the index of its layer or MTP block (None: outside of them)."""
        for layer in (*self.layers, *self.mtp_blocks):
            for tensor in layer.tensors:
                yield layer.index, tensor
        for tensor in self.extra:
            yield None, tensor
