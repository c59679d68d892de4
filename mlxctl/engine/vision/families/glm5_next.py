"""GLM-5.3: patches, merged to cells."""

from mlxctl.engine.vision.merged_patches import MergedPatchEncoder


class Encoder(MergedPatchEncoder):
    """Encodes a picture of any size."""
