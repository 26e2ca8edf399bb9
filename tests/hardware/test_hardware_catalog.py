"""The catalog as data: every figure is complete and legal, silicon limits are kept, the schema covers all."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hardware import KINDS, catalog_digest, device, devices, find_device, path_schema
from hardware import catalog as catalog_module
from hardware.catalog import CATALOG, GROUPS, defaults
from hardware.figure import FIELDS, Figure, HardwareError

UNIT_ENDINGS = {
    "bytes": "bytes",
    "bytes_per_s": "bytes/s",
    "flop_per_s": "FLOP/s",
    "op_per_s": "OP/s",
    "j_per_byte": "J/byte",
    "j_per_flop": "J/FLOP",
    "w": "W",
    "mt_per_s": "MT/s",
    "s": "s",
    "hz": "Hz",
    "usd": "USD",
    "usd_per_hour": "USD/h",
    "efficiency": "share",
    "share": "share",
    "per_node": "count",
    "count": "count",
    "overlap": "share",
}

# Names under which the published measurements list their machines.
MEASURED_GPUS = """A100 40GB|A100 SXM 80GB|B200 180GB|DGX Spark GB10 128GB|GB200 192GB|GB300 288GB|H100 NVL 94GB|
H100 SXM 80GB|H20 96GB|H200 SXM 141GB|H800 80GB|L20 48GB|L4 24GB|L40 48GB|MI300X 192GB|MI350X 288GB|Quadro RTX 4000 8GB|
RTX 3060 12GB|RTX 3080 20GB|RTX 3090 24GB|RTX 4080 16GB|RTX 4090 24GB|RTX 4090 48GB|RTX 4090D 24GB|RTX 5060 Ti 16GB|
RTX 5070 Ti 16GB|RTX 5090 32GB|RTX 6000 Ada 48GB|RTX A5000 24GB|RTX A6000 48GB|RTX PRO 6000 Blackwell 96GB|
RX 7900 XT 20GB|T4 16GB""".replace("\n", "").split("|")
MEASURED_CPUS = """EPYC 7773X|EPYC 7V12|EPYC 9355|EPYC Rome 64c|GCP Xeon 2.20GHz 24 vCPU|GCP Xeon 2.30GHz 24 vCPU|
Ryzen 7 7800X3D|Ryzen 9 5900X|Ryzen 9 5950X|Ryzen 9 7945HX|Ryzen 9 7950X|Ryzen 9 9900X|Threadripper PRO 3995WX|
Threadripper PRO 7965WX|Xeon 6960P|Xeon 6980P|Xeon E5-2630 v4|Xeon Gold 5318Y|Xeon Gold 6138|Xeon Gold 6252|
Xeon Gold 6330|Xeon Gold 6454S|Xeon Gold 6526Y|Xeon Platinum 8468|Xeon Platinum 8470|Xeon Platinum 8488C|
Xeon Platinum 8570""".replace("\n", "").split("|")


def _raw_figures(node: object, where: str = "") -> list[tuple[str, dict]]:
    """Every object in a catalog file that looks like a figure, with its place."""
    if isinstance(node, dict):
        if "kind" in node and "source" in node:
            return [(where, node)]
        return [pair for key, child in node.items() for pair in _raw_figures(child, f"{where}/{key}")]
    if isinstance(node, list):
        return [pair for index, child in enumerate(node) for pair in _raw_figures(child, f"{where}/{index}")]
    return []


ALL_FIGURES = [
    (f"{path.name}{where}", raw)
    for path in sorted(CATALOG.glob("*.json"))
    for where, raw in _raw_figures(json.loads(path.read_text(encoding="utf-8")))
]


def test_every_figure_in_the_files_has_all_seven_fields_and_a_legal_kind():
    assert len(ALL_FIGURES) > 900
    for where, raw in ALL_FIGURES:
        assert set(raw) == set(FIELDS), where
        assert raw["kind"] in KINDS, where
        assert len(raw["source"]) > 3, where
        assert raw["unit"], where
        assert raw["date"] is None or re.fullmatch(r"20\d\d(-\d\d(-\d\d)?)?", raw["date"]), where


def test_every_range_holds_its_value():
    for where, raw in ALL_FIGURES:
        numbers = [x for x in (raw["low"], raw["value"], raw["high"]) if x is not None]
        assert numbers == sorted(numbers), where
        assert raw["value"] is not None or numbers == [], where


def test_an_assumption_with_a_value_has_a_range_or_is_a_count():
    for where, raw in ALL_FIGURES:
        if (
            raw["kind"] == "assumed"
            and raw["value"] is not None
            and raw["unit"] not in ("count", "rows", "FLOP/s", "OP/s")
        ):
            assert None not in (raw["low"], raw["high"]), where


def test_no_source_points_into_this_machine():
    for path in CATALOG.glob("*.json"):
        text = path.read_text(encoding="utf-8")
        for word in ("/work", "/tmp", "../", ".md section", "papers.md", "efficiency.md", "baselines.md", "seed note"):
            assert word not in text, (path.name, word)


def test_ids_are_unique_and_every_path_is_in_the_schema():
    ids = [entry.id for entry in devices()]
    assert len(ids) == len(set(ids))
    known = {spec.path: spec for spec in path_schema()}
    for entry in devices():
        for path, figure in entry.figures.items():
            if path.startswith("link."):
                assert entry.kind == "link", entry.id
            else:
                assert figure.unit == known[path].unit, (entry.id, path)
    for default in defaults():
        assert default.figure.unit == known[default.path].unit


def test_values_lie_within_the_bounds_of_their_path():
    known = {spec.path: spec for spec in path_schema()}
    named = [(f"{d.id} {p}", p, f) for d in devices() for p, f in d.figures.items() if p in known]
    named += [(f"default {d.path}", d.path, d.figure) for d in defaults()]
    for where, path, figure in named:
        for number in (figure.low, figure.value, figure.high):
            assert number is None or known[path].lower <= number <= known[path].upper, where


def test_the_schema_is_complete_for_people():
    paths = [spec.path for spec in path_schema()]
    assert len(paths) == len(set(paths))
    for spec in path_schema():
        assert spec.group in GROUPS
        assert spec.lower < spec.upper
        assert spec.description.endswith(".")
        assert spec.label
        name = spec.path.split(".")[1]
        endings = [ending for ending in UNIT_ENDINGS if name == ending or name.endswith("_" + ending)]
        if endings:
            assert spec.unit == UNIT_ENDINGS[max(endings, key=len)], spec.path


@pytest.mark.parametrize("name", MEASURED_GPUS)
def test_gpus_of_published_measurements_are_there(name):
    found = find_device(name)
    assert found is not None
    assert found.kind == "gpu"
    for path in ("gpu.memory_capacity_bytes", "gpu.memory_bandwidth_bytes_per_s", "gpu.tdp_w", "gpu.idle_w"):
        assert found.figures[path].value is not None, path
    assert found.figures["gpu.bf16_flop_per_s"].value or found.figures["gpu.fp16_flop_per_s"].value


@pytest.mark.parametrize("name", MEASURED_CPUS)
def test_cpus_of_published_measurements_are_there(name):
    found = find_device(name)
    assert found is not None
    assert found.kind == "cpu"
    assert found.device_class in ("amx", "avx512", "avx2", "neon")
    for path in ("cpu.cores_per_socket", "cpu.base_clock_hz", "cpu.memory_channels", "cpu.memory_mt_per_s_1dpc"):
        assert found.figures[path].value is not None, path


def test_an_80_gb_card_holds_what_it_reports():
    reported = device("h100-sxm-80gb").figures["gpu.memory_capacity_bytes"].value
    assert reported == 81_559 * 2**20
    assert 80e9 < reported < 80 * 2**30


@pytest.mark.parametrize("device_class", ["turing", "ampere", "ada", "hopper", "cdna3", "rdna"])
def test_no_fp4_before_blackwell_and_cdna4(device_class):
    found = [d for d in devices() if d.kind == "gpu" and d.device_class == device_class]
    assert found
    assert all(d.figures["gpu.fp4_flop_per_s"].value is None for d in found)


@pytest.mark.parametrize("device_class", ["turing", "ampere"])
def test_no_fp8_before_ada_and_hopper(device_class):
    for entry in devices():
        if entry.kind == "gpu" and entry.device_class == device_class:
            assert entry.figures["gpu.fp8_flop_per_s"].value is None, entry.id


def test_only_amx_cpus_have_a_matrix_unit():
    for entry in devices():
        if entry.kind == "cpu":
            assert (entry.figures["cpu.bf16_flop_per_s"].value is not None) == (entry.device_class == "amx"), entry.id


def test_rates_of_a_cpu_equal_cores_times_clock_times_width():
    for entry in devices():
        if entry.kind != "cpu":
            continue
        cores, clock = (entry.figures[p].value for p in ("cpu.cores_per_socket", "cpu.base_clock_hz"))
        for rate, width in (
            ("cpu.bf16_flop_per_s", "cpu.bf16_flop_per_cycle"),
            ("cpu.int8_op_per_s", "cpu.int8_op_per_cycle"),
            ("cpu.vector_flop_per_s", "cpu.vector_flop_per_cycle"),
        ):
            per_cycle = entry.figures[width].value
            if per_cycle is not None:
                assert entry.figures[rate].value == pytest.approx(cores * clock * per_cycle, rel=1e-5)


def test_narrower_formats_are_never_slower_on_a_gpu():
    for entry in devices():
        if entry.kind == "gpu":
            wide, narrow = (entry.figures[f"gpu.{n}_flop_per_s"].value for n in ("bf16", "fp8"))
            assert wide is None or narrow is None or narrow >= wide, entry.id


def test_the_default_matrix_efficiency_is_that_of_the_gpu_on_which_it_was_fitted():
    default = next(d.figure for d in defaults() if d.path == "gpu.compute_efficiency_max")
    fitted = device("h100-sxm-80gb").figures["gpu.compute_efficiency_max"]
    assert (default.low, default.value, default.high) == (fitted.low, fitted.value, fitted.high)
    # It lies between whole serving engines (0.36) and the best measured product on this GPU (0.80).
    assert 0.36 <= default.value < 0.80


def test_the_cxl_bandwidth_default_is_dram_physics_and_not_the_fitted_value():
    figure = next(d.figure for d in defaults() if d.path == "cxl.bandwidth_efficiency")
    assert figure.value == 0.90
    assert figure.low == pytest.approx(0.39)


def test_the_digest_follows_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = catalog_digest()
    assert re.fullmatch(r"[0-9a-f]{64}", before)
    for path in CATALOG.glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(catalog_module, "CATALOG", tmp_path)
    assert catalog_digest.__wrapped__() == before
    text = (tmp_path / "gpus.json").read_text()
    (tmp_path / "gpus.json").write_text(text.replace('"value": 700', '"value": 701', 1))
    assert catalog_digest.__wrapped__() != before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "guess"}, "guess"),
        ({"low": 5.0}, "outside its range"),
        ({"value": None, "low": 1.0}, "range but no value"),
        ({"source": ""}, "source"),
        ({"value": float("nan")}, "finite"),
        ({"value": True}, "finite"),
    ],
)
def test_a_bad_figure_is_refused_by_name(change, words):
    raw = {"value": 2.0, "unit": "W", "low": 1.0, "high": 3.0, "source": "here", "date": None, "kind": "assumed"}
    assert Figure.from_json(raw, "a place").value == 2.0
    with pytest.raises(HardwareError, match=words) as caught:
        Figure.from_json(raw | change, "a place")
    assert str(caught.value).startswith("a place")


def test_a_figure_without_a_field_is_refused():
    with pytest.raises(HardwareError, match="exactly the fields"):
        Figure.from_json({"value": 1.0}, "a place")


def test_an_unknown_device_names_the_nearest():
    with pytest.raises(HardwareError, match="h100-sxm-80gb"):
        device("h100-sxm")
    assert find_device("no such thing") is None
