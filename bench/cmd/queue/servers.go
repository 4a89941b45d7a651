package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// serverUser is who PostgreSQL runs as: it refuses to be root.
const serverUser = "postgres"

// serverStart bounds the start of a server, and serverStop its end.
const (
	serverStart = 20 * time.Second
	serverStop  = 30 * time.Second
)

// serverProcess is a program that runs while the cells that need it do.
type serverProcess struct {
	cmd     *exec.Cmd
	address string // host:port
	said    *bytes.Buffer
	gentle  syscall.Signal
	ended   chan error // once, when the process has ended
}

// startRedis starts a Redis with nothing in it, on a port and in a folder of its own.
func startRedis(ctx context.Context, folder, fsync string) (*serverProcess, error) {
	dir := filepath.Join(folder, "redis")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	s := &serverProcess{address: "127.0.0.1:" + port, gentle: syscall.SIGTERM,
		cmd: exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--daemonize", "no", "--save", "",
			"--appendonly", "yes", "--appendfsync", fsync, "--auto-aof-rewrite-percentage", "0", "--loglevel", "warning")}
	return s, s.start(ctx, func() error { return pingRedis(s.address) })
}

func pingRedis(address string) error {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	said := make([]byte, 64)
	n, err := conn.Read(said)
	if err == nil && !strings.HasPrefix(string(said[:n]), "+PONG") {
		err = fmt.Errorf("Redis answers %q", said[:n])
	}
	return err
}

// postgresBin gives the folder of PostgreSQL's programs, the newest of those of
// Debian first.
func postgresBin() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	slices.SortFunc(found, func(a, b string) int { return strings.Compare(fmt.Sprintf("%40s", b), fmt.Sprintf("%40s", a)) })
	if len(found) > 0 {
		return filepath.Dir(found[0]), nil
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return "", fmt.Errorf("PostgreSQL is not installed (apt-get install postgresql): %w", err)
	}
	return filepath.Dir(path), nil
}

// asServerUser lets cmd run as the user postgres where this is root, and gives that
// user the folder.
func asServerUser(cmd *exec.Cmd, folder string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup(serverUser)
	if err != nil {
		return fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return err
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	cmd.Dir = "/"
	return os.Chown(folder, int(uid), int(gid))
}

// startPostgres makes a new database and starts its server.
func startPostgres(ctx context.Context, folder string) (*serverProcess, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(folder, "postgres")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	make := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "--pgdata", data, "--username", serverUser, "--auth", "trust", "--encoding", "UTF8", "--no-locale")
	if err := asServerUser(make, data); err != nil {
		return nil, err
	}
	if out, err := make.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, tail(out))
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	args := []string{"-D", data}
	for _, set := range []string{"port=" + port, "listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200",
		"fsync=on", "synchronous_commit=on", "shared_buffers=512MB", "max_wal_size=4GB", "checkpoint_timeout=30min"} {
		args = append(args, "-c", set)
	}
	s := &serverProcess{address: "127.0.0.1:" + port, gentle: syscall.SIGINT, cmd: exec.Command(filepath.Join(bin, "postgres"), args...)}
	if err := asServerUser(s.cmd, data); err != nil {
		return nil, err
	}
	return s, s.start(ctx, func() error {
		return exec.CommandContext(ctx, filepath.Join(bin, "pg_isready"), "-q", "-h", "127.0.0.1", "-p", port).Run()
	})
}

// postgresURL is where the server of that address is.
func postgresURL(address string) string {
	return "postgres://" + serverUser + "@" + address + "/postgres?sslmode=disable"
}

// start starts the program and waits until ready gives nil.
func (s *serverProcess) start(ctx context.Context, ready func() error) error {
	s.said = &bytes.Buffer{}
	s.cmd.Stdout, s.cmd.Stderr = s.said, s.said
	if s.cmd.SysProcAttr == nil {
		s.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// Not in the group of the terminal: its interrupt is for the driver, which stops
	// the server. The signal is for the case that the driver is killed.
	s.cmd.SysProcAttr.Setpgid, s.cmd.SysProcAttr.Pdeathsig = true, s.gentle
	s.cmd.WaitDelay = time.Second
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.ended = make(chan error, 1)
	// Started here, ends with the process; stop waits for it.
	go func() { s.ended <- s.cmd.Wait() }()
	deadline := time.NewTimer(serverStart)
	defer deadline.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case died := <-s.ended:
			return fmt.Errorf("%s ended at its start: %w: %s", filepath.Base(s.cmd.Path), died, tail(s.said.Bytes()))
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-deadline.C:
		case <-time.After(20 * time.Millisecond):
			continue
		}
		return errors.Join(fmt.Errorf("%s is not ready: %w", filepath.Base(s.cmd.Path), err), s.stop())
	}
}

// stop ends the server and waits for it.
func (s *serverProcess) stop() error {
	_ = s.cmd.Process.Signal(s.gentle) // it may have ended
	select {
	case <-s.ended:
		return nil
	case <-time.After(serverStop):
	}
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	<-s.ended
	return fmt.Errorf("%s had to be killed: it did not end within %v", filepath.Base(s.cmd.Path), serverStop)
}

// freePort gives a port of the loopback interface that is free now.
func freePort(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// tail is the end of what a program has said.
func tail(out []byte) []byte {
	out = bytes.TrimSpace(out)
	return out[max(0, len(out)-600):]
}
