"""Peaks of every implementation by memray and by the lab, in one process: `python tests/measure/memray_peaks.py`.

memray hooks the C library's allocator, so that it sees what any library in the process takes; the lab adds up
the allocation events of PyTorch's profiler. The two share no code. Inputs exist before either looks, and one
call of the same shape has run, so that neither counts what is kept for good.

    PYTHONPATH=. python tests/measure/memray_peaks.py 1024,4096 --heads 12 --dtype fp32
"""

import argparse
import json
import tempfile
from pathlib import Path

import memray
import torch

from lab.measure.device import DTYPES, Device
from lab.measure.implementations import IMPLEMENTATIONS
from lab.measure.kernels import attempt


def by_memray(call, folder: Path, name: str) -> int:
    """The high-water mark of what one call holds, its output included."""
    file = folder / f"{name}.bin"
    with memray.Tracker(file):
        output = call()
    del output
    peak = memray.FileReader(file).metadata.peak_memory
    file.unlink()
    return peak


def peaks(length: int, heads: int, dtype: str, names: list[str], folder: Path) -> list[dict]:
    device, found = Device(), []
    generator = torch.Generator().manual_seed(0)
    size = (1, heads, length, 64)
    inputs = [torch.randn(size, generator=generator).to(DTYPES[dtype]) for _ in range(3)]
    for name in names:

        def call(function=IMPLEMENTATIONS[name].function) -> torch.Tensor:
            return function(*inputs, causal=True)

        output, refusal = attempt(call)
        del output
        cell = {"implementation": name, "length": length, "heads": heads, "dtype": dtype, "refusal": refusal}
        if refusal is None:
            cell |= {"memray": by_memray(call, folder, name), "lab": device.peak_extra_bytes(call)}
        found.append(cell)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lengths")
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--dtype", default="fp32", choices=DTYPES)
    parser.add_argument("--implementations", default=",".join(IMPLEMENTATIONS))
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    names = asked.implementations.split(",")
    with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
        found = [
            cell
            for length in map(int, asked.lengths.split(","))
            for cell in peaks(length, asked.heads, asked.dtype, names, Path(folder))
        ]
    if asked.json:
        print(json.dumps(found))
        return
    print(
        f"| implementation | T | memray, bytes | lab, bytes | lab / memray ({asked.heads} heads, {asked.dtype}) |"
    )
    print("|---|---|---|---|---|")
    for cell in found:
        shape = f"| {cell['implementation']} | {cell['length']:,} "
        if cell["refusal"] is None:
            print(f"{shape}| {cell['memray']:,} | {cell['lab']:,} | {cell['lab'] / cell['memray']:.5f} |")
        else:
            print(f"{shape}| refused here | | |")


if __name__ == "__main__":
    main()
