"""The pages. Nothing here computes: everything shown comes from one planner.result.Result."""
