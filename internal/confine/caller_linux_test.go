package confine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// attributes is what a start on the calling thread could leave behind.
func attributes() (string, error) {
	namespace, err := os.Readlink("/proc/thread-self/ns/pid_for_children")
	nice, niceErr := unix.Getpriority(unix.PRIO_PROCESS, 0)
	return fmt.Sprintf("children in %s, nice %d", namespace, 20-nice), errors.Join(err, niceErr)
}

// A start on the thread of the caller gives the child what the profile asks for, also
// to what the child has started, and the thread keeps nothing of it.
func TestStartOnTheThreadOfTheCaller(t *testing.T) {
	s := newSpawner(t, Profile{Guard: true, Nice: 7, NiceSet: true})
	needGuard(t, s)
	if s.current.home < 0 {
		t.Fatal("the spawner starts children on a thread of its own")
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			before, err := attributes()
			for range 10 {
				startNiced(t, s)
			}
			after, afterErr := attributes()
			if err := errors.Join(err, afterErr); err != nil || after != before {
				t.Errorf("the thread had %s and now has %s (%v)", before, after, err)
			}
		})
	}
	all.Wait()
}

// startNiced starts a child with one of its own, and asks both for their nice values.
func startNiced(t *testing.T, s *Spawner) {
	t.Helper()
	input, say, err := HostWritePipe()
	if err != nil {
		t.Error(err)
		return
	}
	defer say.Close()
	output, hear, err := HostReadPipe()
	if err != nil {
		t.Error(err)
		return
	}
	defer hear.Close()
	const script = `(read -r go; read -r line < /proc/self/stat; echo "$line" | cut -d' ' -f19)
read -r line < /proc/self/stat; echo "$line" | cut -d' ' -f19`
	c, err := s.Start(shell(script, input, output))
	input.Close()
	output.Close()
	if err != nil {
		t.Error(err)
		return
	}
	fmt.Fprintln(say, "go")
	var said bytes.Buffer
	_, readErr := said.ReadFrom(hear)
	if e, err := c.Wait(); err != nil || readErr != nil || e.Code != 0 || said.String() != "7\n7\n" {
		t.Errorf("nice values %q, want 7 and 7 (%v, %v, %v)", said.String(), e, err, readErr)
	}
}

// helperGains forbids its process to gain rights, and starts a child in it.
func helperGains() error {
	if err := ForbidGains(); err != nil {
		if errors.Is(err, unix.ENOTSUP) {
			fmt.Println("linked with C")
			return nil
		}
		return err
	}
	s, err := NewSpawner(Profile{Guard: true, NoNewPrivs: true})
	if err != nil {
		return err
	}
	ok, _ := s.OrphanProof()
	fmt.Println("on the caller's thread:", s.current.home >= 0 || !ok)
	c, err := s.Start(shell("grep NoNewPrivs /proc/self/status", nil, os.Stdout))
	if err == nil {
		_, err = c.Wait()
	}
	tasks, readErr := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		text, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
		if len(text) > 0 && !bytes.Contains(text, []byte("NoNewPrivs:\t1")) {
			fmt.Println("a thread may gain rights:", task.Name())
		}
	}
	return errors.Join(err, readErr, s.Close())
}

func TestForbidGains(t *testing.T) {
	out, err := helperCommand(t, "gains").Output()
	if err != nil {
		t.Fatal(err)
	}
	if said := string(out); said == "linked with C\n" {
		t.Skip("this test binary is linked with C")
	} else if want := "on the caller's thread: true\nNoNewPrivs:\t1\n"; said != want {
		t.Errorf("got %q, want %q", strings.TrimSpace(said), want)
	}
}

// What is killed no longer waits behind others for the time that dying takes.
func TestKilledHasThePriorityOfTheHost(t *testing.T) {
	t.Parallel()
	s := newSpawner(t, Profile{Nice: 7, NiceSet: true})
	child, _ := readPipe(t)
	c := begin(t, s, shell("exec sleep 1000", nil, child))
	before, beforeErr := unix.Getpriority(unix.PRIO_PROCESS, c.Pid())
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	after, err := unix.Getpriority(unix.PRIO_PROCESS, c.Pid()) // of what is not waited for yet
	if err := errors.Join(beforeErr, err); err != nil || before != 20-7 || after != 20 && os.Geteuid() == 0 {
		t.Errorf("the nice value was %d, and is %d (%v)", 20-before, 20-after, err)
	}
	if session, err := os.ReadFile(fmt.Sprintf("/proc/%d/autogroup", c.Pid())); autogrouped() && os.Geteuid() == 0 &&
		(err != nil || !bytes.HasSuffix(session, []byte(" nice 0\n"))) {
		t.Errorf("its session: %s (%v)", session, err)
	}
	if _, err := c.Wait(); err != nil {
		t.Error(err)
	}
}
