"""Speed and memory of minstein, as CPU seconds and ratios: `python -m benchmarks [case ...]`."""
