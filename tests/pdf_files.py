"""PDF files of one text line a page."""

RED_PAGE = b"0.86 0.12 0.12 rg 0 0 612 792 re f"


def pdf(*pages: str | bytes) -> bytes:
    """Return a file with these pages.

    Each is a line of text, or operators that draw.
    """
    numbers = range(3, 3 + 2 * len(pages), 2)
    kids = " ".join(f"{number} 0 R" for number in numbers)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>".encode(),
    ]
    font = b"<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>"
    for number, page in zip(numbers, pages, strict=True):
        drawn = page if isinstance(page, bytes) else f"BT /F 24 Tf 50 700 Td ({page}) Tj ET".encode("latin-1")
        size = b"/MediaBox[0 0 612 792]/Resources<</Font %b>>" % font
        objects += [
            b"<</Type/Page/Parent 2 0 R%b/Contents %d 0 R>>" % (size, number + 1),
            b"<</Length %d>>stream\n%b\nendstream" % (len(drawn), drawn),
        ]
    written = bytearray(b"%PDF-1.7\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(written))
        written += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    start = len(written)
    written += b"xref\n0 %d\n0000000000 65535 f \n%b" % (len(objects) + 1, table)
    written += b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start)
    return bytes(written)
