"""Questions about several runs together: studies, sweeps, scaling, ranking, comparison, and advice on one run."""
