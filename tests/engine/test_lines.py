from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.engine.lines import parse, quoted
from attribution.engine.stamps import Zone, iso

REFERENCE = 1_772_425_000.0  # 2026-03-02

SHAPES = [
    # (line, time, host, rank, body starts with)
    ("kern  :err   : [ 4120.123456] NVRM: Xid", "uptime 4120.123456", None, None, "NVRM: Xid"),
    ("kern  :warn  : [Mon Mar  2 04:18:56 2026] NVRM: Xid", "2026-03-02T04:18:56Z", None, None, "NVRM: Xid"),
    ("Mon 2026-03-02 04:18:56 UTC n1 kernel: NVRM: Xid", "2026-03-02T04:18:56Z", "n1", None, "NVRM: Xid"),
    ("Mon 2026-03-02 04:18:56 CET n1 kernel: NVRM: Xid", "2026-03-02T04:18:56Z", "n1", None, "NVRM: Xid"),
    ("[4120.123456] n1 kernel: NVRM: Xid", "uptime 4120.123456", "n1", None, "NVRM: Xid"),
    ("1772425136.000000 n1 kernel: NVRM: Xid", "2026-03-02T04:18:56Z", "n1", None, "NVRM: Xid"),
    ("märz 02 04:18:56 n1 kernel: NVRM: Xid", "2026-03-02T04:18:56Z", "n1", None, "NVRM: Xid"),
    ("mars 2 04:18:56 n1 kernel: NVRM: Xid", "2026-03-02T04:18:56Z", "n1", None, "NVRM: Xid"),
    ("3月 02 04:18:56 n1 kernel: NVRM: Xid", "2026-03-02T04:18:56Z", "n1", None, "NVRM: Xid"),
    ("02 Mar, 04:18:56 n1 kernel: NVRM: Xid", "2026-03-02T04:18:56Z", "n1", None, "NVRM: Xid"),
    ("10.7.0.19: kern: warning: [2026-03-02T04:18:56Z]: NVRM: Xid", "2026-03-02T04:18:56Z", "10.7.0.19", None, "NVRM: Xid"),
    ("2026/03/02 04:18:56 [rank2]: KeyError: 'x'", "2026-03-02T04:18:56Z", None, 2, "KeyError"),
    ("2026/03/02 04:18:56.250 KeyError: 'x'", "2026-03-02T04:18:56.250Z", None, None, "KeyError"),
    ("04:18:56.250 KeyError: 'x'", None, None, None, "KeyError"),
    ("03/02/2026 04:18:56 - ERROR - KeyError: 'x'", None, None, None, "ERROR - KeyError"),
    ("Mon Mar  2 04:18:56 2026[1,3]<stderr>:KeyError: 'x'", "2026-03-02T04:18:56Z", None, 3, "KeyError"),
    ("[3]<stderr>:KeyError: 'x'", None, None, 3, "KeyError"),
    ("n02: Traceback (most recent call last):", None, "n02", None, "Traceback"),
    ('10.3.0.4:   File "/u/t.py", line 3, in <module>', None, "10.3.0.4", None, "File"),
    ("n02: FileNotFoundError: [Errno 2]", None, "n02", None, "FileNotFoundError"),
    ("ERROR: LoadError: BoundsError: x", None, None, None, "ERROR: LoadError"),
    ("(worker6, rank=6, pid=8930, ip=10.42.3.242) KeyError: 'x'", None, None, None, "KeyError"),
    ("<4>[ 4120.123456] NVRM: Xid", "uptime 4120.123456", None, None, "NVRM: Xid"),
    ("<4>NVRM: Xid", None, None, None, "NVRM: Xid"),
    ("<4>1 2026-03-02T04:18:56.000000+00:00 n1 kernel - - - NVRM: Xid", "2026-03-02T04:18:56Z", "n1", None, "NVRM: Xid"),
    ("2026-03-02T04:18:56.000000000Z stderr F [4120.1] NVRM: Xid", "2026-03-02T04:18:56Z", None, None, "NVRM: Xid"),
    ("[ 4120.123456] [C14] NVRM: Xid", "uptime 4120.123456", None, None, "NVRM: Xid"),
    ("n1 kernel: NVRM: Xid", None, "n1", None, "NVRM: Xid"),
    ("n1: [ 4120.123456] NVRM: Xid", "uptime 4120.123456", "n1", None, "NVRM: Xid"),
    ("n1: Mar  2 04:18:56 n1 kernel: NVRM: Xid", "2026-03-02T04:18:56Z", "n1", None, "NVRM: Xid"),
    ("2026-03-02 04:18:56 n1 kern.warning kernel: NVRM: Xid", "2026-03-02T04:18:56Z", "n1", None, "NVRM: Xid"),
    ("[ 5012345.678901] NVRM: Xid (PCI:0000:3b:00): 79", "uptime 5012345.678901", None, None, "NVRM: Xid"),
    ("[  123.456789][  T291] NVRM: hello", "uptime 123.456789", None, None, "NVRM"),
    ("Mar  2 04:18:56 gpu-a017 kernel: [5012345.678901] NVRM: Xid", "2026-03-02T04:18:56Z", "gpu-a017", None, "NVRM"),
    ("2026-03-02T04:18:56.089671+00:00 gpu-a017 kernel: NVRM: Xid", "2026-03-02T04:18:56.090Z", "gpu-a017", None, "NVRM"),
    ("2026-03-02T05:18:56+0100 gpu-a017 kernel: NVRM: Xid", "2026-03-02T04:18:56Z", "gpu-a017", None, "NVRM"),
    ("4,11873,5012345678901,-;NVRM: Xid", "uptime 5012345.678901", None, None, "NVRM"),
    ("[Mon Mar  2 04:18:56 2026] NVRM: Xid", "2026-03-02T04:18:56Z", None, None, "NVRM"),
    ("[Mar02 04:18] NVRM: Xid", "2026-03-02T04:18:00Z", None, None, "NVRM"),
    ("[  +0.000316] pcieport 0000:00:03.0: AER", "delta 0.000316", None, None, "pcieport"),
    ("2025-05-27T04:18:56,089671+00:00 msg", "2025-05-27T04:18:56.090Z", None, None, "msg"),
    ("Feb 18 01:12:44 p5-3 systemd[1]: nvidia-fabricmanager.service: x", "2026-02-18T01:12:44Z", "p5-3", None, "systemd[1]:"),
    ("[Jul 23 2026 07:53:55] [ERROR] [tid 841] detected", "2026-07-23T07:53:55Z", None, None, "detected"),
    ("[2023-03-06T03:17:50.902] error: Nodes gx37", "2023-03-06T03:17:50.902Z", None, None, "error: Nodes"),
    (
        "[rank7]:[E816 01:45:40.183009389 ProcessGroupNCCL.cpp:607] [Rank 7] Watchdog",
        "2026-08-16T01:45:40.183Z",
        None,
        7,
        "ProcessGroupNCCL",
    ),
    ("[rank7]:[E ProcessGroupNCCL.cpp:563] [Rank 7] Watchdog", None, None, 7, "[E ProcessGroupNCCL"),
    ("[E ProcessGroupNCCL.cpp:563] [Rank 12] Watchdog", None, None, 12, "[E ProcessGroupNCCL"),
    ("[80746] [rank0]:[E321 02:07:08.408271257 P.cpp:607] x", "2026-03-21T02:07:08.408Z", None, 0, "P.cpp"),
    ("2024-08-23T22:22:50.870Z | [rank6]:[E P.cpp:563] x", "2024-08-23T22:22:50.870Z", None, 6, "[E P.cpp"),
    ("W0714 10:21:03.118000 53436 torch/distributed/run.py:792] x", "2026-07-14T10:21:03.118Z", None, None, "53436 torch"),
    (" 4: [rank4]:[E901 12:02:33.120049112 P.cpp:1895] x", "2025-09-01T12:02:33.120Z", None, 4, "P.cpp"),
    ("12: gpu-r3n12:82431:76248 [4] transport/net_ib.cc:1689 NCCL WARN x", None, "gpu-r3n12", 12, "transport"),
    (
        "[2026-03-13 22:26:02] rail-n03:49234:51940 [5] ibvwrap.c:262 NCCL WARN x",
        "2026-03-13T22:26:02Z",
        "rail-n03",
        None,
        "ibvwrap",
    ),
    ("[mz2207:3501698:0:3501698] ib_mlx5_log.c:177  Transport retry", None, "mz2207", None, "ib_mlx5_log"),
    (
        "(EngineCore_DP0 pid=27062) ERROR 09-05 03:56:08 [core.py:901] Time",
        "2025-09-05T03:56:08Z",
        None,
        None,
        "[core.py:901] Time",
    ),
    ("(Worker_PP3 pid=881) oops", None, None, None, "oops"),
    ("srun: error: gx23: task 22: Segmentation fault", None, "gx23", None, "srun: error"),
    ("[default7]:saving checkpoint", None, None, None, "saving"),
    ("12/09 06:49:23 - mmengine - INFO - Exp", "2025-12-09T06:49:23Z", None, None, "- mmengine"),
    ("[1,3]<stderr>:Traceback", None, None, 3, "Traceback"),
    ("kern: warning: [2026-04-22T10:11:12.123456789Z]: NVRM: x", "2026-04-22T10:11:12.123Z", None, None, "NVRM"),
    (
        '{"MESSAGE":"NVRM: Xid","_TRANSPORT":"kernel","__REALTIME_TIMESTAMP":"1772425000000000","_HOSTNAME":"n1"}',
        "2026-03-02T04:16:40Z",
        "n1",
        None,
        "NVRM",
    ),
    ('  File "train.py", line 3', None, None, None, 'File "train.py"'),
    ("Mon DD hh:mm:ss is no stamp", None, None, None, "Mon DD"),
    ("99:99:99 is no stamp", None, None, None, ""),
]


