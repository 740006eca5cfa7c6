"""The numbered steps of one micro-batch of the exactly-once sink; needs no Spark to be read."""

TASK_STEPS = ("starting", "opened", "writing", "written")
COMMIT_STEPS = ("deciding", "marked", "ended")
STEPS = (*TASK_STEPS, *COMMIT_STEPS)
