"""A Ray cluster of several nodes on this machine."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"

import ray
from ray.cluster_utils import Cluster

SMALL = {"object_store_memory": 80 * 2**20, "include_dashboard": False}
IMPATIENT = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 4,
}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A head, whose two CPUs are for those who ask for nothing else."""
    head = {"num_cpus": 2, "_system_config": IMPATIENT, **SMALL}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    ray.init(cluster.address, logging_level="ERROR", log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def add_node(cluster: Any) -> Iterator[Callable[..., Any]]:
    """Nodes that are removed after the test, if they have not been before."""
    nodes = []

    def add(**resources: Any) -> Any:
        node = cluster.add_node(num_cpus=0, wait=True, **resources, **SMALL)
        nodes.append(node)
        return node

    yield add
    for node in nodes:
        if node in cluster.worker_nodes:
            cluster.remove_node(node)
