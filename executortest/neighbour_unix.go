//go:build unix

package executortest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"github.com/bullpen-run/bullpen"
)

// badSystemHandlers are the bad handlers that need signals and sessions.
func badSystemHandlers() map[string]bullpen.Handler {
	return map[string]bullpen.Handler{
		"bad-forks":       handleForks,
		"bad-descriptors": handleDescriptors,
		"bad-crash":       handleCrash,
		"bad-deaf":        handleDeaf,
		"bad-stop":        handleStop,
		"bad-escape":      handleEscape,
	}
}

// processorTime returns the processor time of this process, including all threads.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// wild is an unmapped address.
func wild() *int {
	address := uintptr(1 << 30)
	return *(**int)(unsafe.Pointer(&address))
}

// Each shell becomes 2^(bombDepth+1)-1 processes.
const (
	bombDepth = 2
	bombSize  = 1<<(bombDepth+1) - 1
)

func handleForks(_ context.Context, t bullpen.Task) ([]byte, error) {
	var n int
	var mark string
	if _, err := fmt.Sscan(string(t.Payload), &n, &mark); err != nil {
		return nil, err
	}
	script := fmt.Sprintf(`
b() {
	[ "$1" = 0 ] || { b $(($1-1)) & b $(($1-1)) & }
	exec sleep %d
}
b %d`, int(stay.Seconds()), bombDepth)
	started := 0
	for started < n && start(script, mark) == nil { // stops when no more processes can be started
		started++
	}
	return strconv.AppendInt(nil, int64(started), 10), nil
}

func handleEscape(_ context.Context, t bullpen.Task) ([]byte, error) {
	seconds := int(stay.Seconds())
	return nil, start(fmt.Sprintf(`trap '' TERM HUP INT QUIT; sleep %d & exec sleep %d`, seconds, seconds), string(t.Payload))
}

// start runs a shell in its own session, without waiting for it.
func start(script, mark string) error {
	c := exec.Command("/bin/sh", "-c", script)
	c.Env = append(os.Environ(), markVariable+"="+mark)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	return c.Process.Release()
}

// hogged keeps the files that handleDescriptors opened.
var hogged []*os.File

func handleDescriptors(context.Context, bullpen.Task) ([]byte, error) {
	const most = 256 // avoids opening a million of them
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil, err
	}
	limit.Cur = most
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil, err
	}
	for len(hogged) < most {
		f, err := os.Open(os.DevNull)
		if err != nil {
			if !errors.Is(err, syscall.EMFILE) {
				return nil, err
			}
			break
		}
		hogged = append(hogged, f)
	}
	return strconv.AppendInt(nil, int64(len(hogged)), 10), nil
}

// handleCrash ends its process. To end by a signal, the process first becomes a shell,
// because Go's runtime handles most signals itself.
func handleCrash(_ context.Context, t bullpen.Task) ([]byte, error) {
	switch way := string(t.Payload); way {
	case "SIGKILL":
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return nil, err
		}
		select {}
	case "SIGSEGV", "SIGABRT":
		script := "ulimit -c 0; kill -" + way[len("SIG"):] + " $$; sleep 60"
		return nil, syscall.Exec("/bin/sh", []string{"sh", "-c", script}, os.Environ())
	case "wild pointer":
		*wild() = 1
		select {}
	case "closed descriptors":
		const all = 64
		for fd := range all {
			_ = syscall.Close(fd)
		}
		select {}
	default:
		return nil, die(way)
	}
}

func handleDeaf(context.Context, bullpen.Task) ([]byte, error) {
	signal.Ignore()
	for end := time.Now().Add(stay); time.Now().Before(end); {
		continue
	}
	return nil, nil
}

func handleStop(ctx context.Context, _ bullpen.Task) ([]byte, error) {
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return nil, err
	}
	<-ctx.Done()
	return nil, ctx.Err()
}
