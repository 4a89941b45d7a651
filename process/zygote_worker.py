"""The other half of the fork server, which the host joins with zygote.py: what a worker does until its program runs."""

import atexit
import builtins
import gc
import importlib.machinery
import io
import marshal
import os
import pkgutil
import runpy
import signal
import stat
import struct
import sys
import time
import traceback
import types
import warnings
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from importlib.util import MAGIC_NUMBER

STARTED, REFUSED = 4, 5
IN_MEMORY, MORTAL, CONFINED, RULESET = 1, 2, 4, 8
COUNT = struct.Struct("<I")

# Descriptors below CONTROL are taken while modules are imported and while the
# server serves, so that neither what modules open nor what comes with a request
# ever has a number that a worker's own files get.
CONTROL = 63
PR_SET_PDEATHSIG = 1


class Refused(Exception):
    """What is to be done cannot be done; the text is for people."""


class Worker:
    """One forked process, from its birth to the first line of its program."""

    def __init__(self, zygote, bits, number, counts, received, body):
        self.zygote, self.bits, self.number, self.counts = zygote, bits, number, counts[:3]
        self.received, self.body = received, body
        self.program = None  # unless it is a module, a folder or an archive

    def begin(self):
        """Become what the request says, and tell the host."""
        zygote = self.zygote
        try:
            try:
                self.become()
            except OSError as error:
                raise Refused(str(error)) from None
        except Refused as error:
            self.tell(REFUSED, str(error))
            os._exit(127)
        except BaseException:
            self.tell(REFUSED, "a worker cannot be prepared:\n" + traceback.format_exc())
            os._exit(127)
        self.tell(STARTED)
        zygote.control.close()
        zygote.call_this(zygote.comm)

    def tell(self, kind, text=""):
        """Answer with a descriptor of this process: the one that forked it may have died before it could."""
        try:
            pidfd = self.zygote.kernel.call("pidfd_open", os.getpid(), 0)
            self.zygote.reply(kind, self.number, text, pidfd)
            os.close(pidfd)
        except OSError:
            os._exit(127)  # the host is gone, or does not want this worker any more

    def become(self):
        """Change this process in an order in which each step is still allowed."""
        kernel, zygote = self.zygote.kernel, self.zygote
        files, groups, namespaces = self.descriptors()
        for fd in groups:  # before anything that could need memory or processes
            os.write(fd, b"0")
        os.setsid()
        if self.bits & MORTAL:
            kernel.call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != zygote.parent:
                os._exit(127)  # it ended just before
        folder, refuge, program, self.arguments, environment = self.parse()
        for number, fd in enumerate(files):
            os.dup2(fd, number)
        for fd in namespaces:
            kernel.call("setns", fd, 0)
        try:
            os.chdir(folder)
        except OSError as error:
            if not refuge:
                raise Refused("the folder to start in: " + str(error)) from None
            os.chdir(refuge)
        if self.bits & CONFINED:
            kernel.confine(self.ruleset, program, zygote.last_capability)
        self.close_others(len(files))
        fill_environment(environment, zygote.zone)
        renew_streams(zygote.kinds, environment)
        reseed()
        self.load()
        if zygote.collects:
            gc.enable()  # what is frozen stays so, and shared

    def descriptors(self):
        """Sort what came with the request."""
        received = self.received
        wanted = sum(self.counts) + bool(self.bits & IN_MEMORY) + bool(self.bits & RULESET)
        if len(received) != wanted or self.counts[0] > CONTROL:
            raise Refused("%d descriptors came with a request for %d" % (len(received), wanted))
        if self.bits & IN_MEMORY:
            memory = received.pop(0)
            self.body = os.pread(memory, os.fstat(memory).st_size, 0)
        self.ruleset = received.pop() if self.bits & RULESET else None
        files, groups = self.counts[0], self.counts[0] + self.counts[1]
        return received[:files], received[files:groups], received[groups:]

    def parse(self):
        """Read folder, another folder, seccomp program, arguments and environment from the body."""
        (folder, refuge, program), at = texts(self.body, 0, 3)
        arguments, at = texts(self.body, at)
        variables, _ = texts(self.body, at)
        environment = {}
        for variable in variables:
            name, _, value = variable.partition(b"=")
            if name:
                environment.setdefault(name, value)  # the first of a name counts
        if not arguments:
            raise Refused("a request without a program")
        return folder or b".", refuge, program, list(map(os.fsdecode, arguments)), environment

    def close_others(self, files):
        """Leave open what is the worker's own, and the socket."""
        kernel, first = self.zygote.kernel, CONTROL + 1
        kernel.close(files, CONTROL - 1)
        if self.zygote.held:
            # A module still believes that these are its own, and may close
            # them: their numbers must not become somebody else's.
            null = os.open(os.devnull, os.O_RDWR)
            for fd in sorted(self.zygote.held):
                kernel.close(first, fd - 1)
                os.dup2(null, fd, False)
                first = fd + 1
            if null not in self.zygote.held:
                os.close(null)
        kernel.close(first, 0xFFFFFFFF)

    def load(self):
        """Make the interpreter what it is before `python ARGUMENTS...` runs its program."""
        kind, rest = self.arguments[0], self.arguments[1:]
        if kind in ("-m", "-c"):
            if not rest:
                raise Refused("nothing follows " + kind)
            sys.argv = [kind] + rest[1:]
        else:
            sys.argv = list(self.arguments)
        if self.zygote.options is not None:
            sys.orig_argv = self.zygote.options + self.arguments
        main = types.ModuleType("__main__")
        main.__builtins__ = builtins
        for name in self.zygote.mains:
            sys.modules[name] = main
        known = self.zygote.program
        if kind == "-c":
            if known is not None and known.source == rest[0]:
                self.program = known
        elif known is not None and known.is_at(kind):
            self.program = known
            return
        set_first_path(kind, self.zygote.first_path)
        # Whatever is not a file is a folder or an archive, and run as one.
        if kind not in ("-m", "-c") and pkgutil.get_importer(kind) is None:
            try:
                with io.open_code(kind) as file:
                    source = file.read()
            except OSError as error:
                raise Refused("can't open file %r: [Errno %s] %s" % (kind, error.errno, error.strerror)) from None
            self.program = Program(kind, source)
            if known is not None and (known.path, known.source) == (self.program.path, source):
                self.program = known

    @classmethod
    def rehearse(cls, zygote):
        """Run what a worker runs before its program, without what changes a process."""
        body = COUNT.pack(0) * 3
        # What is no script that can be read may be anything, a pipe for instance.
        for words in ([zygote.program.name] if zygote.program else ["-c", "pass"]), ["BULLPEN_REHEARSAL=1"]:
            body += COUNT.pack(len(words)) + b"".join(COUNT.pack(len(os.fsencode(w))) + os.fsencode(w) for w in words)
        self = cls(zygote, 0, 0, (0, 0, 0, 0), [], body)
        self.descriptors()
        _, _, _, self.arguments, environment = self.parse()
        path, argv, original = list(sys.path), sys.argv, getattr(sys, "orig_argv", None)
        self.load()
        sys.path[:], sys.argv = path, argv
        if original is not None:
            sys.orig_argv = original
        fill_environment(environment, zygote.zone)
        renew_streams(zygote.kinds, environment)
        reseed()
        os.close(zygote.kernel.call("pidfd_open", os.getpid(), 0))

    def leave(self, status):
        """End with status as the interpreter does, but without taking apart what the server has made.

        That would copy most of the memory that is shared with the server, only
        to free it. Returns where other threads run: only the interpreter itself
        can hold them.
        """
        threading = sys.modules.get("threading")
        if threading is not None:
            threading._shutdown()
        try:
            atexit._run_exitfuncs()
        except BaseException:
            pass  # it has been printed; before 3.10 it is raised as well
        if len(os.listdir("/proc/self/task")) > 1:
            return
        # Dropped, not emptied, as the interpreter does first: files are closed
        # and finalizers run while what they need is still there.
        for name in [name for name in sys.modules if name not in self.zygote.modules]:
            del sys.modules[name]
        gc.collect()
        for stream in (sys.stdout, sys.stderr):
            try:
                if stream is not None and not stream.closed:
                    stream.flush()
            except Exception:
                return  # the interpreter knows what to say of it
        self.zygote.kernel.library.fflush(None)
        os._exit(status & 0xFF)

    def run(self):
        """Run the program as the interpreter itself does."""
        kind, main, program = self.arguments[0], sys.modules["__main__"], self.program
        if kind == "-m":
            runpy._run_module_as_main(self.arguments[1])
        elif kind == "-c":
            main.__loader__ = importlib.machinery.BuiltinImporter
            code = (program or Program(kind, self.arguments[1])).compiled()
            show_lines(code, self.arguments[1])
            exec(code, main.__dict__)
        elif program is None:
            runpy._run_module_as_main("__main__", False)
        else:
            main.__file__, main.__cached__ = program.path, None
            loader = SourcelessFileLoader if program.source[:4] == MAGIC_NUMBER else SourceFileLoader
            main.__loader__ = loader("__main__", program.path)
            exec(program.compiled(), main.__dict__)


