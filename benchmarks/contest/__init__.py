"""Two sides measured in one run: the same task, the same cores, taking turns.

``task`` is what both do, ``gpt`` how Shardwise does it and ``torch_gpt`` how the peer does. A ``worker``
is one process of one side and a ``team`` all the processes of one world; ``rounds`` is what came of their
turns. A ``stopwatch`` finds out where a step of ours spends its time, and a ``profile`` says it.
"""
