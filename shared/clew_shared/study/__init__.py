"""What is asked of several runs together: studies, sweeps, scaling, ranking, comparison, and advice on one run."""
