"""A stand-in for the worker process: speaks its events without torch, and fails on request.

What it does is told by the first of the specification's lengths, see MOODS.
"""

import json
import os
import pathlib
import signal
import sys
import threading
import time

MOODS = {
    101: "fine",
    102: "slow",
    103: "exit 7",
    104: "kill itself",
    105: "babble",
    106: "silent exit",
    107: "refuse",
    108: "deaf",
    109: "stopped from outside",
    110: "end strangely",
    111: "segmentation fault",
    112: "third dies",
}


def say(**event: object) -> None:
    print(json.dumps(event), flush=True)


def point(length: int, part: str) -> dict:
    made = {
        "experiment": "scaling", "implementation": "naive", "status": "ok", "batch": 1, "heads": 1, "kv_heads": 1,
        "q_len": length, "kv_len": length, "head_dim": 8, "dtype": "fp32", "causal": True,
        "kernel": "fake", "max_abs_error": 0.0, "tolerance": 1.0,
    }  # fmt: skip
    extra = {"timing": {"median_s": 1e-3}} if part == "time" else {"peak_extra_bytes": 8}
    return made | extra


def watch_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    part = sys.argv[sys.argv.index("--part") + 1]
    spec = json.loads(sys.stdin.readline())
    threading.Thread(target=watch_parent, daemon=True).start()
    mood = MOODS[spec["lengths"][0]]
    say(event="environment", environment={"device_kind": "cpu", "device_name": "fake", "pid": os.getpid()})
    say(event="plan", total=2)
    say(event="progress", done=0, total=2, what="naive at T = 1")
    say(event="point", point=point(1, part))
    if mood == "exit 7":
        print("File /home/somebody/secret/worker.py broke", file=sys.stderr)
        sys.exit(7)
    if mood == "kill itself":
        os.kill(os.getpid(), signal.SIGKILL)
    if mood == "third dies":
        home = pathlib.Path(os.environ["LAB_HOME"])
        (home / f"started-{os.getpid()}").touch()
        if len(list(home.glob("started-*"))) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
    if mood == "silent exit":
        sys.exit(0)
    if mood == "refuse":
        say(event="end", status="refused", message="dtype is 'fp8'; this device computes in fp32")
        return
    if mood == "stopped from outside":  # as the worker tells a SIGTERM
        say(event="end", status="cancelled", message=None)
        sys.exit(143)
    if mood == "end strangely":
        say(event="end", status="transcended", message={"not": "a text"})
        return
    if mood == "segmentation fault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if mood == "babble":
        print("no json")
        say(event="point", point={"experiment": "scaling"})
        say(event="surprise", value=1)
    if mood == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mood in ("slow", "deaf"):
        time.sleep(60)
    say(event="point", point=point(2, part))
    say(event="progress", done=2, total=2, what="done")
    say(event="end", status="finished", message=None)


main()
