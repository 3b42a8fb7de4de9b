"""sattrib-open with real users, real sockets and real files. Needs root: becoming another user is the point."""

from __future__ import annotations

import ast
import contextlib
import fcntl
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from attribution import opener

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user: sattrib-open is NOT tested")
# System users that every distribution has; the tests allow their uids, and no process of theirs runs.
OWNER, STRANGER = pwd.getpwnam("games"), pwd.getpwnam("mail")


class Opener:
    """A running sattrib-open, and a client of it."""

    def __init__(self, folder: Path, *args: str, under: tuple[str, ...] = ()) -> None:
        self.door = folder / "open.sock"
        argv = [
            *under,
            sys.executable,
            "-m",
            "attribution.opener",
            "--listen",
            str(self.door),
            "--peer",
            "0",
            "--idle",
            "0",
            *args,
        ]
        self.process = subprocess.Popen(argv)
        while not self.door.exists():
            assert self.process.poll() is None
            time.sleep(0.01)

    def connect(self) -> socket.socket:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(15)
        for _ in range(100):
            try:
                line.connect(str(self.door))
                break
            except ConnectionRefusedError:  # bound, not yet listening
                time.sleep(0.01)
        return line

    def send(self, raw: bytes) -> tuple[dict[str, object], int | None]:
        with self.connect() as line:
            # One that is not taken is answered before it was read.
            with contextlib.suppress(BrokenPipeError):
                line.sendall(raw)
                line.shutdown(socket.SHUT_WR)
            text, fds, _, _ = socket.recv_fds(line, 4096, 4)
        assert len(fds) <= 1
        return (json.loads(text) if text else {}), (fds[0] if fds else None)

    def ask(self, uid: int, path: Path | str) -> tuple[object, bytes]:
        """(the error's word or None, the file's bytes)."""
        answer, fd = self.send(json.dumps({"uid": uid, "path": str(path)}).encode() + b"\n")
        if fd is None:
            return answer["error"], b""
        with os.fdopen(fd, "rb") as file:
            return None, file.read()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def run(tmp_path):
    started: list[Opener] = []

    def make(*args: str, under: tuple[str, ...] = ()) -> Opener:
        started.append(Opener(tmp_path, *args, under=under))
        return started[-1]

    yield make
    for one in started:
        one.end()


@pytest.fixture
def home(tmp_path):
    """A directory that only its owner may enter; pytest's own parents are opened for passing through."""
    for parent in [tmp_path, *list(tmp_path.parents)[:3]]:
        if parent != Path("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o011)
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    os.chown(folder, OWNER.pw_uid, OWNER.pw_gid)
    return folder


def make_file(path: Path, text: bytes, uid: int = OWNER.pw_uid, gid: int = OWNER.pw_gid, mode: int = 0o600) -> Path:
    path.write_bytes(text)
    os.chown(path, uid, gid)
    path.chmod(mode)
    return path


def test_it_is_small_and_uses_only_the_standard_library():
    text = Path(opener.__file__).read_text()
    assert len(text.splitlines()) < 150
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
            assert all(name.split(".")[0] in sys.stdlib_module_names for name in names)


@needs_root
def test_the_owners_private_file_is_handed_over_for_reading_only(run, home):
    make_file(home / "out", b"hello\n")
    answer, fd = run("--least-uid", "1").send(json.dumps({"uid": OWNER.pw_uid, "path": str(home / "out")}).encode() + b"\n")
    assert answer == {"ok": True}
    assert os.read(fd, 100) == b"hello\n"
    assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    with pytest.raises(OSError):
        os.write(fd, b"x")
    os.close(fd)


@needs_root
def test_what_the_owner_may_not_read_is_denied(run, home):
    one = run("--least-uid", "1")
    make_file(home / "others", b"secret", STRANGER.pw_uid, STRANGER.pw_gid)
    make_file(home / "roots", b"secret", 0, 0)
    # Root's own groups must be gone, not only root's uid.
    make_file(home / "groups", b"secret", 0, 0, 0o640)
    assert [one.ask(OWNER.pw_uid, home / name) for name in ("others", "roots", "groups")] == [("denied", b"")] * 3
    assert one.ask(OWNER.pw_uid, "/etc/shadow") == ("denied", b"")
    assert one.ask(STRANGER.pw_uid, home / "others") == ("denied", b"")  # may not enter the directory
    assert one.ask(OWNER.pw_uid, home / "nothing") == ("missing", b"")
    assert one.ask(OWNER.pw_uid, home / "others" / "below") == ("missing", b"")


@needs_root
def test_links_at_the_end_are_denied_and_links_on_the_way_are_the_owners_choice(run, home):
    one = run("--least-uid", "1")
    make_file(home / "out", b"hello")
    (home / "link").symlink_to("/etc/shadow")
    (home / "own").symlink_to("out")
    (home / "way").symlink_to(home)
    assert one.ask(OWNER.pw_uid, home / "link") == ("denied", b"")
    assert one.ask(OWNER.pw_uid, home / "own") == ("denied", b"")
    assert one.ask(OWNER.pw_uid, home / "way" / "out") == (None, b"hello")


@needs_root
@pytest.mark.parametrize(
    "path",
    [
        "/dev/null",
        "/dev/zero",
        "/proc/self/environ",
        "/proc/self/fd/0",
        "/sys/kernel/uevent_seqnum",
        "/tmp",
        "/proc/kmsg",
        "/dev/tty",
    ],
)
def test_what_is_no_real_file_is_refused(run, home, path):
    word, text = run("--least-uid", "1").ask(OWNER.pw_uid, path)
    assert word in ("not_regular", "denied", "failed", "missing")
    assert text == b""


@needs_root
def test_a_fifo_and_a_socket_do_not_make_it_wait(run, home):
    one = run("--least-uid", "1")
    os.mkfifo(home / "fifo", 0o666)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(home / "sock"))
        (home / "sock").chmod(0o666)
        (home / "fifo").chmod(0o666)
        began = time.monotonic()
        assert one.ask(OWNER.pw_uid, home / "fifo")[0] == "not_regular"
        assert one.ask(OWNER.pw_uid, home / "sock")[0] == "not_regular"
    assert time.monotonic() - began < 5


