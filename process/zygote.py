"""A fork server: imports modules once and forks a worker for each request.

Started by the host as ``python [options] -c LOADER WORKER MODULE...``; WORKER
is how the workers' command goes on ("-m", "-c" or a script), and a MODULE that
ends in "?" may be missing. BULLPEN_ZYGOTE says "v1,fd=N,name=NAME": descriptor
N is a socket of whole messages, NAME is what this process and its unreported
children are called in /proc, so that the host finds them when this one dies.

The wire (all numbers little-endian), from the host:
    u8 version, u8 kind 1, u16 flags, u32 id, u16 files, u16 groups, u16 namespaces, u16 zero
    folder, refuge, filter, u32 n, n arguments, u32 n, n variables "NAME=value"
texts have their length as u32 before them. With it come the descriptors: the
body if flags say so, then files, group entries, namespaces, the ruleset.
To the host: u8 version, u8 kind, u16 zero, u32 id, and text up to the end.

A worker is cloned with CLONE_PARENT: it is a child of the host, which waits
for it as for any other, and the death of this process does not touch it.

What workers share with this process and cannot have of their own: the options
of the interpreter and the variables that it reads at its start, the seed of
hash(), what the preloaded modules have made of their environment (libraries of
numbers keep to one thread), and generators of random numbers that modules made
for themselves. Handlers of atexit that modules register run at the end of each
worker and of this process.
"""

import _socket
import ctypes
import gc
import importlib
import os
import signal
import struct
import sys
import traceback
import types

TYPE_CHECKING = False
if TYPE_CHECKING:  # these stand before this file
    from zygote_worker import CONTROL, REFUSED, Program, Refused, Worker, kind_of, set_first_path, texts

VERSION, FORK = 1, 1
READY, FAILED, FORKED = 1, 2, 3
REQUEST, REPLY = struct.Struct("<BBHIHHHH"), struct.Struct("<BBHI")
MAX_MESSAGE, MAX_TEXT, MAX_DESCRIPTORS = 64 << 10, 32 << 10, 250
DESCRIPTOR = struct.Struct("@i")
REHEARSALS = 12  # CPython 3.11 adapts code to what it does when it has run eight times

CLONE_PIDFD, CLONE_PARENT, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID = 0x1000, 0x8000, 0x200000, 0x1000000
CLONE = CLONE_PARENT | CLONE_PIDFD | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | int(signal.SIGCHLD)
PR_SET_NAME, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 15, 24, 38
PR_GET_TID_ADDRESS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 40, 47, 4
CALLS = {
    "x86_64": {"clone": 56, "prctl": 157, "capset": 126, "set_robust_list": 273, "get_robust_list": 274,
               "setns": 308, "seccomp": 317, "pidfd_open": 434, "close_range": 436, "landlock": 446},
    "aarch64": {"clone": 220, "prctl": 167, "capset": 91, "set_robust_list": 99, "get_robust_list": 100,
                "setns": 268, "seccomp": 277, "pidfd_open": 434, "close_range": 436, "landlock": 446},
}

