//go:build unix

package process

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/bullpen-run/bullpen"
	sdk "github.com/bullpen-run/bullpen/worker"
)

// hoard keeps what hog takes.
var hoard []byte

// hog holds so many MiB of memory, and nothing else that it took before.
func hog(mib string) error {
	n, err := strconv.Atoi(mib)
	hoard = nil
	debug.FreeOSMemory()
	hoard = make([]byte, n<<20)
	for i := 0; i < len(hoard); i += 4096 {
		hoard[i] = 1
	}
	return err
}

// hogs are handlers that take memory, or the host's time.
func hogs() map[string]bullpen.Handler {
	return map[string]bullpen.Handler{
		// Leaves a process of its own session that prints for ever.
		"detach-loudly": func(context.Context, bullpen.Task) ([]byte, error) {
			c := exec.Command("yes", "a line that nobody asked for")
			c.SysProcAttr, c.Stdout, c.Stderr = &syscall.SysProcAttr{Setsid: true}, os.Stdout, os.Stderr
			if err := c.Start(); err != nil {
				return nil, err
			}
			return nil, c.Process.Release()
		},
		// Takes so many MiB of memory, and tells how many.
		"hog": func(_ context.Context, t bullpen.Task) ([]byte, error) {
			return t.Payload, hog(string(t.Payload))
		},
		"hog-and-stay": func(_ context.Context, t bullpen.Task) ([]byte, error) {
			if err := hog(string(t.Payload)); err != nil {
				return nil, err
			}
			select {}
		},
	}
}

// moreHandlers are the handlers of these tests beside those of the suite.
func moreHandlers() map[string]bullpen.Handler {
	return map[string]bullpen.Handler{
		// As the worker sees it: good to tell workers apart, not to signal them.
		"pid": func(context.Context, bullpen.Task) ([]byte, error) {
			return strconv.AppendInt(nil, int64(os.Getpid()), 10), nil
		},
		"env": func(_ context.Context, t bullpen.Task) ([]byte, error) {
			return []byte(os.Getenv(string(t.Payload))), nil
		},
		"environ": func(context.Context, bullpen.Task) ([]byte, error) {
			return []byte(strings.Join(os.Environ(), "\n")), nil
		},
		"dir": func(context.Context, bullpen.Task) ([]byte, error) {
			dir, err := os.Getwd()
			return []byte(dir), err
		},
		"print": func(_ context.Context, t bullpen.Task) ([]byte, error) {
			fmt.Println(string(t.Payload))
			fmt.Fprintln(os.Stderr, "warning: "+string(t.Payload))
			return t.Payload, nil
		},
		"printblock": func(ctx context.Context, t bullpen.Task) ([]byte, error) {
			fmt.Println(string(t.Payload))
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"selfkill": func(_ context.Context, t bullpen.Task) ([]byte, error) {
			n, err := strconv.Atoi(string(t.Payload))
			if err != nil {
				return nil, err
			}
			fmt.Fprintln(os.Stderr, "about to die")
			if err := syscall.Kill(os.Getpid(), syscall.Signal(n)); err != nil {
				return nil, err
			}
			select {}
		},
		"nice": func(context.Context, bullpen.Task) ([]byte, error) {
			n, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
			return strconv.AppendInt(nil, int64(20-n), 10), err
		},
		"cpus": func(context.Context, bullpen.Task) ([]byte, error) {
			b, err := os.ReadFile("/proc/self/status")
			_, rest, _ := strings.Cut(string(b), "Cpus_allowed_list:")
			line, _, _ := strings.Cut(rest, "\n")
			return []byte(strings.TrimSpace(line)), err
		},
		"inherited": func(context.Context, bullpen.Task) ([]byte, error) { return []byte(inherited()), nil },
		"grow":      handleGrow,
		"become":    handleBecome,
		"detach":    handleDetach,
		"count": func(context.Context, bullpen.Task) ([]byte, error) {
			return strconv.AppendInt(nil, served.Add(1), 10), nil
		},
		"list":    sharedHandler,
		"chatter": handleChatter,
		"report":  handleReport,
		"hash":    handleHash,
	}
}

// mostDescriptors is beyond the numbers of all files that these tests open.
const mostDescriptors = 200

// inherited lists the descriptors that this process has got from the one that
// started it: execve closes what it opens itself.
func inherited() string {
	var open []string
	for fd := range mostDescriptors {
		text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), "flags:")
		line, _, _ := strings.Cut(rest, "\n")
		if flags, err := strconv.ParseInt(strings.TrimSpace(line), 8, 64); err == nil && flags&syscall.O_CLOEXEC == 0 {
			open = append(open, strconv.Itoa(fd))
		}
	}
	return strings.Join(open, " ")
}

// handleHash is the work of the article of 2020: SHA-512 in base64.
func handleHash(_ context.Context, t bullpen.Task) ([]byte, error) {
	sum := sha512.Sum512(t.Payload)
	return base64.StdEncoding.AppendEncode(nil, sum[:]), nil
}

// served is a static of the worker: what one task leaves behind.
var served atomic.Int64

// handleBecome turns the worker into a shell that runs the payload, so that it
// ends in ways in which a Go program does not: by any signal, without a word.
func handleBecome(_ context.Context, t bullpen.Task) ([]byte, error) {
	return nil, syscall.Exec("/bin/sh", []string{"sh", "-c", string(t.Payload)}, os.Environ())
}

// handleDetach starts the payload in a shell in a session of its own, which
// nobody waits for, and gives its process number back.
func handleDetach(_ context.Context, t bullpen.Task) ([]byte, error) {
	c := exec.Command("/bin/sh", "-c", string(t.Payload))
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return nil, err
	}
	return strconv.AppendInt(nil, int64(c.Process.Pid), 10), c.Process.Release()
}

// handleChatter prints so many lines to both streams.
func handleChatter(_ context.Context, t bullpen.Task) ([]byte, error) {
	n, err := strconv.Atoi(string(t.Payload))
	if err != nil {
		return nil, err
	}
	block := strings.Repeat(strings.Repeat("noise ", 10)+"\n", 100)
	for i := 0; i < n; i += 100 {
		if _, err := os.Stdout.WriteString(block); err != nil {
			return nil, err
		}
		if _, err := os.Stderr.WriteString(block); err != nil {
			return nil, err
		}
	}
	return []byte("said"), nil
}

// handleReport tells its progress and logs.
func handleReport(ctx context.Context, t bullpen.Task) ([]byte, error) {
	sdk.Progress(ctx, 0.25, "a quarter")
	sdk.Logger(ctx).Warn("careful", "with", string(t.Payload))
	sdk.Progress(ctx, 1, "all")
	return nil, nil
}

var grown [][]byte

// handleGrow keeps that many MiB for ever.
func handleGrow(_ context.Context, t bullpen.Task) ([]byte, error) {
	n, err := strconv.Atoi(string(t.Payload))
	if err != nil {
		return nil, err
	}
	b := make([]byte, n<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	grown = append(grown, b)
	return nil, nil
}
