package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// pipes is a network without sockets, so that its time can be that of a test.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.IPAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// bubble runs a test with a server in a bubble of its own time.
func bubble(t *testing.T, c client.Config, answer http.HandlerFunc, test func(t *testing.T, c *client.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		server := &http.Server{Handler: answer, ReadHeaderTimeout: time.Hour}
		served := make(chan error, 1)
		go func() { served <- server.Serve(network) }() // ends with Close below, which is waited for
		if c.Dial == nil {
			c.Dial = network.dial
		}
		made, err := client.New(c)
		if err != nil {
			t.Fatal(err)
		}
		test(t, made)
		made.Close()
		_ = server.Close()
		<-served
	})
}

func answerProblem(w http.ResponseWriter, status int, cause, more string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"urn:bullpen:problem:%s","title":"T","status":%d,"cause":%q%s}`, cause, status, cause, more)
}

// hijack breaks the connection of a request.
func hijack(w http.ResponseWriter) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		c.Close()
	}
}

// trouble is a call to a daemon that has trouble, and what is to come of it.
type trouble struct {
	call    func(context.Context, *client.Client) error
	trouble func(http.ResponseWriter)
	times   int // that there is trouble
	asked   int // requests in all
	want    error
	atLeast time.Duration
}

func troubles() map[string]trouble {
	enqueue := func(key string) func(context.Context, *client.Client) error {
		return func(ctx context.Context, c *client.Client) error {
			_, err := c.Enqueue(ctx, job.Job{Queue: "p", Key: key, Payload: []byte("again")})
			return err
		}
	}
	get := func(ctx context.Context, c *client.Client) error { _, err := c.Get(ctx, "01J"); return err }
	scale := func(ctx context.Context, c *client.Client) error {
		_, err := c.ReloadPool(ctx, "p")
		return err
	}
	overloaded := func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "5")
		answerProblem(w, 429, "overloaded", "")
	}
	says := func(status int, cause string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { answerProblem(w, status, cause, "") }
	}
	gateway := func(w http.ResponseWriter) { w.WriteHeader(502); _, _ = io.WriteString(w, "<html>no upstream") }
	return map[string]trouble{
		"overloaded, then not":            {enqueue(""), overloaded, 2, 3, nil, 10 * time.Second},
		"always overloaded":               {enqueue(""), overloaded, 99, 4, bullpen.ErrOverloaded, 15 * time.Second},
		"closed":                          {enqueue(""), says(503, "closed"), 99, 4, bullpen.ErrClosed, 0},
		"no pool":                         {enqueue(""), says(404, "unknown-pool"), 99, 1, client.ErrUnknownPool, 0},
		"broken, without a key":           {enqueue(""), hijack, 99, 1, job.ErrUnconfirmed, 0},
		"broken, with a key":              {enqueue("k"), hijack, 2, 3, nil, 0},
		"always broken, with a key":       {enqueue("k"), hijack, 99, 4, job.ErrUnconfirmed, 0},
		"unconfirmed, without a key":      {enqueue(""), says(503, "unconfirmed"), 99, 1, job.ErrUnconfirmed, 0},
		"unconfirmed, with a key":         {enqueue("k"), says(503, "unconfirmed"), 1, 2, nil, 0},
		"fault of the daemon":             {enqueue("k"), says(500, "internal"), 99, 1, job.ErrUnconfirmed, 0},
		"a proxy that fails, without key": {enqueue(""), gateway, 99, 1, job.ErrUnconfirmed, 0},
		"a proxy that fails, with a key":  {enqueue("k"), gateway, 1, 2, nil, 0},
		"a read that breaks":              {get, hijack, 3, 4, nil, 0},
		"a read through a failing proxy":  {get, gateway, 1, 2, nil, 0},
		"a change that breaks":            {scale, hijack, 99, 1, job.ErrUnconfirmed, 0},
	}
}

// TestTriesAgain says which calls are tried again after what, and how long that
// takes.
func TestTriesAgain(t *testing.T) {
	t.Parallel()
	for name, c := range troubles() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			bubble(t, client.Config{Retries: 3}, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if asked.Add(1) <= int64(c.times) {
					c.trouble(w)
					return
				}
				if strings.HasSuffix(r.URL.Path, "/jobs") && string(body) != "again" {
					t.Errorf("the body of another try is %q", body)
				}
				w.WriteHeader(202)
				_, _ = io.WriteString(w, jobText)
			}, func(t *testing.T, caller *client.Client) {
				t.Helper()
				begun := time.Now()
				err := c.call(t.Context(), caller)
				if !errors.Is(err, c.want) || c.want == nil && err != nil {
					t.Errorf("the call gives %v, want %v", err, c.want)
				}
				if n := int(asked.Load()); n != c.asked {
					t.Errorf("the daemon was asked %d times, want %d", n, c.asked)
				}
				if took := time.Since(begun); took < c.atLeast {
					t.Errorf("it took %v, want %v at least: Retry-After says so", took, c.atLeast)
				}
			})
		})
	}
}

// TestUnconfirmedStays: after a try that may have been done, one that was not leaves the
// job unconfirmed.
func TestUnconfirmedStays(t *testing.T) {
	t.Parallel()
	for name, enqueue := range map[string]func(context.Context, *client.Client) error{
		"Enqueue": func(ctx context.Context, c *client.Client) error {
			_, err := c.Enqueue(ctx, job.Job{Queue: "p", Key: "k"})
			return err
		},
		"EnqueueAll": func(ctx context.Context, c *client.Client) error {
			_, err := c.EnqueueAll(ctx, []job.Job{{Queue: "p", Key: "k"}})
			return err
		},
	} {
		var asked atomic.Int64
		bubble(t, client.Config{Retries: 3}, func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) == 1 {
				hijack(w)
				return
			}
			answerProblem(w, 503, "closed", "")
		}, func(t *testing.T, c *client.Client) {
			t.Helper()
			if err := enqueue(t.Context(), c); !errors.Is(err, job.ErrUnconfirmed) || !errors.Is(err, bullpen.ErrClosed) {
				t.Errorf("%s gives %v, want ErrUnconfirmed, and why it was not done again", name, err)
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	var dials atomic.Int64
	c := client.Config{Retries: 2, Dial: func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, refused
	}}
	bubble(t, c, nil, func(t *testing.T, c *client.Client) {
		t.Helper()
		_, err := c.Enqueue(t.Context(), job.Job{Queue: "p"})
		var e *client.Error
		if !errors.Is(err, client.ErrUnreachable) || !errors.Is(err, refused) || errors.Is(err, job.ErrUnconfirmed) || !errors.As(err, &e) || e.Status != 0 {
			t.Errorf("Enqueue() = %v, want ErrUnreachable alone", err)
		}
		if n := dials.Load(); n != 3 {
			t.Errorf("it was tried %d times, want 3", n)
		}
		_, err = c.RunEphemeral(t.Context(), "p", bullpen.Task{})
		if _, started := bullpen.OutcomeOf(err); started || !errors.Is(err, client.ErrUnreachable) || !errors.Is(err, bullpen.ErrStart) {
			t.Errorf("RunEphemeral() = %v, want ErrUnreachable and ErrStart", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		begun := time.Now()
		if _, err = c.Enqueue(ctx, job.Job{Queue: "p"}); err == nil || time.Since(begun) > 30*time.Millisecond {
			t.Errorf("with a deadline Enqueue gives %v after %v", err, time.Since(begun))
		}
	})
}

func TestNoAnswerInTime(t *testing.T) {
	t.Parallel()
	bubble(t, client.Config{Timeout: 3 * time.Second, Wait: time.Minute, Retries: -1}, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}, func(t *testing.T, c *client.Client) {
		t.Helper()
		for _, call := range []struct {
			do    func(context.Context) error
			after time.Duration
		}{
			{func(ctx context.Context) error { _, err := c.Enqueue(ctx, job.Job{Queue: "p"}); return err }, 3 * time.Second},
			{func(ctx context.Context) error { _, err := c.Wait(ctx, "01J"); return err }, 63 * time.Second},
		} {
			begun := time.Now()
			err := call.do(t.Context())
			if took := time.Since(begun); !errors.Is(err, job.ErrUnconfirmed) || errors.Is(err, context.DeadlineExceeded) || took != call.after {
				t.Errorf("the call gives %v after %v, want %v", err, took, call.after)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Wait(ctx, "01J"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, job.ErrUnconfirmed) {
			t.Errorf("Wait() with a deadline = %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Enqueue(ctx, job.Job{Queue: "p"}); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, job.ErrUnconfirmed) {
			t.Errorf("Enqueue() with a deadline = %v, want the cause, and that it is not confirmed", err)
		}
	})
}

func TestKeysAreMadeWhereAsked(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	tries := 0
	c := scripted(t, client.Config{Keys: true}, func(w http.ResponseWriter, r *http.Request) {
		seen[r.URL.Query().Get("key")]++
		if tries++; tries == 1 {
			hijack(w)
			return
		}
		w.WriteHeader(202)
		_, _ = io.WriteString(w, refText)
	})
	for range 2 {
		if _, err := c.Enqueue(t.Context(), job.Job{Queue: "p"}); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 2 || seen[""] != 0 {
		t.Errorf("two jobs were given with the keys %v, want two, the first of them twice", seen)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	for _, chunked := range []bool{false, true} {
		c := scripted(t, client.Config{MaxResult: 100}, func(w http.ResponseWriter, r *http.Request) {
			n, _ := strconv.Atoi(r.URL.Path[strings.LastIndexByte(r.URL.Path[:len(r.URL.Path)-len("/payload")], '/')+1 : len(r.URL.Path)-len("/payload")])
			if chunked {
				w.(http.Flusher).Flush()
			}
			_, _ = w.Write(make([]byte, n))
		})
		if p, err := c.Payload(t.Context(), "100"); err != nil || len(p) != 100 {
			t.Errorf("an answer just of the bound: %d bytes, %v", len(p), err)
		}
		if _, err := c.Payload(t.Context(), "101"); !errors.Is(err, client.ErrTooLarge) {
			t.Errorf("an answer beyond the bound gives %v, want ErrTooLarge", err)
		}
	}
}