# Libraries of numbers start threads when they are loaded, unless told so.
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class Kernel:
    """System calls that Python has no function for, and those that must not go through libc."""

    def __init__(self):
        machine = os.uname().machine
        if machine not in CALLS or struct.calcsize("P") != 8:
            raise Refused("there is no fork server for the processor " + machine)
        self.numbers = CALLS[machine]
        self.library = ctypes.PyDLL(None, use_errno=True)
        self.syscall = self.library.syscall
        self.syscall.restype, self.syscall.argtypes = ctypes.c_long, [ctypes.c_long] * 6
        # Looked up here: in a worker each first use copies pages of memory.
        api = ctypes.pythonapi
        self.before, self.in_parent, self.in_child = (
            api.PyOS_BeforeFork, api.PyOS_AfterFork_Parent, api.PyOS_AfterFork_Child)
        try:
            libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
        except (ValueError, OSError):
            libc = ""
        words = libc.split()
        if len(words) != 2 or words[0] != "glibc" or tuple(map(int, words[1].split(".")[:2])) < (2, 25):
            raise Refused("workers are forked past the C library, which has to be glibc 2.25 or later, not "
                          + (libc or "another one"))
        # The C library keeps the number of its thread in memory and trusts it,
        # for instance in recursive locks; its own fork has the kernel renew it.
        place = ctypes.c_void_p()
        self.call("prctl", PR_GET_TID_ADDRESS, ctypes.addressof(place), 0, 0, 0)
        if not place.value or ctypes.c_int.from_address(place.value).value != os.getpid():
            raise Refused("the C library does not tell where it keeps the number of its thread")
        self.thread = place.value
        # Locks that survive the death of their holder are found through a list
        # that the kernel forgets in a fork.
        head, size = ctypes.c_void_p(), ctypes.c_size_t()
        self.call("get_robust_list", 0, ctypes.addressof(head), ctypes.addressof(size))
        self.robust = (head.value or 0, size.value)
        self.pidfd = ctypes.c_int(-1)
        last = (0, self.thread) if machine == "aarch64" else (self.thread, 0)  # there the other way round
        self.clone = (self.numbers["clone"], CLONE, 0, ctypes.addressof(self.pidfd), *last)

    def call(self, name, a=0, b=0, c=0, d=0, e=0):
        """A system call; an OSError when the kernel says no."""
        result = self.syscall(self.numbers[name], a, b, c, d, e)
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, name + ": " + os.strerror(number))
        return result

    def fork(self):
        """As os.fork, but the child is a sibling, and the parent gets its pidfd; the child gets -1."""
        self.pidfd.value = -1
        self.before()
        result = self.syscall(*self.clone)
        if result == 0:
            self.in_child()
            if self.robust[0]:
                self.call("set_robust_list", *self.robust)
            return -1
        number = ctypes.get_errno()
        self.in_parent()
        if result < 0:
            raise OSError(number, os.strerror(number))
        return self.pidfd.value

    def close(self, first, last):
        """Close the descriptors first to last."""
        if first > last:
            return
        try:
            self.call("close_range", first, last, 0)
        except OSError:  # before 5.9
            for fd in map(int, os.listdir("/proc/self/fd")):
                if first <= fd <= last:
                    try:
                        os.close(fd)
                    except OSError:
                        pass  # the one by which the folder was read

    def confine(self, ruleset, program, last_capability):
        """Give up all capabilities for good, then apply the Landlock ruleset and the seccomp program."""
        try:
            self.call("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
            for number in range(last_capability + 1):
                self.call("prctl", PR_CAPBSET_DROP, number, 0, 0, 0)
        except PermissionError:
            pass  # an ordinary user has none, and the next step keeps it so
        self.call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        header, none = struct.pack("=Ii", 0x20080522, 0), bytes(24)
        self.call("capset", *(ctypes.cast(b, ctypes.c_void_p).value for b in (header, none)))
        if ruleset is not None:
            self.call("landlock", ruleset, 0)
        if program:
            code = ctypes.create_string_buffer(program, len(program))
            instructions = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
            self.call("seccomp", 1, 0, ctypes.cast(instructions, ctypes.c_void_p).value)


class Zygote:
    """The process that is forked, and what it knows before it is."""

    def __init__(self, control, name):
        self.control = control
        self.name = name
        self.parent = os.getppid()  # 0 in the PID namespace of a guard
        self.collects = gc.isenabled()
        self.handlers = {n: signal.getsignal(n) for n in range(1, signal.NSIG)}
        # Made here: in a worker each new thing is a page of memory copied.
        self.comm = ctypes.create_string_buffer(read("/proc/self/comm").strip().encode()[:15])
        self.last_capability = int(read("/proc/sys/kernel/cap_last_cap") or 63)
        self.held = set()
        self.program = None
        self.buffer = bytearray(MAX_MESSAGE)
        self.kernel = Kernel()

    def reply(self, kind, number=0, text="", pidfd=-1):
        """Tell the host."""
        data = REPLY.pack(VERSION, kind, 0, number) + text.encode("utf-8", "backslashreplace")[-MAX_TEXT:]
        with_it = [] if pidfd < 0 else [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, DESCRIPTOR.pack(pidfd))]
        self.control.sendmsg([data], with_it)

    def prepare(self, worker, modules):
        """Import the modules, and make this process fit to be forked."""
        alone = sys.flags.isolated or getattr(sys.flags, "safe_path", False)
        self.first_path = set_first_path(worker, None if alone else "")
        for name in ONE_THREAD:
            os.environ.setdefault(name, "1")
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3, CONTROL):
            if fd != null:
                os.dup2(null, fd, False)
        before = descriptors()
        suspects, count = [], threads()
        for module in modules:
            name = module.rstrip("?")
            try:
                importlib.import_module(name)
            except BaseException as error:
                if isinstance(error, ModuleNotFoundError) and module.endswith("?") and error.name == name:
                    continue
                text = "".join(traceback.format_exception(type(error), error, own_part(error.__traceback__)))
                raise Refused("importing " + name + " failed:\n" + text) from None
            if threads() > count:
                suspects.append(name)
            count = threads()
        if count > 1:
            raise Refused(several_threads(count, suspects))
        self.held = descriptors() - before
        if alone or self.first_path in sys.path:
            self.program = Program.of_script(worker)
        self.learns = worker == "-c"
        self.options = getattr(sys, "orig_argv", [])
        self.options = self.options[:self.options.index("-c")] if self.options else None
        self.rehearse()
        self.clean()

    def rehearse(self):
        """Run what each worker runs until it is ready, as far as it leaves no trace.

        What Python learns from running code is then in memory that all workers
        share. It is worth a hundred pages and a tenth of a millisecond for each.
        """
        sdk, threading = sys.modules.get("bullpen._start"), sys.modules.get("threading")
        self.mains, self.kinds, self.zone = [], [kind_of(fd) for fd in range(3)], os.environb.get(b"TZ")
        for _ in range(REHEARSALS):
            if hasattr(threading, "_after_fork"):
                threading._after_fork()  # there is one thread: nothing is lost
            Worker.rehearse(self)
        if hasattr(sdk, "rehearse"):
            try:
                sdk.rehearse()
            except Exception:
                pass  # workers are as good without

    def clean(self):
        """Undo what modules may have set and no worker should begin with, and freeze the collector."""
        for number, handler in self.handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        tempfile = sys.modules.get("tempfile")
        if tempfile is not None and tempfile.tempdir in default_folders():
            tempfile.tempdir = None  # found for this environment; a worker has its own
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        # Multiprocessing has a second name for the main module.
        self.mains = [name for name, module in sys.modules.items() if module is sys.modules["__main__"]]
        self.modules = set(sys.modules).difference(self.mains)
        self.kinds = [kind_of(fd) for fd in range(3)]
        self.zone = os.environb.get(b"TZ")
        os.environ.clear()
        gc.collect()
        gc.disable()
        gc.freeze()
        self.call_this(ctypes.create_string_buffer(self.name.encode()[:15]))

    def call_this(self, name):
        """Set the name in /proc/self/comm."""
        self.kernel.call("prctl", PR_SET_NAME, ctypes.addressof(name), 0, 0, 0)

    def serve(self):
        """Fork on request. Returns None at the end, and a Worker in each child."""
        room = _socket.CMSG_SPACE(MAX_DESCRIPTORS * DESCRIPTOR.size)
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)
        cut = _socket.MSG_TRUNC | _socket.MSG_CTRUNC
        view = memoryview(self.buffer)
        while True:
            size, ancillary, flags, _ = self.control.recvmsg_into([self.buffer], room)
            if size == 0:
                return None
            received = []
            for level, kind, data in ancillary:
                if (level, kind) == rights:
                    received += memoryview(data)[:len(data) // DESCRIPTOR.size * DESCRIPTOR.size].cast("i")
            if size < REQUEST.size or flags & cut:
                raise Refused("a request of %d bytes is cut off" % size)
            version, kind, bits, number, *counts = REQUEST.unpack_from(self.buffer)
            if version != VERSION or kind != FORK:
                raise Refused("a request of version %d and kind %d; this side knows version 1" % (version, kind))
            try:
                pidfd = self.kernel.fork()
            except OSError as error:
                self.reply(REFUSED, number, "no process can be made: " + str(error.strerror))
            else:
                if pidfd < 0:
                    return Worker(self, bits, number, counts, received, bytes(view[REQUEST.size:size]))
                self.reply(FORKED, number, pidfd=pidfd)
                os.close(pidfd)
            for fd in received:
                os.close(fd)
            if self.learns and size > REQUEST.size:
                self.learn(bytes(view[REQUEST.size:size]))

    def learn(self, body):
        """Compile the program that the first worker is given by -c, for those that follow."""
        self.learns = False
        _, at = texts(body, 0, 3)
        arguments, _ = texts(body, at)
        if len(arguments) > 1:
            self.program = Program("-c", os.fsdecode(arguments[1])).prepared()


def read(path):
    """A small file as text, empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def descriptors():
    """The descriptors that are open now."""
    return {fd for fd in map(int, os.listdir("/proc/self/fd")) if os.path.lexists("/proc/self/fd/%d" % fd)}


def threads():
    """How many threads this process has, those that Python does not know too."""
    return len(os.listdir("/proc/self/task"))


def several_threads(count, suspects):
    """Why this process cannot be forked, and what to do."""
    threading = sys.modules.get("threading")
    names = []
    if threading is not None:
        names = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if len(names) < count - 1:
        names.append("%d that Python does not know" % (count - 1 - len(names)))
    return ("there are %d threads after the imports, and a process with threads cannot be forked safely. "
            "Started by: %s. Threads: %s. Leave such modules out of the preloaded ones (workers then import them "
            "themselves), or keep them from starting threads when imported (%s are set to 1 unless the environment "
            "says otherwise)" % (count, ", ".join(suspects) or "not known", ", ".join(names), ", ".join(ONE_THREAD)))


def default_folders():
    """The folders among which tempfile chooses when nobody tells it."""
    named = [os.path.abspath(os.environ[name]) for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
    return named + ["/tmp", "/var/tmp", "/usr/tmp", os.getcwd()]


def own_part(trace):
    """A traceback without the frames of this file at its outer end."""
    inner = trace
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == __file__:
            inner = trace.tb_next
        trace = trace.tb_next
    return inner


def hide_frames():
    """Leave the frames of this file out of the traceback that is about to be printed."""
    hook = sys.excepthook

    def shorter(kind, error, trace):
        sys.excepthook = hook
        trace = own_part(trace)
        hook(kind, error.with_traceback(trace), trace)

    sys.excepthook = shorter


def main(arguments):
    """Prepare, serve, and, in a child, run its program to its end."""
    given = dict(part.partition("=")[::2] for part in os.environ.pop("BULLPEN_ZYGOTE").split(",")[1:])
    os.dup2(int(given["fd"]), CONTROL, False)
    os.close(int(given["fd"]))  # frees the number that the host chose
    # Not of the module socket, which few workers need and whose own class only
    # adds methods in Python: each costs a worker pages of memory.
    control = _socket.socket(fileno=CONTROL)
    zygote = None
    try:
        zygote = Zygote(control, given["name"])
        zygote.prepare(arguments[0], arguments[1:])
    except Refused as error:
        Zygote.reply(zygote or types.SimpleNamespace(control=control), FAILED, text=str(error))
        sys.exit(1)
    zygote.reply(READY)
    worker = zygote.serve()
    if worker is None:
        return
    worker.begin()
    status = 0
    try:
        worker.run()
    except SystemExit as end:
        status = 0 if end.code is None else end.code
    except BaseException:
        hide_frames()
        raise
    if isinstance(status, int):
        worker.leave(status)
    sys.exit(status)


main(sys.argv[1:])
