"""``sweep`` and ``sensitivity``: the same figures as everywhere; text, JSON and CSV; every mistake a sentence."""

from __future__ import annotations

import csv
import io
import json

import pytest

import planner
from planner.cli.main import main
from planner.sweep import Axis, SweepSpec, from_json, sweep


@pytest.fixture
def cli(capsys):
    """Run a command line with the real engine, in this process."""

    def run(*arguments):
        code = main(arguments)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


HERE = ("--executor", "here")


def test_json_is_the_record_and_a_spec_gives_it_again(cli, tmp_path):
    code, out, err = cli("sweep", "--axis", "workload.batch=1,32", "--axis", "policy.id=all-gpu", "--json", *HERE)
    assert (code, err) == (0, "")
    found = from_json(out)
    axes = (Axis(path="workload.batch", values=(1, 32)), Axis(path="policy.id", values=("all-gpu",)))
    assert found == sweep(SweepSpec(axes=axes))
    file = tmp_path / "spec.json"
    file.write_text(found.spec.model_dump_json())
    assert from_json(cli("sweep", str(file), "--json", *HERE)[1]) == found
    file.write_text(out)  # a whole sweep is a spec too
    assert from_json(cli("sweep", str(file), "--json", *HERE)[1]) == found


def test_csv_has_every_input_and_reads_back_to_the_same_plan(cli, tmp_path):
    file = tmp_path / "points.csv"
    code, out, _ = cli("sweep", "--axis", "workload.batch=log:1:16:3", "--out", str(file), *HERE)
    assert code == 0 and "3 of 3 points" in out
    rows = list(csv.DictReader(io.StringIO(file.read_text())))
    assert [row["workload.batch"] for row in rows] == ["1", "4", "16"]
    for row in rows:
        from ui import address

        scenario = address.decode(row["link"].removeprefix("?s="))
        assert str(scenario.workload.batch) == row["input: workload.batch"] == row["workload.batch"]
        assert scenario.model.id == row["input: model.id"] and scenario.content_hash() == row["scenario_hash"]
        head = planner.plan(scenario, with_ranges=False, with_marginals=False).headline
        assert float(row["tpot_s"]) == head.tpot_s


def test_cells_that_start_like_a_formula_are_text():
    from planner.csv_text import to_csv

    rows = list(csv.reader(io.StringIO(to_csv(["a"], [["=1+1"], ["@x"], [-1.5], [None], [True]]))))
    assert rows == [["a"], ["'=1+1"], ["'@x"], ["-1.5"], [""], ["true"]] or rows[4] == []


def test_text_names_the_best_and_says_why_others_have_no_figures(cli):
    code, out, _ = cli(
        "sweep", "--axis", "workload.batch=1,64", "--axis", "policy.id=all-gpu,monde", "--metric", "tpot_s", *HERE
    )
    assert code == 0 and out.startswith("Best on time per output token: point 0 (*)")
    assert "needs" in out and "GPU HBM bandwidth" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "A sweep needs an axis"),
        (("--axis", "workload.bach=1"), "nearest is workload.batch"),
        (("--axis", "workload.batch"), "it takes PATH=V1,V2"),
        (("--axis", "workload.batch=log:1:2"), "LOW:HIGH:COUNT"),
        (("--axis", "workload.batch=linear:1:1e9:1000000000"), "1,000,000,000 points"),
        (("--axis", "workload.batch=linear:a:2:3"), "is no number"),
        (("--axis", "workload.batch=1", "--executor", "dask"), "address of a scheduler"),
        (("--axis", "workload.batch=1", "--metric", "tpots"), "tpot_s"),
        (("--axis", "workload.batch=1", "--samples", "x"), "whole number"),
    ],
)
def test_a_sweep_that_cannot_be_run_is_one_sentence(cli, arguments, words):
    code, out, err = cli("sweep", *arguments)
    assert (code, out) == (2, "") and words in err
    assert err.count("\n") == 1


def test_sensitivity_gives_the_three_analyses(cli):
    arguments = ["--policy", "cpu-experts", "--system", "h100-amx-server", *HERE, "--input", "gpu.reserve_bytes",
                 "--input", "dram.bandwidth_bytes_per_s", "--against", "all-gpu"]  # fmt: skip
    code, out, err = cli("sensitivity", *arguments, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [one["key"] for one in found["tornado"]] == ["tpot_s", "usd_per_million_output_tokens"]
    assert found["elasticities"]["rows"][0]["path"] == "system.overrides.dram.bandwidth_bytes_per_s"
    assert found["flips"]["flips"][0]["path"] == "system.overrides.gpu.reserve_bytes"
    assert found["options"][0]["policy"]["id"] == "all-gpu"
