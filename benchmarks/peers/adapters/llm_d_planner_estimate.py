"""llm-d-planner: its performance estimate is llm-optimizer's roofline, which it imports if that is there."""

import json
import os
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"
REASON = ""
try:
    from planner.gpu_recommender import GPURecommender
except (Exception, SystemExit) as error:
    REASON = f"{type(error).__name__}: {str(error)[:200]}"


def answer(q):
    if REASON:
        return {"reason": f"no performance estimate without llm-optimizer ({REASON})"}
    try:
        start = time.perf_counter()
        recommender = GPURecommender(
            model_id=q["model"],
            input_len=q["prompt_tokens"],
            output_len=q["output_tokens"],
            gpu_list=[q["gpu"]["name"]],
            max_gpus=q["gpus"],
        )
        found = recommender.get_gpu_results()
        spent = time.perf_counter() - start
        result = next(iter(found[0].values())) if isinstance(found, tuple) else next(iter(found.values()))
        best = result.best_configs["best_latency"]
        return {"ttft_s": best.ttft_ms / 1e3, "tpot_s": best.itl_ms / 1e3, "seconds": spent}
    except (Exception, SystemExit) as error:
        return {"reason": f"{type(error).__name__}: {str(error)[:200]}"}


for line in sys.stdin:
    question = json.loads(line)
    print("answer:" + json.dumps({"id": question["id"], **answer(question)}), flush=True)
