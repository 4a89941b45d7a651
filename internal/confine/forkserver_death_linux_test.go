package confine

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen/internal/leak"
)

// waiting is a child that says "ready" and ends with 3 when it reads a byte.
const waiting = "import os; os.write(1, b'ready\\n'); os.read(0, 1); raise SystemExit(3)"

func TestServerDeathSparesChildren(t *testing.T) {
	both(t, func(t *testing.T, s *Spawner) {
		t.Helper()
		v := newServer(t, s, zygoteSpec(t, "-c"))
		in, hostIn, err := HostWritePipe()
		if err != nil {
			t.Fatal(err)
		}
		defer hostIn.Close()
		out, host := readPipe(t)
		c := fork(t, v, code(waiting, in, out))
		in.Close()
		out.Close()
		readLine(t, host)
		if err := v.Child().Kill(); err != nil {
			t.Fatal(err)
		}
		<-v.Gone()
		if _, err := v.Start(code("pass")); !errors.Is(err, ErrServerGone) || !strings.Contains(err.Error(), "signal 9") {
			t.Errorf("a start after the server's death: %v", err)
		}
		if _, err := hostIn.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if e, err := c.Wait(); err != nil || e.Code != 3 {
			t.Errorf("%v, %v", e, err)
		}
	})
}

// The server is killed at random moments of many starts; each start gives a
// child or an error, and nothing is left that nobody knows of.
func TestServerKilledDuringStarts(t *testing.T) {
	both(t, func(t *testing.T, s *Spawner) {
		t.Helper()
		spec := zygoteSpec(t, "-c")
		for range 10 {
			killDuringStarts(t, s, spec)
		}
	})
}

func killDuringStarts(t *testing.T, s *Spawner, spec Spec) {
	t.Helper()
	v, err := s.StartServer(t.Context(), spec, patience)
	if err != nil {
		t.Fatal(err)
	}
	child, host := readPipe(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				c, err := v.Start(code("import os; os.read(0, 1)", nil, child))
				if err != nil {
					if !errors.Is(err, ErrServerGone) && !strings.Contains(err.Error(), "before its program began") {
						t.Error(err)
					}
					return
				}
				if e, err := c.Wait(); err != nil || e.Code != 0 || e.Signal != 0 {
					t.Errorf("%v, %v", e, err)
				}
			}
		})
	}
	<-time.After(rand.N(20 * time.Millisecond))
	_ = v.Child().Kill()
	all.Wait()
	child.Close()
	awaitEOF(t, host, soon)
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if pids := s.pids(); len(pids) != 0 {
		t.Errorf("children are left: %v", pids)
	}
}

// A child whose server died before it could tell is found by its name.
func TestServerUnreportedChild(t *testing.T) {
	both(t, func(t *testing.T, s *Spawner) {
		t.Helper()
		v := newServer(t, s, zygoteSpec(t, "-c"))
		in, hostIn, err := HostWritePipe()
		if err != nil {
			t.Fatal(err)
		}
		defer hostIn.Close()
		child, host := readPipe(t)
		c := fork(t, v, code("import ctypes, os\nctypes.CDLL(None).prctl(15, os.environb[b'NAME'])\nos.write(1, b'ready\\n')\nos.read(0, 1)", in, child, child).with("NAME="+v.name))
		in.Close()
		child.Close()
		readLine(t, host)
		if found := v.unreported(); len(found) != 2 { // the server bears it too
			t.Fatalf("found %v", found)
		}
		s.forget(c) // now nobody knows of it
		if err := v.Child().Kill(); err != nil {
			t.Fatal(err)
		}
		<-v.Gone()
		awaitEOF(t, host, soon)
		if _, err := c.Wait(); err == nil {
			t.Error("it was not reaped")
		}
	})
}

// with adds variables to the environment.
func (s Spec) with(env ...string) Spec {
	s.Env = append(append([]string{}, os.Environ()...), env...)
	return s
}

