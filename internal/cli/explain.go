package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// The additional exit statuses of commands that talk to a daemon.
const (
	exitDaemon   = 3   // the daemon is not reachable, or not ready
	exitMissing  = 4   // no such job or pool, or the daemon lacks the route
	exitRefused  = 5   // the token does not allow the call
	exitNotEnded = 124 // as in timeout(1)
)

// usageError is wrong usage that is found only when a command runs.
type usageError struct{ error }

// Unwrap returns the cause.
func (e usageError) Unwrap() error { return e.error }

// aboutPool is an error of a call that names a pool. It allows to suggest the nearest
// existing name.
type aboutPool struct {
	pool string
	error
}

// Unwrap returns the cause.
func (e aboutPool) Unwrap() error { return e.error }

func ofPool(pool string, err error) error {
	if err == nil {
		return nil
	}
	return aboutPool{pool, err}
}

// aboutJob is an error of a call that names a job.
type aboutJob struct {
	id string
	error
}

// Unwrap returns the cause.
func (e aboutJob) Unwrap() error { return e.error }

func ofJob(id string, err error) error {
	if err == nil {
		return nil
	}
	return aboutJob{id, err}
}

// explain returns the exit status for an error, and a message that ends with advice.
func (r *remote) explain(ctx context.Context, c *client.Client, err error) (code int, text string) {
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage, plain(err.Error())
	}
	if errors.Is(err, syscall.EPIPE) {
		return exitPipe, ""
	}
	if end, ok := errors.AsType[*job.EndError](err); ok {
		return exitFailed, endText(end)
	}
	if te, ok := errors.AsType[*bullpen.TaskError](err); ok {
		return exitFailed, plain(te.Error()) + detailText(te)
	}
	if e, ok := errors.AsType[*client.Error](err); ok {
		return r.explainAnswer(ctx, c, err, e)
	}
	return exitFailed, plain(err.Error())
}

// answers has advice for errors where the daemon's message does not name a command.
var advice = []struct {
	is   error
	code int
	text string // %s is the daemon's message
}{
	{client.ErrForbidden, exitRefused, "not allowed: %s"},
	{client.ErrBadRequest, exitUsage, "%s"},
	{client.ErrManaged, exitFailed, "%s"},
	{job.ErrIncomplete, exitFailed, "%s"},
	{job.ErrOverlap, exitFailed, "%s; see: bullpen schedule show NAME"},
	{job.ErrEnded, exitFailed, "%s; see: bullpen get %s"},
	{job.ErrPayloadGone, exitMissing, "%s"},
	{job.ErrNotEnded, exitFailed, "%s; see: bullpen get %s"},
	{client.ErrNotDead, exitFailed, "%s; only dead jobs can be retried; see: bullpen dead ls"},
	{client.ErrBadConfig, exitFailed, "the configuration has faults and was not loaded: %s; check it: bullpen serve --check"},
	{job.ErrFull, exitDaemon, "the queue is full: %s; see: bullpen pool ls"},
	{bullpen.ErrOverloaded, exitDaemon, "the daemon has no room now: %s; try again later, or see: bullpen top"},
	{bullpen.ErrClosed, exitDaemon, "the daemon is stopping or accepts no work: %s; see: bullpen status"},
	{bullpen.ErrStart, exitDaemon, "the workers do not start: %s"},
	{job.ErrStore, exitDaemon, "the store of the queue does not answer: %s; see: bullpen status"},
	{client.ErrInternal, exitDaemon, "internal error of the daemon: %s; see its log"},
	{job.ErrUnconfirmed, exitFailed, "it is unknown whether this was done: %s; with --key a job can be submitted again without being enqueued twice"},
}

// explainAnswer explains an error answer of the daemon, or the lack of an answer.
func (r *remote) explainAnswer(ctx context.Context, c *client.Client, err error, e *client.Error) (int, string) {
	switch {
	case errors.Is(e, client.ErrUnreachable):
		return exitDaemon, r.unreachable(e)
	case errors.Is(e, client.ErrAnswer):
		return exitDaemon, fmt.Sprintf("the server at %s is not a Bullpen daemon: %s; check --url", r.address(), wordsOf(e))
	case errors.Is(e, client.ErrUnauthorized):
		if r.tokenFile == "" && os.Getenv(envToken) == "" && os.Getenv(envTokenFile) == "" {
			return exitRefused, "the daemon requires a token: name its file with --token-file, or in $" + envTokenFile
		}
		return exitRefused, "the daemon rejected the token: " + wordsOf(e) + "; check --token-file, $" + envTokenFile + " and $" + envToken
	case errors.Is(e, client.ErrUnknownPool):
		return exitMissing, r.unknownPool(ctx, c, err)
	case errors.Is(e, job.ErrNotFound):
		if about, ok := errors.AsType[aboutJob](err); ok {
			return exitMissing, fmt.Sprintf("there is no job %q, or it is no longer kept; see: bullpen ls", about.id)
		}
		return exitMissing, wordsOf(e)
	}
	for _, a := range advice {
		if !errors.Is(e, a.is) {
			continue
		}
		if strings.Count(a.text, "%s") == 2 {
			about, _ := errors.AsType[aboutJob](err)
			return a.code, fmt.Sprintf(a.text, wordsOf(e), about.id)
		}
		return a.code, fmt.Sprintf(a.text, wordsOf(e))
	}
	return exitFailed, wordsOf(e)
}

