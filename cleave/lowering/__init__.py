"""How named tiles become positional tensors: the parts of `convert-sched-to-tt`."""
