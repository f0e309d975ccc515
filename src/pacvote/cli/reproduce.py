"""The command `reproduce`: the paper's experiments, tables and figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from pacvote._inputs import nearest
from pacvote.cli.screen import Screen, complain

if TYPE_CHECKING:
    from pacvote.paper.results import Results
    from pacvote.paper.units import Experiment, Unit

What = Literal["rf", "mce", "oracle", "bennett", "all"]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Runs:
    """What to run, from which data.

    Parameters
    ----------
    datasets
        Names as in the paper, in small or capital letters; by default all.
    repetitions
        How often to split, fit and weigh anew.
    data_dir
        Where the data sets are, as .npz or in LIBSVM's text form; by default where the variable
        PACVOTE_DATA says. What is missing is named, and left out.
    download
        Fetch what is missing from OpenML, if it is there.
    seed
        Draws splits and bags. A repetition depends on nothing else.
    n_jobs
        Repetitions to run at the same time.
    """

    datasets: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ()
    repetitions: int = 10
    data_dir: Path | None = None
    download: bool = False
    seed: int = 0
    n_jobs: int = 1

    def __post_init__(self) -> None:
        for name, least in (("repetitions", 1), ("seed", 0), ("n_jobs", 1)):
            if getattr(self, name) < least:
                msg = f"`{name}` must be at least {least}, got {getattr(self, name)}"
                raise ValueError(msg)

    def units(self, experiments: list[Experiment]) -> list[Unit]:
        """Return all repetitions on all data sets."""
        from pacvote.paper.datasets import DATASETS
        from pacvote.paper.reproduce import plan

        known = {name.lower(): name for name in DATASETS}
        for name in self.datasets:
            if name.lower() not in known:
                near = nearest(name, DATASETS)
                all_names = ", ".join(DATASETS)
                msg = f"`datasets` has no {name!r}; did you mean {near!r}? Known: {all_names}"
                raise ValueError(msg)
        names = [known[name.lower()] for name in self.datasets] or list(DATASETS)
        return plan(experiments, names, self.repetitions, self.seed)

    def run(
        self, experiments: list[Experiment], out: Path, screen: Screen
    ) -> tuple[Results, dict[str, str]]:
        """Run what is not done; return results, and why data sets are missing."""
        from pacvote.paper.reproduce import Store, cost, run_units

        units = self.units(experiments)
        store = Store(self.data_dir, out, self.download)
        with screen.working("repetitions", sum(map(cost, units))) as advance:
            return run_units(
                units, store, n_jobs=self.n_jobs, done=lambda unit: advance(cost(unit))
            )


def reproduce(
    what: What,
    /,
    *,
    runs: Runs | None = None,
    out: Path = Path("reproduction"),
    screen: Screen | None = None,
) -> int:
    """Run the paper's experiments and lay the results beside the printed ones.

    Each repetition on each data set is a file of its own: stopped at any moment, the same command
    goes on where it was. Pendigits comes with the package.

    Parameters
    ----------
    what
        `rf`, 100 trees; `mce`, seven different classifiers; `oracle` and `bennett`, two figures
        that need no data; or `all`.
    out
        Directory for results.csv, details.csv, tables and figures, and for finished repetitions.
    """
    from pacvote.paper.figures import write_bennett, write_figures, write_oracle
    from pacvote.paper.tables import write_tables

    screen, runs = screen or Screen(), runs or Runs()
    chosen: dict[What, list[Experiment]] = {"all": ["rf", "mce"], "rf": ["rf"], "mce": ["mce"]}
    runs.units(chosen.get(what, []))  # refuses a data set's name before a directory is made
    tables, figures = out / "tables", out / "figures"
    for folder in (tables, figures):
        folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    missing: dict[str, str] = {}
    if what in chosen:
        results, missing = runs.run(chosen[what], out, screen)
        for reason in missing.values():
            complain(reason)
        if results.weighed:
            written += results.write(out)
            written += [*write_tables(results, tables), *write_figures(results, figures)]
    if what in ("oracle", "all"):
        written += write_oracle(figures)
    if what in ("bennett", "all"):
        written += write_bennett(figures)
    if written:
        screen.files([(f"{len(written)} files", out)])
    screen.result({"out": str(out), "missing": missing})
    return 0 if written else 2
