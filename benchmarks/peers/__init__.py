"""Side by side with other estimators: the same served runs, their answer, ours, what was measured, and the time."""
