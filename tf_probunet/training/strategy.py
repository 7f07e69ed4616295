"""Which devices a run uses."""

from __future__ import annotations

import tensorflow as tf


def mirrored(cpu_devices: int = 1) -> tf.distribute.Strategy:
    """Returns a `MirroredStrategy` over all GPUs, or over the CPU if there is none.

    Args:
        cpu_devices: without a GPU, into how many logical devices the CPU is split: one
            replica on each. For trying out more than one replica.

    Raises:
        ValueError: TensorFlow has started with another number of devices.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        return tf.distribute.MirroredStrategy()
    if cpu_devices > 1:
        split_cpu(cpu_devices)
    names = [f"CPU:{i}" for i in range(cpu_devices)]
    # The collective operations that are the default gain nothing in one memory, and
    # two strategies in one process get in each other's way with them.
    return tf.distribute.MirroredStrategy(
        names, cross_device_ops=tf.distribute.ReductionToOneDevice()
    )


def split_cpu(num_devices: int) -> None:
    """Splits the CPU into logical devices; must come before anything is computed."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    devices = [tf.config.LogicalDeviceConfiguration() for _ in range(num_devices)]
    try:
        tf.config.set_logical_device_configuration(cpu, devices)
    except RuntimeError as error:
        found = len(tf.config.list_logical_devices("CPU"))
        if found != num_devices:
            raise ValueError(
                f"cpu_devices is {num_devices}, but TensorFlow has already started "
                f"with {found}"
            ) from error
