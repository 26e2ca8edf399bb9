"""GenZ: its own prefill and decode models, given the architecture and the GPU of the question."""

import json
import sys
import time

from GenZ import decode_moddeling, prefill_moddeling
from GenZ.Models.default_models import ModelConfig


def answer(q):
    a, g = q["architecture"], q["gpu"]
    if a["attention"] not in ("full", "window"):
        return {"reason": f"GenZ has no {a['attention']} attention"}
    if q["attention_data"] > 1:
        return {"reason": "GenZ has no attention data parallel"}
    try:
        model = ModelConfig(
            model=q["model"], vocab_size=a["vocabulary"], hidden_size=a["hidden"], intermediate_size=a["expert_hidden"],
            moe_intermediate_size=a["expert_hidden"], num_ffi=2, num_decoder_layers=a["layers"],
            num_attention_heads=a["heads"], head_dim=a["head_dim"], num_key_value_heads=a["kv_heads"],
            num_experts=a["experts"], expert_top_k=a["top_k"], moe_layer_freq=1,
        )  # fmt: skip
        system = {
            "real_values": True, "Flops": g["flop_per_s"] / 1e12, "Memory_BW": g["bytes_per_s"] / 1e9,
            "Memory_size": g["bytes"] / 1e9, "ICN": g["link_bytes_per_s"] / 1e9, "ICN_LL": 1,
        }  # fmt: skip
        tensor, expert = (1, q["gpus"]) if q["expert"] else (q["gpus"], 1)
        split = {
            "tensor_parallel": tensor, "expert_parallel": expert, "bits": q["bits"],
            "parallelism_heirarchy": f"TP{{{tensor}}}_EP{{{expert}}}_PP{{1}}", "system_name": system,
        }  # fmt: skip
        start = time.perf_counter()
        prefill = prefill_moddeling(model=model, batch_size=1, input_tokens=q["prompt_tokens"], **split)
        decode = decode_moddeling(
            model=model,
            batch_size=q["clients"],
            input_tokens=q["prompt_tokens"],
            output_tokens=q["output_tokens"],
            Bb=1,
            **split,
        )
        spent = time.perf_counter() - start
        return {"ttft_s": prefill["Latency"] / 1e3, "tpot_s": decode["Latency"] / 1e3, "seconds": spent}
    except (Exception, SystemExit) as error:
        return {"reason": f"{type(error).__name__}: {str(error)[:200]}"}


for line in sys.stdin:
    question = json.loads(line)
    print("answer:" + json.dumps({"id": question["id"], **answer(question)}), flush=True)
