"""For each policy: where weights and KV cache live, what moves, what overlaps, and what is assumed; for people."""

from __future__ import annotations

from typing import NamedTuple


class Places(NamedTuple):
    """What a policy does with memory and links, in words."""

    weights: str
    kv: str
    moves: str
    overlaps: str


PLACES: dict[str, Places] = {
    "all-gpu": Places(
        "all in HBM, sliced or dealt over the GPUs",
        "HBM",
        "activations between GPUs (all-reduce, all-to-all)",
        "nothing waits for the host; the slowest GPU sets the time",
    ),
    "layer-streaming": Places(
        "as many experts in HBM as fit, the rest in host memory",
        "HBM or host memory",
        "every non-resident expert over PCIe in every pass",
        "the next layer streams while this one computes",
    ),
    "cpu-experts": Places(
        "routed experts in host memory, the rest in HBM",
        "HBM or host memory",
        "activations to the CPU and back",
        "GPU shared and resident experts beside CPU experts; with deferral also the next layer's attention",
    ),
    "cpu-only": Places(
        "all in host memory",
        "host memory",
        "nothing",
        "reading and computing within an operation; operations follow each other",
    ),
    "monde": Places(
        "experts in near-data memory, the rest in HBM",
        "HBM or host memory",
        "the hottest experts of each pass to the GPU, activations to the others",
        "moving and GPU compute beside near-data compute",
    ),
    "context-aware": Places(
        "hot experts in HBM in the native format; all at 1 to 4 bit, and the originals, in CXL memory",
        "HBM or host memory",
        "the hot set once after prefill; activations in decode",
        "GPU experts beside near-data experts; the move behind prefill",
    ),
    "trimoe": Places(
        "hot experts in HBM; all in host DIMMs, striped (warm) or on one DIMM (cold)",
        "HBM while it fits, else host DIMMs",
        "missing hot experts over PCIe; activations; layouts in the background",
        "GPU, CPU and DIMMs work on one layer at once",
    ),
    "fiddler": Places(
        "the most popular experts of the whole model in HBM, all in host memory",
        "HBM",
        "experts with many tokens over PCIe, activations for the others",
        "none in the released code; an option",
    ),
    "hybrimoe": Places(
        "all in host memory, a cache in HBM",
        "HBM",
        "misses that the schedule gives to the GPU; prefetched experts of the next layers",
        "CPU, GPU and link, scheduled together",
    ),
    "daop": Places(
        "residents chosen for the sequence in HBM, all in host memory",
        "HBM",
        "swaps after prefill; activations in decode",
        "the CPU starts a layer early on predicted experts",
    ),
    "dali": Places(
        "all in host memory, a cache in HBM that follows the load",
        "HBM",
        "experts that the greedy rule gives to the GPU; a few prefetched",
        "CPU beside GPU and link",
    ),
    "freetoken": Places(
        "all in host memory, one cache over all layers in HBM",
        "HBM",
        "a bandwidth-balanced share of the misses over PCIe",
        "link and CPU finish together",
    ),
    "hobbit": Places(
        "every expert at two precisions in host memory, a cache in HBM for each",
        "HBM",
        "misses, in the precision that their gate weight deserves",
        "prefetch behind compute",
    ),
    "klotski": Places(
        "all in host memory",
        "HBM or host memory",
        "hot experts ahead, cold ones on demand, once for a group of batches",
        "loading behind several batches' attention and experts",
    ),
    "moe-lightning": Places(
        "in host memory, a share in HBM",
        "host memory",
        "weights in pages, queries and results of attention",
        "CPU attention, weight pages and GPU experts of different micro-batches",
    ),
    "moe-infinity": Places(
        "all in host memory, a cache in HBM",
        "HBM",
        "misses and predicted experts",
        "prefetch behind compute; misses first",
    ),
    "fluxmoe": Places(
        "two layers and a share of the rest in HBM, the rest compressed in HBM and in host memory",
        "HBM",
        "pages of the next layer from all stores at once",
        "loading behind compute",
    ),
    "wisp": Places(
        "all in host memory, an LRU cache for each layer in HBM",
        "HBM, sized against the cache by marginal value",
        "misses",
        "none predicted: only avoided bytes count",
    ),
    "static-split": Places(
        "experts of some layers in HBM, of the others in host memory",
        "HBM",
        "activations; in long prefill the experts",
        "none: the two take turns",
    ),
    "pimoe": Places(
        "experts in near-data memory, the rest in HBM",
        "HBM",
        "experts that shorten the makespan on the GPU",
        "GPU beside near-data processors",
    ),
}