class Program:
    """A script, or a text given by -c. What the server has compiled is of use as long as it stands there unchanged."""

    def __init__(self, name, source):
        self.name, self.source, self.code = name, source, None
        # What __file__ is for `python NAME`, or what stands for it.
        self.path = "<string>" if name == "-c" else os.path.abspath(name) if sys.version_info >= (3, 9) else name

    @classmethod
    def of_script(cls, name):
        """The script name, compiled; None where there is none, or where workers have to say what is wrong with it."""
        if name in ("-m", "-c") or not os.path.isfile(name) or pkgutil.get_importer(name) is not None:
            return None
        try:
            with open(name, "rb") as file:
                info, program = os.fstat(file.fileno()), cls(name, file.read())
            program.place = (info.st_dev, info.st_ino)
            program.folder = None if os.path.isabs(name) else os.getcwd()
        except OSError:
            return None
        return program.prepared()

    def prepared(self):
        """This one, compiled; None if that failed or gave a warning, which is for each worker to show."""
        try:
            with warnings.catch_warnings(record=True) as given:
                warnings.simplefilter("always")
                self.code = self.compiled()
        except Exception:
            return None
        return None if given else self

    def is_at(self, name):
        """Whether the script name is the very file that this was made from, unchanged, reached on the same way."""
        if name != self.name or self.folder is not None and self.folder != os.getcwd():
            return False
        try:
            fd = os.open(name, os.O_RDONLY)
        except OSError:
            return False
        try:
            info = os.fstat(fd)
            return (info.st_dev, info.st_ino) == self.place and os.pread(fd, len(self.source) + 1, 0) == self.source
        finally:
            os.close(fd)

    def compiled(self):
        """Its code."""
        if self.code is not None:
            return self.code
        if self.source[:4] == MAGIC_NUMBER:  # a file of compiled code, run without its source
            return marshal.loads(self.source[16:])
        return compile(self.source, self.path, "exec", dont_inherit=True)


