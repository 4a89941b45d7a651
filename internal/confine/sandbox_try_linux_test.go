package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// helperTry does what its arguments ask for, from inside of a sandbox, and
// prints what came of it as JSON, one text each: "" for what went well.
func helperTry() error {
	answers := make([]string, 0, len(os.Args)-1)
	for _, arg := range os.Args[1:] {
		name, rest, _ := strings.Cut(arg, " ")
		try, ok := tries[name]
		if !ok {
			return fmt.Errorf("%q cannot be tried", name)
		}
		if err := try(rest); err != nil {
			answers = append(answers, err.Error())
		} else {
			answers = append(answers, "")
		}
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

// say is an answer that is no error.
func say(format string, args ...any) error { return fmt.Errorf(format, args...) }

func errnoOf(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// calls makes a call with a number in decimal.
func calls(number string, call func(int) error) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	return call(n)
}

// outcome is an error of its own kind, so that whoever follows data through
// this program sees that trials are no callbacks of the package.
type outcome interface{ error }

var tries = map[string]func(string) outcome{
	"read": func(path string) outcome { _, err := os.ReadFile(path); return err },
	"list": func(path string) outcome {
		all, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		names := make([]string, len(all))
		for i, e := range all {
			names[i] = e.Name()
		}
		return say("%s", strings.Join(names, " "))
	},
	"write": func(path string) outcome { return os.WriteFile(path, []byte("x"), 0o600) },
	"stat":  func(path string) outcome { _, err := os.Lstat(path); return err },
	"mkdir": func(path string) outcome { return os.Mkdir(path, 0o700) },
	"chmod": func(path string) outcome { return os.Chmod(path, 0o777) },
	"setid": func(path string) outcome {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return say("cannot even be made: %v", err)
		}
		return os.Chmod(path, 0o755|os.ModeSetuid)
	},
	"openat2": func(path string) outcome {
		_, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_RDONLY})
		return err
	},
	"getwd":   func(string) outcome { dir, err := os.Getwd(); return errors.Join(say("%s", dir), err) },
	"mount":   func(path string) outcome { return unix.Mount("tmpfs", path, "tmpfs", 0, "") },
	"fsopen":  func(string) outcome { _, err := unix.Fsopen("tmpfs", 0); return err },
	"unshare": func(string) outcome { return unix.Unshare(unix.CLONE_NEWUSER) },
	"setns":   func(string) outcome { return unix.Setns(0, 0) },
	"chroot":  func(path string) outcome { return unix.Chroot(path) },
	"ptrace":  func(string) outcome { return unix.PtraceAttach(1) },
	"bpf": func(string) outcome {
		_, _, errno := unix.Syscall(unix.SYS_BPF, 0, 0, 0)
		return errnoOf(errno)
	},
	"keyctl": func(string) outcome { _, err := unix.KeyctlInt(unix.KEYCTL_GET_KEYRING_ID, -3, 0, 0, 0); return err },
	"io_uring": func(string) outcome {
		var params [120]byte
		_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
		return errnoOf(errno)
	},
	"clone": func(flags string) outcome {
		n, err := strconv.ParseUint(flags, 0, 32)
		if err != nil {
			return err
		}
		cmd := exec.Command("/bin/sh", "-c", "exit 0")
		cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: uintptr(n)}
		return cmd.Run()
	},
	"clone3": func(string) outcome { // of nothing: EINVAL where it is allowed
		_, _, errno := unix.Syscall(unix.SYS_CLONE3, 0, 0, 0)
		return errnoOf(errno)
	},
	"tiocsti": func(string) outcome {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, 0, unix.TIOCSTI|1<<32, 0)
		return errnoOf(errno)
	},
	"socket": func(family string) outcome {
		n, err := strconv.Atoi(family)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(n, unix.SOCK_STREAM, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	},
	"netlink": func(protocol string) outcome {
		n, err := strconv.Atoi(protocol)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, n)
		if err == nil {
			unix.Close(fd)
		}
		return err
	},
	"dial": func(where string) outcome {
		network, address, _ := strings.Cut(where, " ")
		c, err := net.DialTimeout(network, address, 20*time.Second)
		if err == nil {
			c.Close()
		}
		return err
	},
	"listen": func(where string) outcome {
		network, address, _ := strings.Cut(where, " ")
		l, err := net.Listen(network, address)
		if err == nil {
			l.Close()
		}
		return err
	},
	"kill": func(pid string) outcome {
		n, err := strconv.Atoi(pid)
		if err != nil {
			return err
		}
		return unix.Kill(n, 0)
	},
	"prlimit": func(pid string) outcome {
		n, err := strconv.Atoi(pid)
		if err != nil {
			return err
		}
		var limit unix.Rlimit
		if err := unix.Prlimit(n, unix.RLIMIT_CPU, nil, &limit); err != nil {
			return err
		}
		return unix.Prlimit(n, unix.RLIMIT_CPU, &limit, nil)
	},
	// These are asked for a process's affinity, policy and so on as they are
	// now, or for less than that: an error is a refusal.
	"affinity": func(pid string) outcome {
		var set unix.CPUSet
		return errors.Join(unix.SchedGetaffinity(0, &set), calls(pid, func(n int) error { return unix.SchedSetaffinity(n, &set) }))
	},
	"scheduler": func(pid string) outcome {
		var param int32
		return calls(pid, func(n int) error {
			_, _, errno := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(n), unix.SCHED_BATCH, uintptr(unsafe.Pointer(&param)))
			return errnoOf(errno)
		})
	},
	"parameter": func(pid string) outcome {
		var param int32
		return calls(pid, func(n int) error {
			_, _, errno := unix.Syscall(unix.SYS_SCHED_SETPARAM, uintptr(n), uintptr(unsafe.Pointer(&param)), 0)
			return errnoOf(errno)
		})
	},
	"attributes": func(pid string) outcome {
		return calls(pid, func(n int) error {
			return unix.SchedSetAttr(n, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
		})
	},
	"nice": func(who string) outcome { // "WHICH WHO"
		which, who, _ := strings.Cut(who, " ")
		kind, err := strconv.Atoi(which)
		return errors.Join(err, calls(who, func(n int) error { return unix.Setpriority(kind, n, 19) }))
	},
	"ioprio": func(who string) outcome { // "WHICH WHO"
		const idle = 3 << 13
		which, who, _ := strings.Cut(who, " ")
		kind, err := strconv.Atoi(which)
		return errors.Join(err, calls(who, func(n int) error {
			_, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, uintptr(kind), uintptr(n), idle)
			return errnoOf(errno)
		}))
	},
	"move_pages": func(pid string) outcome {
		return calls(pid, func(n int) error {
			_, _, errno := unix.Syscall6(unix.SYS_MOVE_PAGES, uintptr(n), 0, 0, 0, 0, 0)
			return errnoOf(errno)
		})
	},
	"core": func(pid string) outcome { // shares hyper-threads of a core with nobody but pid
		const create, process = 1, 1
		return calls(pid, func(n int) error { return unix.Prctl(unix.PR_SCHED_CORE, create, uintptr(n), process, 0) })
	},
	"read_memory": func(pid string) outcome {
		var b [1]byte
		return calls(pid, func(n int) error {
			_, err := unix.ProcessVMReadv(n, []unix.Iovec{{Base: &b[0], Len: 1}}, []unix.RemoteIovec{{Base: 0x400000, Len: 1}}, 0)
			return err
		})
	},
	"kcmp": func(pid string) outcome {
		return calls(pid, func(n int) error {
			_, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(n), uintptr(n), 0, 0, 0, 0)
			return errnoOf(errno)
		})
	},
	"getfd": func(pid string) outcome {
		return calls(pid, func(n int) error {
			pidfd, err := unix.PidfdOpen(n, 0)
			if err != nil {
				return err
			}
			_, err = unix.PidfdGetfd(pidfd, 0, 0)
			return err
		})
	},
	"shm": func(key string) outcome {
		return calls(key, func(n int) error { _, err := unix.SysvShmGet(n, 4096, unix.IPC_CREAT|0o600); return err })
	},
	"msg": func(key string) outcome {
		return calls(key, func(n int) error {
			_, _, errno := unix.Syscall(unix.SYS_MSGGET, uintptr(n), unix.IPC_CREAT|0o600, 0)
			return errnoOf(errno)
		})
	},
	"sem": func(key string) outcome {
		return calls(key, func(n int) error {
			_, _, errno := unix.Syscall(unix.SYS_SEMGET, uintptr(n), 1, unix.IPC_CREAT|0o600)
			return errnoOf(errno)
		})
	},
	"mqueue": func(name string) outcome {
		path, err := unix.BytePtrFromString(name)
		if err != nil {
			return err
		}
		_, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(path)), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
		return errnoOf(errno)
	},
	"processes": func(string) outcome {
		all, err := filepath.Glob("/proc/[0-9]*")
		return errors.Join(say("%d of %d", len(all), os.Getpid()), err)
	},
	"self": func(string) outcome {
		target, err := os.Readlink("/proc/self")
		return errors.Join(say("%s of %d", target, os.Getpid()), err)
	},
	"status": func(names string) outcome {
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return err
		}
		var found []string
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			if strings.Contains(" "+names+" ", " "+name+" ") {
				found = append(found, name+"="+strings.TrimSpace(value))
			}
		}
		return say("%s", strings.Join(found, " "))
	},
	"fill": func(path string) outcome {
		file, err := os.Create(path)
		if err != nil {
			return err
		}
		defer file.Close()
		block := make([]byte, 1<<16)
		for n := 0; n < 1<<30; n += len(block) {
			if _, err := file.Write(block); err != nil {
				return say("after %d KiB: %w", n>>10, err)
			}
		}
		return nil
	},
}

