"""GLM-4V and GLM-OCR: patches, merged to cells."""

from mlxctl.engine.vision.merged_patches import MergedPatchEncoder


class Encoder(MergedPatchEncoder):
    """Encodes a picture of any size."""
