"""The U-Net Ensemble: independent U-Nets that are combined after training."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tf_probunet.models import registry
from tf_probunet.models.base import Batch, SegmentationModel
from tf_probunet.models.m_heads import checked_count
from tf_probunet.models.unet import UNet


class UNetEnsemble(SegmentationModel):
    """An ensemble whose samples are the segmentations of its members, in order."""

    def __init__(self, members: Sequence[UNet]):
        if not members:
            raise ValueError("an ensemble needs at least one member")
        super().__init__(members[0].config, members[0].seed, registry.ENSEMBLE)
        self.members = list(members)
        self.max_samples = len(self.members)

    def fit_terms(
        self,
        shared: tf.Tensor,
        batch: Batch,
        seed: tf.Tensor,
        kl_weight: float | tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Returns the members' mean cross-entropy. Each member is trained alone."""
        losses = [
            member.fit_terms(member.shared(shared), batch, seed, kl_weight)["loss"]
            for member in self.members
        ]
        return {"loss": tf.add_n(losses) / len(losses)}

    def sample(
        self, image: tf.Tensor, num_samples: int | tf.Tensor, seed: tf.Tensor
    ) -> tf.Tensor:
        """Returns the first `num_samples` members' segmentations."""
        del seed
        num_samples = checked_count(num_samples, len(self.members), "members")
        branches = [lambda m=member: m.logits(image)[:, 0] for member in self.members]
        logits = tf.map_fn(
            lambda i: tf.switch_case(i, branches),
            tf.range(num_samples),
            fn_output_signature=tf.float32,
            parallel_iterations=1,
        )
        return tf.transpose(logits, [1, 0, 2, 3, 4])