// wordsOf returns the daemon's message on one line, followed by one line for each
// fault.
func wordsOf(e *client.Error) string {
	text := strings.TrimRight(e.Detail, ". ")
	if text == "" {
		text = e.Error()
	}
	text = plain(text)
	for _, f := range e.Faults {
		if !strings.Contains(e.Detail, f) {
			text += "\n  " + plain(f)
		}
	}
	return text
}

// unreachable explains why no connection was made, and how to start a daemon.
func (r *remote) unreachable(e *client.Error) string {
	where := r.address()
	var unknown x509.UnknownAuthorityError
	var wrongHost x509.HostnameError
	var record tls.RecordHeaderError
	switch {
	case errors.As(e.Err, &unknown):
		return fmt.Sprintf("the certificate of %s is signed by an unknown authority: name the authority's certificate with --ca FILE", where)
	case errors.As(e.Err, &wrongHost):
		return fmt.Sprintf("the certificate of %s is for another host: %s", where, plain(wrongHost.Error()))
	case errors.As(e.Err, &record):
		return fmt.Sprintf("%s does not speak TLS: use http://, or the port that does", where)
	}
	text := fmt.Sprintf("no daemon answers at %s", where)
	if e.Err != nil && !errors.Is(e.Err, syscall.ECONNREFUSED) {
		text += ": " + plain(e.Err.Error())
	}
	return text + "; start one: bullpen serve"
}

// unknownPool names the pool that was probably meant.
func (r *remote) unknownPool(ctx context.Context, c *client.Client, err error) string {
	about, ok := errors.AsType[aboutPool](err)
	if !ok {
		e, _ := errors.AsType[*client.Error](err)
		return wordsOf(e) + "; see: bullpen pool ls"
	}
	text := fmt.Sprintf("no such pool %q", plain(about.pool))
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if pools, err := c.Pools(ctx); err == nil {
		names := make([]string, len(pools))
		for i := range pools {
			names[i] = pools[i].Name
		}
		if near := nearest(about.pool, names); near != "" {
			text += fmt.Sprintf("; did you mean %q?", near)
			return text + " See: bullpen pool ls"
		}
	}
	return text + "; see: bullpen pool ls"
}

// endText describes a job that did not end well.
func endText(e *job.EndError) string {
	short := *e
	short.Task = nil
	if te := e.Task; te != nil {
		short.Message = causeOf(te)
	}
	if e.Attempts > 1 {
		short.Message = strings.TrimPrefix(short.Message+fmt.Sprintf(" (%d attempts)", e.Attempts), " ")
	}
	text := plain(short.Error())
	if e.Task != nil {
		text += detailText(e.Task)
	}
	switch {
	case e.ID == "" || e.Reason == job.TakenBack || e.Outcome == bullpen.Canceled:
	default:
		text += "\nSee: bullpen dead show " + e.ID + "; again: bullpen retry " + e.ID
	}
	return text
}

// causeOf returns why a task ended badly, without its name and its outcome.
func causeOf(te *bullpen.TaskError) string {
	short := *te
	short.Task, short.ID = "", ""
	return strings.TrimLeft(strings.TrimPrefix(short.Error(), "task "+te.Outcome.String()), ": ")
}

// detailText returns the worker's last lines of output, to follow the message.
func detailText(te *bullpen.TaskError) string {
	var b strings.Builder
	indentPlain(&b, te.Stack)
	if !strings.Contains(te.Stack, te.Detail) && !strings.HasSuffix(te.Message, te.Detail) {
		indentPlain(&b, te.Detail)
	}
	return strings.TrimRight(b.String(), "\n")
}

// indentPlain appends the last lines of an untrusted text, indented.
func indentPlain(b *strings.Builder, text string) {
	const most = 20
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for _, line := range lines[max(0, len(lines)-most):] {
		if line != "" {
			b.WriteString("\n  | " + plain(line))
		}
	}
}
