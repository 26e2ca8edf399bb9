"""aiconfigurator: ``cli_estimate`` from measured kernels, in HYBRID mode where it has none."""

import json
import os
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"

from aiconfigurator.cli.api import cli_estimate


def answer(q):
    reason = ""
    for mode in ("SILICON", "HYBRID"):
        start = time.perf_counter()
        try:
            found = cli_estimate(
                q["model"],
                q["system"],
                backend_name=q["backend"],
                database_mode=mode,
                isl=q["prompt_tokens"],
                osl=q["output_tokens"],
                batch_size=max(q["clients"] // q["attention_data"], 1),
                tp_size=q["gpus"] // q["attention_data"],
                attention_dp_size=q["attention_data"],
                moe_tp_size=1 if q["expert"] else q["gpus"],
                moe_ep_size=q["gpus"] if q["expert"] else 1,
            )
            return {
                "ttft_s": found.ttft / 1e3,
                "tpot_s": found.tpot / 1e3,
                "how": mode,
                "seconds": time.perf_counter() - start,
            }
        except (Exception, SystemExit) as error:
            reason = f"{mode}: {type(error).__name__}: {str(error)[:200]}"
    return {"reason": reason}


for line in sys.stdin:
    question = json.loads(line)
    print("answer:" + json.dumps({"id": question["id"], **answer(question)}), flush=True)
