"""A run to start from, and a table as text."""

from __future__ import annotations

from validation.measured.runs import Run

HYBRID = Run(
    id="A1",
    model="deepseek-ai/DeepSeek-V3",
    tokens_per_s=8.7,
    phase="decode",
    regime="cpu_experts",
    system_family="ktransformers",
    split_unit="rig-1",
    weight_bits=4.8,
    weight_bits_note="Q4_K_M",
    gpu="RTX 4090D 24GB",
    n_gpu=1,
    cpu="Xeon Gold 6454S",
    sockets=1,
    cores_per_socket=32,
    numa_mode="single",
    mem_GBps_theoretical=307.2,
    batch=1.0,
    input_len=500.0,
    context_depth=500.0,
)
SERVED = Run(
    id="B1",
    model="openai/gpt-oss-120b",
    tokens_per_s=700.0,
    per="total",
    phase="e2e",
    regime="all_gpu",
    system_family="vllm",
    split_unit="rig-2",
    weight_bits=4.25,
    weight_bits_note="MXFP4",
    gpu="H100 SXM 80GB",
    n_gpu=2,
    parallelism="tp2",
    concurrency=16.0,
    input_len=1000.0,
    output_len=200.0,
)
FEW = """model,weight_bits,gpu,n_gpu,cpu,mem_GBps_theoretical,batch,input_len,output_len,phase,tokens_per_s,per
Qwen/Qwen3-30B-A3B,4.5,RTX 4090 24GB,1,Ryzen 9 7950X,83.2,1,512,128,decode,40,request
"""