@pytest.mark.parametrize(("line", "time", "host", "rank", "body"), SHAPES, ids=[s[0][:40] for s in SHAPES])
def test_shape(line, time, host, rank, body):
    found = parse(line)
    said = None
    if found.stamp is not None:
        wall = Zone("UTC", REFERENCE).wall(found.stamp)
        said = iso(wall) if wall is not None else f"{found.stamp.kind} {found.stamp.value}"
    assert (said, found.host, found.rank) == (time, host, rank)
    assert found.body.startswith(body)


def test_a_local_time_is_in_the_logs_zone():
    stamp = parse("[2026-07-01T12:00:00.000] x").stamp
    assert iso(Zone("Europe/Berlin", None).wall(stamp)) == "2026-07-01T10:00:00Z"
    assert iso(Zone("America/New_York", None).wall(stamp)) == "2026-07-01T16:00:00Z"


def test_a_year_is_the_one_nearest_to_the_window():
    stamp = parse("Dec 31 23:59:59 n1 kernel: x").stamp
    january = 1_767_225_700.0  # 2026-01-01
    assert iso(Zone("UTC", january).wall(stamp)) == "2025-12-31T23:59:59Z"
    assert Zone("UTC", None).wall(stamp) is None


def test_february_29_outside_a_leap_year_does_not_crash():
    stamp = parse("Feb 29 10:00:00 n1 kernel: x").stamp
    assert iso(Zone("UTC", REFERENCE).wall(stamp)) == "2026-02-28T10:00:00Z"