@needs_root
def test_root_and_system_users_are_refused_unless_named(run, tmp_path):
    make_file(tmp_path / "roots", b"x", 0, 0)
    one = run()
    free = next(uid for uid in range(40000, 60000) if not _exists(uid))
    for uid in (0, OWNER.pw_uid, 999, 65534, 4294967295, free):
        assert one.ask(uid, tmp_path / "roots") == ("refused", b""), uid
    one.end()
    one.door.unlink()
    assert run("--allow-uid", "0").ask(0, tmp_path / "roots") == (None, b"x")


def _exists(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


@needs_root
def test_nonsense_gets_one_clear_word(run):
    one = run("--least-uid", "1")
    for raw in (
        b"", b"\n", b"{}\n", b"[1]\n", b'{"uid": true, "path": "/x"}\n', b'{"uid": "5", "path": "/x"}\n',
        b'{"uid": 5, "path": "x"}\n', b'{"uid": 5, "path": "/x\\u0000y"}\n', b'{"uid": -1, "path": "/x"}\n',
        b'{"uid": 5, "path": ["/x"]}\n', b"[" * 60_000 + b"\n", b"\xff\xfe\n", b'{"uid": 1e9, "path": "/x"}\n',
    ):  # fmt: skip
        answer, fd = one.send(raw)
        assert (answer["error"], fd) == ("bad_request", None), raw[:40]
    assert one.ask(OWNER.pw_uid, "/x" * 3000)[0] == "failed"  # ENAMETOOLONG
    assert one.ask(OWNER.pw_uid, "/\udcff\udcfe")[0] == "missing"  # a name that is no UTF-8


@needs_root
def test_only_the_configured_user_may_ask(run, home, tmp_path):
    make_file(home / "out", b"hello")
    one = run("--least-uid", "1")
    one.door.chmod(0o777)
    code = (
        "import os, socket, sys\n"
        f"os.setgroups([]); os.setgid({OWNER.pw_gid}); os.setuid({OWNER.pw_uid})\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
        "sys.stdout.write(s.recv(4096).decode())\n"
    )
    said = subprocess.run([sys.executable, "-c", code, str(one.door)], capture_output=True, text=True, check=True)
    assert json.loads(said.stdout)["error"] == "refused"


@needs_root
def test_a_file_swapped_all_the_time_never_gives_the_other_file(run, home):
    """What is checked is the open descriptor, so there is no moment between check and use."""
    one = run("--least-uid", "1")
    secret = make_file(home.parent / "secret", b"secret", 0, 0)
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            make_file(home / "a", b"mine")
            (home / "a").rename(home / "out")
            (home / "b").symlink_to(secret)
            (home / "b").rename(home / "out")
            os.mkfifo(home / "c", 0o666)
            (home / "c").rename(home / "out")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        seen = [one.ask(OWNER.pw_uid, home / "out") for _ in range(300)]
    finally:
        done.set()
        thread.join()
    assert {text for _, text in seen} <= {b"mine", b""}
    assert {word for word, _ in seen} <= {None, "denied", "not_regular", "missing"}
    assert len(set(seen)) > 1


@needs_root
def test_clients_that_say_nothing_block_nobody_and_are_cut_off(run, home):
    make_file(home / "out", b"hello")
    one = run("--least-uid", "1", "--seconds", "2", "--children", "3")
    mute = [one.connect(), one.connect()]
    began = time.monotonic()
    assert one.ask(OWNER.pw_uid, home / "out") == (None, b"hello")
    assert time.monotonic() - began < 1.5
    time.sleep(0.3)  # the child that answered has ended
    third = one.connect()
    time.sleep(0.2)
    assert one.ask(OWNER.pw_uid, home / "out") == ("busy", b"")
    assert [line.recv(100) for line in (*mute, third)] == [b""] * 3
    time.sleep(0.3)
    assert one.ask(OWNER.pw_uid, home / "out") == (None, b"hello")
    for line in (*mute, third):
        line.close()


@needs_root
def test_it_takes_systemds_socket_and_ends_when_nobody_asks(home, tmp_path):
    make_file(home / "out", b"hello")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "open.sock"))
        listener.listen()
        script = f"LISTEN_PID=$$ LISTEN_FDS=1 exec {sys.executable} -m attribution.opener --peer 0 --least-uid 1 --idle 1"
        # systemd passes it as descriptor 3.
        pick = lambda: os.dup2(listener.fileno(), 3)  # noqa: E731
        process = subprocess.Popen(["sh", "-c", script], pass_fds=(3,), preexec_fn=pick)  # noqa: PLW1509
        try:
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(str(tmp_path / "open.sock"))
                line.sendall(json.dumps({"uid": OWNER.pw_uid, "path": str(home / "out")}).encode() + b"\n")
                line.settimeout(10)
                text, fds, _, _ = socket.recv_fds(line, 4096, 1)
            assert json.loads(text) == {"ok": True}
            assert os.read(fds[0], 10) == b"hello"
            os.close(fds[0])
            assert process.wait(10) == 0
        finally:
            process.kill()
            process.wait()


