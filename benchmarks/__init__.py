"""Speed and memory of penstock beside its peers: `python -m benchmarks [names] [--quick]`. See README.md."""
