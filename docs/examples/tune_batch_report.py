"""Tune a collective, compare the result with other policies in a batch, and write a report.

python docs/examples/tune_batch_report.py [FOLDER]
"""

import sys
from pathlib import Path

import themis_opt
from themis_opt.batches.experiment_run import run_experiment
from themis_opt.reports import make_report
from themis_opt.tuning.folder import write_tuned

EXPERIMENT = """
name = "tuned"
title = "A tuned collective beside other policies"
report = "table"

[[runs]]
instances = ["instance.json"]
policies = {policies}
"""


def main(folder: Path) -> None:
    """Tune, run, report."""
    folder.mkdir(parents=True, exist_ok=True)
    instance = themis_opt.load("2d-sw_sw.all_reduce.100MiB")
    tuned = themis_opt.tune(instance, trials=10, profiles=("equal",), launch_overhead="10 us")
    write_tuned(folder, tuned)
    print(f"tuned: {tuned.policy}, {tuned.best.value / 1e6:.2f} ms, {tuned.gain:.1%} saved")

    experiment = folder / "experiment.toml"
    policies = dict.fromkeys(["baseline+fifo", "themis+scf", tuned.policy, "bound"])  # each once
    experiment.write_text(EXPERIMENT.format(policies=list(policies)), encoding="utf-8")
    finished = run_experiment(experiment, jobs=1)
    print(f"batch: {finished.provenance['rows']} rows in {finished.rows}")

    made = make_report(folder)
    print(f"report: {made.files[-1]}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "tuned"))
