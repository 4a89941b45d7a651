package natstest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// anyPort lets the server take a free port.
const anyPort = "127.0.0.1:-1"

// nowhere is an address that refuses. The servers tell each other's addresses;
// with this one they go by the links alone, which can be cut.
const nowhere = "127.0.0.1:1"

const (
	// startPatience bounds how long a server may take until it listens, poll is how
	// often is looked.
	startPatience = 30 * time.Second
	poll          = 10 * time.Millisecond
	// lastLines is how many lines of a log are shown.
	lastLines = 60
)

// server is one process, or the place of one that does not run.
type server struct {
	name, dir string
	c         Config
	routes    []string // addresses of the links to the others

	// Where it listens. It keeps these over restarts.
	client, cluster, monitor string

	cmd    *exec.Cmd     // nil while it does not run
	ended  chan struct{} // closed when the process has ended
	paused bool
}

func (s *server) path(name string) string { return filepath.Join(s.dir, name) }

// config is what the server reads.
func (s *server) config() string {
	var b strings.Builder
	fmt.Fprintf(&b, "server_name: %s\nlisten: %q\nhttp: %q\nports_file_dir: %q\n", s.name, s.client, s.monitor, s.dir)
	sync := "always"
	if s.c.Lazy {
		sync = "2m"
	}
	fmt.Fprintf(&b, "jetstream: {store_dir: %q, sync_interval: %q}\n", s.path("store"), sync)
	if len(s.routes) > 0 {
		fmt.Fprintf(&b, "cluster: {name: test, listen: %q, advertise: %q, no_advertise: true, routes: [\n", s.cluster, nowhere)
		for _, r := range s.routes {
			fmt.Fprintf(&b, "  \"nats-route://%s\"\n", r)
		}
		b.WriteString("]}\n")
	}
	return b.String() + s.c.Extra + "\n"
}

// start returns when the server listens. A port that it had may be taken for a
// moment by a connection of another program; then it is tried again.
func (s *server) start() error {
	if s.cmd != nil {
		return fmt.Errorf("%s runs already", s.name)
	}
	if err := os.WriteFile(s.path("nats.conf"), []byte(s.config()), 0o600); err != nil {
		return err
	}
	end := time.Now().Add(startPatience)
	for {
		err := s.try(end)
		if err == nil || time.Now().After(end) {
			return err
		}
		s.kill()
		<-time.After(poll)
	}
}

// try starts the process and waits for its ports.
func (s *server) try(end time.Time) error {
	program, err := binary()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, "-c", s.path("nats.conf"))
	cmd.Stdout, cmd.Stderr = log, log
	endsWithUs(cmd)
	started, ended := make(chan error, 1), make(chan struct{})
	go func() { // ends with the process, which kill and stop wait for
		defer close(ended)
		// The system ends the process when this thread ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.cmd, s.ended, s.paused = cmd, ended, false
	for {
		switch err := s.readPorts(); {
		case err == nil:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%s does not listen within %v: %w", s.name, startPatience, err)
		}
		select {
		case <-time.After(poll):
		case <-ended:
			return fmt.Errorf("%s has ended at its start: see its log", s.name)
		}
	}
}

// readPorts reads where the server listens, from the file that it writes then.
func (s *server) readPorts() error {
	name := fmt.Sprintf("%s_%d.ports", filepath.Base(s.cmd.Path), s.cmd.Process.Pid)
	text, err := os.ReadFile(s.path(name))
	if err != nil {
		return err
	}
	var p struct{ Nats, Cluster, Monitoring []string }
	if err := json.Unmarshal(text, &p); err != nil {
		return err // it is being written
	}
	for _, a := range []struct {
		to   *string
		from []string
		must bool
	}{{&s.client, p.Nats, true}, {&s.monitor, p.Monitoring, true}, {&s.cluster, p.Cluster, len(s.routes) > 0}} {
		if !a.must {
			continue
		}
		if len(a.from) == 0 {
			return errors.New("a port is missing in " + name)
		}
		u, err := url.Parse(a.from[0])
		if err != nil {
			return err
		}
		*a.to = u.Host
	}
	return nil
}

// kill ends the process at once, and waits for its end.
func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended by itself
	<-s.ended
	s.cmd = nil
}

// stop lets the process end in order, and waits for its end.
func (s *server) stop() error {
	if s.cmd == nil {
		return nil
	}
	if err := terminate(s.cmd.Process); err != nil {
		return fmt.Errorf("stopping %s: %w", s.name, err)
	}
	select {
	case <-s.ended:
		s.cmd = nil
		return nil
	case <-time.After(startPatience):
		s.kill()
		return fmt.Errorf("%s does not stop within %v", s.name, startPatience)
	}
}

// tail returns the end of the log.
func (s *server) tail() string {
	text, err := os.ReadFile(s.path("log"))
	if err != nil {
		return err.Error()
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	return string(bytes.Join(lines[max(len(lines)-lastLines, 0):], nil))
}
