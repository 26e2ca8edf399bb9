"""What a family's reader hands over: the parts of an architecture that its config declares."""

from __future__ import annotations

from dataclasses import dataclass, field

from models.architecture import Layer, Mixer, NativeFormat, Tensor
from models.fields import LIMITS, Fields


@dataclass
class Blueprint:
    """Parts of an :class:`models.architecture.Architecture`, before notes of the catalog apply.

    ``mtp_blocks`` are the multi-token-prediction blocks that the config declares; ``mtp_template`` is the
    block that a checkpoint of this family stores when its config is silent (used only with a catalog note).
    """

    family: str
    hidden_size: int
    vocab_size: int
    layers: list[Layer]
    extra: list[Tensor]
    tied_embeddings: bool = False
    mtp_blocks: list[Layer] = field(default_factory=list)
    mtp_template: Layer | None = None
    max_context_tokens: int | None = None
    native: NativeFormat | None = None
    notes: list[str] = field(default_factory=list)
    encoder_decoder: bool = False


def layer(
    index: int,
    built: tuple[Mixer, list[Tensor]],
    *more: list[Tensor] | Tensor,
    experts: int = 0,
    top_k: int = 0,
    shared: int = 0,
    part: str = "decoder",
) -> Layer:
    """A layer from a built mixer and further tensors."""
    tensors = list(built[1])
    for item in more:
        tensors += [item] if isinstance(item, Tensor) else item
    return Layer(index, built[0], tuple(tensors), experts, top_k, shared, part)


def basics(f: Fields, layers: int | None = None) -> tuple[int, int, int, bool, int | None]:
    """Hidden size, vocabulary, number of layers, tied embeddings and context, by their usual keys.

    ``layers`` stands for ``num_hidden_layers`` where a list of blocks already says how many there are.
    """
    return (
        f.whole("hidden_size"),
        f.whole("vocab_size", high=LIMITS["vocab"]),
        f.layers("num_hidden_layers") if layers is None else f.whole("num_hidden_layers", default=layers),
        f.flag("tie_word_embeddings", False),
        f.optional_whole("max_position_embeddings", high=LIMITS["context"]),
    )


def heads(f: Fields, hidden: int) -> tuple[int, int, int]:
    """Query heads, KV heads (default: as many) and head dimension (default: H / heads, which must divide)."""
    nh = f.whole("num_attention_heads")
    nk = f.whole("num_key_value_heads", default=nh)
    if nk > nh or nh % nk:
        raise f.error(
            f"{f.path('num_attention_heads')} is {nh} and {f.path('num_key_value_heads')} is {nk}; "
            "the first must be a multiple of the second."
        )
    explicit = f.optional_whole("head_dim")
    if explicit is None and hidden % nh:
        raise f.error(
            f"{f.path('hidden_size')} is {hidden}, which {nh} attention heads do not divide, and there is no head_dim."
        )
    return nh, nk, explicit if explicit is not None else hidden // nh
