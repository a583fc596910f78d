"""From a plan to recorded windows: profiles, targets, comparisons, experiments, bisection, the agent."""
