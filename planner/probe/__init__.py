"""Measures the machine it runs on, without root: memory, expert-shaped products, GPU, links; and says what costs speed.

``recording`` holds what was timed, ``figures`` turns a recording into figures of the hardware catalog, ``diagnosis``
into sentences, ``run`` does all of it. Timing (``cpu``, ``gpu``) is apart, so that a recorded run goes through the same
code again.
"""
