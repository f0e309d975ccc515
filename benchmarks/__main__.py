"""Print one table of what every benchmark measures: `python -m benchmarks [MODULE ...]`."""

import argparse
import importlib
import pkgutil
from collections.abc import Iterator

import benchmarks

Row = tuple[str, float, str]


def modules() -> list[str]:
    return sorted(
        m.name for m in pkgutil.iter_modules(benchmarks.__path__) if not m.name.startswith("_")
    )


def rows(names: list[str]) -> Iterator[Row]:
    for name in names:
        yield from importlib.import_module(f"benchmarks.{name}").rows()


def table(measured: list[Row]) -> str:
    width = max((len(what) for what, _, _ in measured), default=0)
    lines = [f"{what:<{width}}  {ratio:>10.3g}  {remark}" for what, ratio, remark in measured]
    return "\n".join([f"{'what':<{width}}  {'ratio':>10}  remark", *lines])


def main() -> None:
    known = modules()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("modules", nargs="*", help=f"of {', '.join(known)}; all when none is named")
    chosen = parser.parse_args().modules or known
    if unknown := sorted(set(chosen) - set(known)):
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(known)}")
    print(table(list(rows(chosen))))


if __name__ == "__main__":
    main()
