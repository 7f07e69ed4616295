"""Settings of the HTTP service."""

from __future__ import annotations

import dataclasses
from typing import Any


def _field(default: Any, text: str) -> Any:
    return dataclasses.field(default=default, metadata={"help": text})


@dataclasses.dataclass(frozen=True)
class ServeConfig:
    """Where the service listens, and how much it takes on."""

    host: str = _field("127.0.0.1", "address to listen on; 0.0.0.0 is every network")
    port: int = _field(8080, "port to listen on; 0 for a free one")
    max_batch: int = _field(8, "images that the network segments at once")
    max_requests: int = _field(64, "requests that may wait; more are refused with 503")
    max_samples: int = _field(128, "num_samples that a request may ask for")
    max_upload_mib: int = _field(16, "size of an uploaded file")
    max_memory_mib: int = _field(256, "memory that one image and its samples may take")
    timeout_seconds: float = _field(60.0, "time that a request may take; then 504")

    def __post_init__(self) -> None:
        """Checks the numbers."""
        limits = {
            "port": (0, 65535),
            "max_batch": (1, 1024),
            "max_requests": (1, 65536),
            "max_samples": (1, 4096),
            "max_upload_mib": (1, 2048),
            "max_memory_mib": (1, 2048),
            "timeout_seconds": (0.1, 86400),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} is {value}, expected {low} to {high}")
