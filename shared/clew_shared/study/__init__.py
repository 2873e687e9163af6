"""What is asked of several runs together: races, sweeps and speed-up studies."""
