"""The tables of ``docs/models.md`` from the data: ``python -m models.tables`` prints them."""

from __future__ import annotations

from models.formats import DEVICE_CLASSES, FORMATS, KV_FORMATS, compute_path

_SIGN = {"native": "native", "dequantise": "expands", "no": "cannot"}


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def formats_table() -> str:
    """Weight formats with bits per weight, group and source."""
    lines = [_row("id", "bits per weight", "group", "source"), _row("---", "---:", "---:", "---")]
    for form in FORMATS.values():
        bits = f"{form.bits_per_weight:.10g}"
        lines.append(_row(f"`{form.id}`", bits, str(form.group_size or "-"), form.source))
    return "\n".join(lines)


def kv_table() -> str:
    """KV formats."""
    lines = [_row("id", "bits per value", "bits of scale per vector", "source"), _row("---", "---:", "---:", "---")]
    lines += [_row(f"`{f.id}`", str(f.bits), str(f.vector_scale_bits), f.source) for f in KV_FORMATS.values()]
    return "\n".join(lines)


def compute_table() -> str:
    """One row per class of device, one column per family of formats; the rate that the product runs at in brackets."""
    families = {form.family: form.id for form in FORMATS.values()}
    lines = [_row("device class", *(f"`{family}`" for family in families)), _row(*["---"] * (len(families) + 1))]
    for device in DEVICE_CLASSES:
        paths = [compute_path(format_id, device) for format_id in families.values()]
        cells = [_SIGN[path.how] + (f" ({path.rate})" if path.rate else "") for path in paths]
        lines.append(_row(f"`{device}`", *cells))
    return "\n".join(lines)


def compute_sources() -> str:
    """Where each cell of the table comes from."""
    found: dict[str, list[str]] = {}
    for form in FORMATS.values():
        for device in DEVICE_CLASSES:
            cell = f"`{form.family}` on `{device}`"
            cells = found.setdefault(compute_path(form.id, device).source, [])
            if cell not in cells:
                cells.append(cell)
    return "\n".join(f"* {source}: {len(cells)} cells, first {cells[0]}" for source, cells in found.items())


if __name__ == "__main__":
    print("\n\n".join((formats_table(), kv_table(), compute_table(), compute_sources())))
