package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/worker"
)

// serve is a worker that streams the time at which it writes, and one more piece.
func serve(protocol string) {
	switch protocol {
	case "frames":
		worker.Main(worker.Config{Handlers: map[string]bullpen.Handler{"*": bullpen.Stream(
			func(_ context.Context, _ bullpen.Task, w io.Writer) error {
				return stream(w, func() error { return nil })
			})}})
	case "lambda":
		lambda.Start(func(json.RawMessage) (io.Reader, error) {
			r, w := io.Pipe()
			go func() { _ = w.CloseWithError(stream(w, func() error { return nil })) }() // ends with the response
			return r, nil
		})
	case "http":
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = stream(w, http.NewResponseController(w).Flush)
		})
		fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), handler))
		os.Exit(1)
	}
}

// pause is how long a worker waits after the first piece, as one does that works on.
const pause = 2 * time.Millisecond

func stream(w io.Writer, flush func() error) error {
	_, err := io.WriteString(w, strconv.FormatInt(time.Now().UnixNano(), 10))
	err = errors.Join(err, flush())
	<-time.After(pause)
	_, last := io.WriteString(w, " end")
	return errors.Join(err, last)
}

// daemon is bullpen serve with a pool for each protocol, named like it.
type daemon struct {
	command *exec.Cmd
	dir     string
	url     string
	said    bytes.Buffer
}

func start(ctx context.Context) (d *daemon, err error) {
	d = &daemon{}
	if d.dir, err = os.MkdirTemp("", "bench-stream-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.stop())
		}
	}()
	program := filepath.Join(d.dir, "bullpen")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/bullpen-run/bullpen/cmd/bullpen")
	build.Dir = ".." // the bench module does not have all that the program imports
	if said, err := build.CombinedOutput(); err != nil {
		return d, fmt.Errorf("building bullpen: %w: %s", err, said)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return d, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return d, err
	}
	exe, err := os.Executable()
	if err != nil {
		return d, err
	}
	config := fmt.Sprintf("http: {listen: %q}\npools:\n", address)
	for _, protocol := range protocols {
		config += fmt.Sprintf("  %s: {command: [%q, %s], protocol: %s, ephemeral: true, workers: {min: 1, max: 1}}\n", protocol, exe, protocol, protocol)
	}
	if err := os.WriteFile(filepath.Join(d.dir, "bullpen.yaml"), []byte(config), 0o600); err != nil {
		return d, err
	}
	d.url = "http://" + address
	d.command = exec.CommandContext(ctx, program, "serve")
	d.command.Dir, d.command.Stderr = d.dir, &d.said
	if err := d.command.Start(); err != nil {
		return d, err
	}
	return d, d.await(ctx)
}

// await waits until the daemon is ready.
func (d *daemon) await(ctx context.Context) error {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for range 4000 {
		if r, err := d.call(ctx, http.MethodGet, "/readyz", ""); err == nil {
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return nil
			}
		}
		<-look.C
	}
	return errors.New("bullpen serve does not become ready")
}

// stop ends the daemon and removes its folder.
func (d *daemon) stop() error {
	if d.command != nil && d.command.Process != nil {
		_ = d.command.Process.Signal(syscall.SIGTERM)
		if err := d.command.Wait(); err != nil {
			return fmt.Errorf("bullpen serve: %w: %s", err, &d.said)
		}
	}
	return os.RemoveAll(d.dir)
}

func (d *daemon) call(ctx context.Context, method, path, accept string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, d.url+path, strings.NewReader("{}"))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", accept)
	return http.DefaultClient.Do(r)
}

// first runs a task, and returns how long its first piece took.
func (d *daemon) first(ctx context.Context, pool string) (took time.Duration, err error) {
	r, err := d.call(ctx, http.MethodPost, "/v1/pools/"+pool+"/run?chunks=true", "text/event-stream")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Body.Close()) }()
	in := bufio.NewScanner(r.Body)
	kind, ended := "", false
	for in.Scan() {
		now := time.Now()
		if event, ok := strings.CutPrefix(in.Text(), "event: "); ok {
			kind = event
			ended = ended || kind == "result"
		}
		data, ok := strings.CutPrefix(in.Text(), "data: ")
		if !ok || kind != "chunk" || took > 0 {
			continue
		}
		var piece struct {
			Payload []byte `json:"payload_base64"`
		}
		if err := json.Unmarshal([]byte(data), &piece); err != nil {
			return 0, err
		}
		first, _, _ := strings.Cut(string(piece.Payload), " ") // a late piece may have the next one in it
		at, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("the first piece is %q: %w", piece.Payload, err)
		}
		took = time.Duration(now.UnixNano() - at)
	}
	if took == 0 || !ended {
		err = fmt.Errorf("%s: no piece, or no result", r.Status)
	}
	return took, errors.Join(err, in.Err())
}
