"""Steps of use at which owners are warned, with hysteresis. Pure."""

STEPS = (80, 95, 100)  # percent of a limit
GAP = 5  # percent below a step at which it counts as left, so that it may be warned of again


def reached_step(used: int, limit: int) -> int:
    """Return the highest of STEPS that the use has reached; 0 if none."""
    return max((step for step in STEPS if 100 * used >= step * limit and used), default=0)


def following_step(told: int, used: int, limit: int) -> int:
    """Return the step to remember after the step `told` was warned of. Above `told`: warn now."""
    kept = (step for step in STEPS if step <= told and 100 * used > (step - GAP) * limit)
    return max(reached_step(used, limit), max(kept, default=0))