func TestServerThatHangs(t *testing.T) {
	leak.Check(t)
	s := newSpawner(t, Profile{Guard: true})
	v, err := s.StartServer(t.Context(), zygoteSpec(t, "-c"), patience)
	if err != nil {
		t.Fatal(err)
	}
	v.patience = 100 * time.Millisecond
	if err := v.Child().Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	began := time.Now()
	for range 300 { // more than the socket holds
		all.Go(func() {
			if _, err := v.Start(code("pass")); !errors.Is(err, ErrServerGone) || !strings.Contains(err.Error(), "did not answer within 100ms") {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("it took %v", d)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}

// A child that hangs before its program is killed; the server lives on.
func TestServerChildThatHangs(t *testing.T) {
	leak.Check(t)
	s := newSpawner(t, Profile{Guard: true})
	v := newServer(t, s, zygoteSpec(t, "-c"))
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	v.patience = 2 * time.Second
	if _, err := v.Start(Spec{Args: []string{fifo}}); err == nil || !strings.Contains(err.Error(), "did not start its program within 2s") {
		t.Errorf("%v", err)
	}
	if len(s.pids()) != 1 {
		t.Errorf("the child lives: %v", s.pids())
	}
	v.patience = patience
	if e, err := fork(t, v, code("pass")).Wait(); err != nil || e.Code != 0 {
		t.Errorf("%v, %v", e, err)
	}
}

func TestServerClose(t *testing.T) {
	both(t, func(t *testing.T, s *Spawner) {
		t.Helper()
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "polite.py"), []byte("import atexit, os\natexit.register(lambda: open('bye-%d' % os.getpid(), 'w').close())\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		spec := zygoteSpec(t, "-m", "polite")
		spec.Dir, spec.Args = folder, append([]string{interpreter(), "-S"}, spec.Args[3:]...)
		v, err := s.StartServer(t.Context(), spec, patience)
		if err != nil {
			t.Fatal(err)
		}
		out, host := readPipe(t)
		c := fork(t, v, code("import os; os.write(1, b'ready\\n'); os.read(0, 1)\nwhile True: pass", nil, out))
		out.Close()
		readLine(t, host)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if err := v.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if found, _ := filepath.Glob(filepath.Join(folder, "bye-*")); len(found) != 1 {
			t.Errorf("the server left %q at its end", found)
		}
		if _, err := v.Start(code("pass")); !errors.Is(err, ErrServerGone) {
			t.Errorf("a start after Close: %v", err)
		}
		if err := c.Kill(); err != nil {
			t.Errorf("the child ended with the server: %v", err)
		}
		if e, err := c.Wait(); err != nil || e.Signal != syscall.SIGKILL {
			t.Errorf("%v, %v", e, err)
		}
	})
}

func TestSpawnerCloseEndsServers(t *testing.T) {
	leak.Check(t)
	for _, guard := range []bool{false, true} {
		s := newSpawner(t, Profile{Guard: guard})
		spec := zygoteSpec(t, "-c")
		child, host := readPipe(t)
		servers := make([]*Server, 2)
		var all, enough sync.WaitGroup
		for i := range servers {
			v, err := s.StartServer(t.Context(), spec, patience)
			if err != nil {
				t.Fatal(err)
			}
			servers[i] = v
			enough.Add(4)
			for range 4 {
				all.Go(func() {
					for n := 0; ; n++ {
						if _, err := v.Start(code("import signal; signal.pause()", nil, child)); err != nil {
							return
						}
						if n == 1 {
							enough.Done()
						}
					}
				})
			}
		}
		enough.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
		child.Close()
		awaitEOF(t, host, soon)
		for _, v := range servers {
			if err := v.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.StartServer(t.Context(), spec, patience); !errors.Is(err, ErrClosed) {
			t.Errorf("a server after Close: %v", err)
		}
	}
}

var _ = helper("serverhost", helperServerHost)

// helperServerHost is a host with a fork server and a child of it that spins,
// all of which hold descriptor 3. It waits to be killed.
func helperServerHost() error {
	s, err := NewSpawner(Profile{Guard: os.Getenv("GUARD") == "yes"})
	if err != nil {
		return err
	}
	spec, _, err := zygoteParts("-c")
	if err != nil {
		return err
	}
	held := os.NewFile(3, "held")
	spec.Files = append(spec.Files, held)
	v, err := s.StartServer(context.Background(), spec, patience)
	if err != nil {
		return err
	}
	if _, err := v.Start(code("import os; os.write(1, b'ready\\n')\nwhile True: pass", nil, held, held, held)); err != nil {
		return err
	}
	in, stay, err := HostReadPipe()
	if err != nil {
		return err
	}
	defer in.Close() // not before: so the next line waits for ever
	_, err = stay.Read(make([]byte, 1))
	return err
}

func TestServerHostKilled(t *testing.T) {
	leak.Check(t)
	zygoteSpec(t, "-c") // skips where there is none
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, guard := range []string{"no", "yes"} {
		child, host := readPipe(t)
		cmd := helperCommand(t, "serverhost", "GUARD="+guard, "ZYGOTE_FOLDER="+folder)
		cmd.ExtraFiles = []*os.File{child}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		child.Close()
		readLine(t, host)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		awaitEOF(t, host, 20*soon)
	}
}