// testFolder has the test binary in it.
func testFolder(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(path)
}

// attempt has a child of s try all that is asked for.
func attempt(t testing.TB, s *Spawner, temp string, asked ...string) []string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child, host := readPipe(t)
	c := begin(t, s, Spec{
		Path: path, Args: append([]string{path}, asked...), Temp: temp, Files: []*os.File{nil, child, os.Stderr},
		Env: []string{helperEnv + "=try", "GORACE=atexit_sleep_ms=0", "TMPDIR=" + temp, "PATH=/usr/bin:/bin"},
	})
	child.Close()
	text, err := io.ReadAll(host)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := c.Wait(); err != nil || e.Code != 0 {
		t.Fatalf("%v, %v", e, err)
	}
	var answers []string
	if err := json.Unmarshal(text, &answers); err != nil || len(answers) != len(asked) {
		t.Fatalf("%v: %s", err, text)
	}
	return answers
}

// want is what has to come of an attempt.
type want struct {
	ask  string
	says string // in the answer; "" for success
}

func check(t testing.TB, s *Spawner, temp string, wants ...want) {
	t.Helper()
	asked := make([]string, len(wants))
	for i, w := range wants {
		asked[i] = w.ask
	}
	for i, got := range attempt(t, s, temp, asked...) {
		if w := wants[i]; got != w.says && (w.says == "" || !strings.Contains(got, w.says)) {
			t.Errorf("%s: %q, want %q", w.ask, got, w.says)
		}
	}
}
