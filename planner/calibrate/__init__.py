"""Calibration from real weights: quantise every expert of a safetensors checkpoint, measure what its output loses.

``safetensors`` reads headers and maps bytes, ``decode`` turns stored types into numbers, ``layouts`` finds experts
under the names of each family, ``experts`` computes them, ``quantise`` and ``gptq`` quantise, ``activations`` gives the
inputs, ``measure`` puts it together and ``command`` is what the command line calls.
"""
