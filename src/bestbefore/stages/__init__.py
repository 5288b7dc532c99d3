"""The path of the data: trigger, plan, dispatch, work, redrive, verify."""