def test_unknown_zone_is_an_error_in_words():
    with pytest.raises(ValueError, match="no time zone"):
        Zone("Mars/Olympus", None)


@given(st.text(max_size=300))
def test_any_text_parses(text):
    found = parse(text)
    assert isinstance(found.body, str)
    if found.stamp is not None:
        Zone("Europe/Berlin", REFERENCE).wall(found.stamp)


@given(
    st.lists(
        st.sampled_from(
            [
                "[",
                "]",
                "(",
                "Jan ",
                "31 ",
                "23:59:59 ",
                "1: ",
                "[rank9]: ",
                "[E131 ",
                "2026-02-30 ",
                "host:1:2 ",
                '{"',
                "[ +1.0] ",
            ]
        ),
        max_size=14,
    )
)
def test_prefixes_in_any_order_parse(parts):
    parse("".join(parts) + "x")


@pytest.mark.parametrize(
    "line",
    [
        "# GPU is lost",
        "+ grep -c 'GPU is lost' out.txt",
        "++ echo GPU is lost",
        "[rank3]: Namespace(stop_on='GPU is lost')",
        "args = Namespace(stop_on='GPU is lost')",
        "usage: train.py [--stop-on TEXT]",
        "  --stop-on TEXT   stop where the output says GPU is lost",
        "tests/test_faults.py::test_detects[GPU is lost] PASSED",
    ],
)
def test_a_line_that_only_quotes(line):
    assert quoted(parse(line).body)


@pytest.mark.parametrize(
    "line",
    [
        "GPU is lost",
        "#  SIGSEGV (0xb) at pc=0x00007f1",
        "#0  0x00007ffff in raise () from /lib64/libc.so.6",
        "  + Exception Group Traceback (most recent call last):",
        "-bash: torchrun: command not found",
        "--- Logging error ---",
        "- ValueError: x",
        "FAILED tests/test_a.py::test_b - RuntimeError: CUDA out of memory",
        "srun: error: usage: limit exceeded",
    ],
)
def test_a_line_that_speaks_for_itself(line):
    assert not quoted(parse(line).body)


@pytest.mark.parametrize(
    "line",
    ["loss 12 04:18:56 of 9", "step 10 12:00:01 done", "12 items 04:18:56 left", "note: [see below", "1772425136.5 seconds"],
)
def test_words_of_a_program_are_no_carrier(line):
    found = parse(line)
    assert (found.stamp, found.host, found.body) == (None, None, line)
