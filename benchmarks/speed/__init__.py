"""What it costs: latency, throughput, studies, the service."""
