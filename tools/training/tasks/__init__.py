"""Models of single tasks, trained in minutes, measured, and never shipped.

Read ``table`` (what tasks there are), ``examples`` (rows, and how they are split), ``sources``
(where a task's rows come from), ``learning`` (training, with its curve), ``measuring`` (the task's
metric, free and constrained), ``cards`` (what is written of a model).
"""
