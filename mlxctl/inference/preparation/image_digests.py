"""Requests without the bytes of their images: enough to tell equal ones. Pure."""

from dataclasses import replace
from hashlib import blake2b

from mlxctl.ir import GenerationRequest, ImagePart, Message, Part, TextPart, ToolResultPart


def without_image_bytes(request: GenerationRequest) -> GenerationRequest:
    """Return the request with a digest of each image in place of the image: enough to tell equal ones."""
    if not any(message.num_images for message in request.messages):
        return request
    return replace(request, messages=tuple(map(_without_bytes, request.messages)))


def _without_bytes(message: Message) -> Message:
    return replace(message, parts=tuple(map(_digested, message.parts)))


def _digested(part: Part) -> Part:
    if isinstance(part, ToolResultPart):
        return replace(part, content=tuple(_digest_image(inner) for inner in part.content))
    return _digest_image(part) if isinstance(part, ImagePart) else part


def _digest_image(part: TextPart | ImagePart) -> TextPart | ImagePart:
    return replace(part, data=blake2b(part.data).digest()) if isinstance(part, ImagePart) else part
