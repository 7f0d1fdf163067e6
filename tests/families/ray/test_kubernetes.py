"""The manifests in docs/examples/kubernetes against Kubernetes' own schemas."""

from pathlib import Path

import kubernetes_validate
import pytest
import yaml

MANIFESTS = sorted(
    (Path(__file__).parents[3] / "docs" / "examples" / "kubernetes").glob("*.yaml")
)


@pytest.mark.parametrize("version", ["1.31", "1.34"])
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_are_valid(path: Path, version: str) -> None:
    for resource in yaml.safe_load_all(path.read_text()):
        kubernetes_validate.validate(resource, version, strict=True)