def test_without_a_socket_it_says_what_to_do():
    said = subprocess.run([sys.executable, "-m", "attribution.opener"], check=False, capture_output=True, text=True)
    assert said.returncode == 1
    assert "sattrib-open.socket" in said.stderr


@needs_root
def test_a_child_that_died_leaves_the_others_alone(run, home):
    make_file(home / "out", b"hello")
    one = run("--least-uid", "1", "--seconds", "10")
    line = one.connect()
    time.sleep(0.3)
    children = Path(f"/proc/{one.process.pid}/task/{one.process.pid}/children").read_text().split()
    for pid in children:
        os.kill(int(pid), signal.SIGKILL)
    assert children
    assert line.recv(10) == b""
    line.close()
    assert one.ask(OWNER.pw_uid, home / "out") == (None, b"hello")


@needs_root
def test_a_stopped_child_does_not_stay(run, home):
    """A user may send signals to a child that has become him; SIGALRM does not end a stopped process."""
    one = run("--least-uid", "1", "--seconds", "1")
    line = one.connect()
    time.sleep(0.3)
    (child,) = Path(f"/proc/{one.process.pid}/task/{one.process.pid}/children").read_text().split()
    os.kill(int(child), signal.SIGSTOP)
    line.settimeout(10)
    assert line.recv(10) == b""
    line.close()


@needs_root
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv: the unit's capabilities are NOT tested")
def test_the_units_capabilities_are_enough_and_root_itself_has_no_more(run, home):
    unit = (Path(opener.__file__).parents[1] / "packaging/systemd/sattrib-open.service").read_text()
    kept = next(line for line in unit.splitlines() if line.startswith("CapabilityBoundingSet=")).partition("=")[2]
    names = ",".join("+" + name.removeprefix("CAP_").lower() for name in kept.split())
    make_file(home / "out", b"hello")
    one = run(
        "--least-uid",
        "1",
        "--allow-uid",
        "0",
        under=("setpriv", "--no-new-privs", "--inh-caps", "-all", "--bounding-set", f"-all,{names}"),
    )
    assert one.ask(OWNER.pw_uid, home / "out") == (None, b"hello")
    assert one.ask(STRANGER.pw_uid, home / "out") == ("denied", b"")
    assert one.ask(0, home / "out") == ("denied", b"")
