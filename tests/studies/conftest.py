"""Studies share the bench of the harness."""

from tests.harness.conftest import bench as bench
