package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The oldest kernel whose syncfs reports failed writes.
const oldestMajor, oldestMinor = 5, 8

// canGroup returns nil, or why one syncfs cannot confirm a group here. It looks
// at what can be known before the server runs.
func canGroup(s *system, fs fileSystem, fd int) error {
	release, err := s.kernel()
	if err != nil {
		return err
	}
	if !kernelAtLeast(release, oldestMajor, oldestMinor) {
		return fmt.Errorf("the kernel is %s, and syncfs reports failed writes since %d.%d only", release, oldestMajor, oldestMinor)
	}
	if !fs.groups {
		return fmt.Errorf("the file system is %s: %s", fs.name, fs.why)
	}
	if err := s.syncfs(fd); err != nil {
		return fmt.Errorf("syncfs does not work on this folder: %w", err)
	}
	return nil
}

// kernelAtLeast reads a release such as "6.1.0-9-amd64".
func kernelAtLeast(release string, major, minor int) bool {
	number := func(text string) (n int, rest string, ok bool) {
		end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			end = len(text)
		}
		n, err := strconv.Atoi(text[:end])
		return n, text[end:], err == nil
	}
	a, rest, ok := number(release)
	rest, dot := strings.CutPrefix(rest, ".")
	if !ok || !dot {
		return false
	}
	b, _, ok := number(rest)
	return ok && (a > major || a == major && b >= minor)
}

// The self test has a server and a folder of its own, so that it leaves no trace
// in the store: a server takes away the folder of all streams some time after
// the last one was deleted, even if the next one is in the making.
const (
	probeDir     = "probe"
	probeStream  = "PROBE"
	probeSubject = "probe"
)

// selfTest finds out whether a server has handed a message to the kernel when it
// confirms it: only then is syncfs enough. It stores random bytes and looks for
// them in the files. late is closed when a server that did not start in time has
// stopped; else it is nil.
func selfTest(ctx context.Context, c Config, fd int) (late <-chan struct{}, err error) {
	c.Dir = filepath.Join(c.Dir, probeDir)
	if err := os.RemoveAll(c.Dir); err != nil {
		return nil, fmt.Errorf("the self test has no folder: %w", err)
	}
	if err := os.Mkdir(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("the self test has no folder: %w", err)
	}
	s, late, err := startServer(ctx, c, false, &serverLog{log: c.Logger, failure: newFailure()})
	if err == nil {
		err = probe(ctx, s, func(bytes []byte) error {
			return c.instead.holds(filepath.Join(c.Dir, serverDir), fd, bytes)
		})
		stopServer(s)
	}
	if late == nil {
		err = errors.Join(err, os.RemoveAll(c.Dir))
	}
	return late, err
}

// probe stores random bytes with s and looks for them.
func probe(ctx context.Context, s *server.Server, held func(bytes []byte) error) error {
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.Name("self test"), nats.NoReconnect())
	if err != nil {
		return fmt.Errorf("the self test got no connection: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: probeStream, Subjects: []string{probeSubject}, Storage: jetstream.FileStorage, Replicas: 1,
		})
	}
	if err != nil {
		return fmt.Errorf("the self test got no stream: %w", err)
	}
	nonce := []byte(rand.Text() + rand.Text())
	if _, err = js.Publish(ctx, probeSubject, nonce); err == nil {
		err = held(nonce)
	}
	if err != nil {
		return fmt.Errorf("the self test failed, the server may confirm before it writes: %w", err)
	}
	return nil
}

var errNotHeld = errors.New("a confirmed message is in none of the server's files")

// filesHold looks for bytes in the files of the probe.
func filesHold(dir string, fd int, bytes []byte) error {
	files, err := filepath.Glob(filepath.Join(dir, "*", "streams", probeStream, "msgs", "*"))
	if err != nil {
		return err
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), string(bytes)) {
			continue // it may have gone meanwhile
		}
		info, err := os.Stat(path)
		if err == nil && !sameDevice(info, fd) {
			err = errors.New("the server's files are on another file system than the folder of the store")
		}
		return err
	}
	return errNotHeld
}