def texts(body, at, count=None):
    """Take count texts from body at at, or as many as stand there as a number; and the place behind them."""
    if count is None:
        count, at = COUNT.unpack_from(body, at)[0], at + COUNT.size
    found = []
    for _ in range(count):
        begin = at + COUNT.size
        at = begin + COUNT.unpack_from(body, at)[0]
        if at > len(body):
            raise Refused("a request is cut off")
        found.append(body[begin:at])
    return found, at


def set_first_path(worker, before):
    """Make the first of sys.path what it is for `python WORKER`, and return it; before is what stood there."""
    searched = worker not in ("-m", "-c") and pkgutil.get_importer(worker) is not None
    if worker == "-m":
        path = os.getcwd()
    elif worker == "-c":
        path = ""
    elif searched:  # a folder or an archive
        path = os.path.abspath(worker)
    else:
        path = os.path.dirname(os.path.realpath(worker))
    if before in sys.path:
        sys.path[sys.path.index(before)] = path
    elif searched or not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path.insert(0, path)
    return path


def show_lines(code, source):
    """Have tracebacks show the lines of a program given by -c, as they do since 3.13."""
    linecache = sys.modules.get("linecache")
    if not hasattr(linecache, "_register_code"):
        return
    if "<string>" in linecache.cache:  # so it is in 3.13.0; the loader of this program stands there
        linecache.cache["<string>"] = (len(source), None, [line + "\n" for line in source.splitlines()], "<string>")
    else:
        linecache._register_code(code, source, "<string>")


def fill_environment(variables, zone):
    """Set the variables of a worker, of which there are none so far; zone is the TZ that holds."""
    for name, value in variables.items():
        os.putenv(name, value)
    # What os.environ does for each of them, at a fifth of the cost.
    getattr(os.environ, "_data", os.environb).update(variables)
    if variables.get(b"TZ") != zone:
        time.tzset()


def kind_of(fd):
    """What sort of file a descriptor is, as far as it matters to a stream on it; None where position matters."""
    info = os.fstat(fd)
    sort = stat.S_IFMT(info.st_mode)
    return (sort, info.st_rdev) if sort in (stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR) else None


def renew_streams(kinds, variables):
    """Tie the standard streams to what the descriptors are now, where that is something else than kinds.

    The objects stay the same ones: modules may have kept them, as handlers of
    logging do.
    """
    wanted = bool(variables.get(b"PYTHONUNBUFFERED")) and not sys.flags.ignore_environment
    for fd, stream in enumerate((sys.__stdin__, sys.__stdout__, sys.__stderr__)):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        unbuffered = fd > 0 and (stream.write_through or wanted)
        kind = kind_of(fd)
        if kind is not None and kind == kinds[fd] and unbuffered == (fd > 0 and stream.write_through):
            continue
        raw = io.FileIO(fd, "wb" if fd else "rb", closefd=False)
        raw.name = stream.name
        if fd == 0:
            buffer = io.BufferedReader(raw)
        else:
            buffer = raw if unbuffered else io.BufferedWriter(raw)
        lines = not unbuffered and (fd == 2 or raw.isatty())
        stream.__init__(buffer, stream.encoding, stream.errors, "\n", lines, unbuffered)


def reseed():
    """Give each worker random numbers of its own; the module random has a hook for it."""
    numbers = sys.modules.get("numpy.random")
    if numbers is not None:
        numbers.seed()
    ssl = sys.modules.get("_ssl")
    if ssl is not None:
        ssl.RAND_add(os.urandom(32), 0.0)
