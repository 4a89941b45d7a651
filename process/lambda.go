package process

import (
	"cmp"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/confine"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/internal/wire/lambda"
	"github.com/bullpen-run/bullpen/protocol"
)

// LambdaWorker configures workers that speak the Lambda Runtime API. The zero value suits
// most functions. Each worker gets an address of its own in AWS_LAMBDA_RUNTIME_API and the
// other variables that the runtime clients of AWS expect, unless Env sets them; with
// Concurrency above 1, AWS_LAMBDA_MAX_CONCURRENCY too. The function's name is the pool's.
type LambdaWorker struct {
	// Handler is the value of _HANDLER; empty means the last argument of Command. Most
	// clients take the handler from their arguments instead.
	Handler string
}

// Keys of a task's Meta that its invocation passes on.
const (
	// MetaLambdaClient has the client context, as JSON.
	MetaLambdaClient = "lambda.client-context"
	// MetaLambdaIdentity has the Cognito identity, as JSON.
	MetaLambdaIdentity = "lambda.cognito-identity"
	// MetaLambdaARN has the ARN with which the function was invoked.
	MetaLambdaARN = "lambda.function-arn"
	// MetaLambdaRequest has the request ID, a UUID; by default the invocation gets one of
	// its own.
	MetaLambdaRequest = "lambda.request-id"
	// MetaLambdaTrace has the trace header of X-Ray; by default it is made of traceparent.
	MetaLambdaTrace = "lambda.trace-id"
)

const (
	// lambdaLeave is how long a worker has to exit once its poll is closed, lambdaExtended
	// one with an extension. Clients that run code of the function may ignore the signal.
	lambdaLeave    = 500 * time.Millisecond
	lambdaExtended = 2 * time.Second
	// noDeadline is the deadline of a task without one, from its start.
	noDeadline = 24 * time.Hour
)

// lambdaDriver drives a worker that polls for its tasks.
type lambdaDriver struct {
	direct

	server *lambda.Server // open writes it once, under Pool.mu
	exited chan struct{}  // closed by ended

	// Pool.mu guards the fields below.
	missing int64 // since when fewer tasks fit than should; 0 for never
}

func driveLambda(w *worker) driver {
	return &lambdaDriver{direct: direct{base: base{w}}, exited: make(chan struct{})}
}

func (d *lambdaDriver) open(spec *confine.Spec, made *pipes) error {
	c := d.w.pool.config
	if err := d.openNetwork(spec); err != nil {
		return err
	}
	// In the network of the host, other users of the machine can reach the port too.
	config := lambda.Config{Host: d, Concurrency: c.Concurrency, Admit: wire.CheckPeer}
	if d.private != nil {
		config.Admit = nil
		config.Listen = func() (net.Listener, error) { return d.private.Listen(privatePort) }
	}
	server, err := lambda.New(config)
	if err != nil {
		return err
	}
	d.w.pool.mu.Lock()
	d.server = server
	d.w.pool.mu.Unlock()
	if err := made.open(&made.stdout, &made.stderr); err != nil {
		return err
	}
	spec.Files = []*os.File{nil, made.stdout.child, made.stderr.child}
	spec.Env, err = c.lambdaEnv(spec.Env, server.Address(), d.w.name)
	return err
}

// lambdaEnv returns env with the variables that runtime clients need. Some clients do not
// start, or die with the first task, if one of them is missing.
func (r *resolved) lambdaEnv(env []string, address, worker string) ([]string, error) {
	dir := r.Dir
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return nil, err
		}
	}
	const mib, byDefault = 1 << 20, 128
	memory := byDefault
	if r.Limits.Memory > 0 {
		memory = max(1, int(r.Limits.Memory/mib))
	}
	vars := []string{
		"AWS_LAMBDA_RUNTIME_API=" + address,
		"_HANDLER=" + cmp.Or(r.Lambda.Handler, r.Command[len(r.Command)-1]),
		"LAMBDA_TASK_ROOT=" + dir,
		"LAMBDA_RUNTIME_DIR=" + dir,
		"AWS_LAMBDA_FUNCTION_NAME=" + r.Name,
		"AWS_LAMBDA_FUNCTION_VERSION=$LATEST",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=" + strconv.Itoa(memory),
		"AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/" + r.Name,
		"AWS_LAMBDA_LOG_STREAM_NAME=" + worker,
		"AWS_LAMBDA_INITIALIZATION_TYPE=on-demand",
		"AWS_REGION=" + lambdaRegion,
		"PYTHONUNBUFFERED=1",
		"TZ=:UTC",
	}
	if r.Concurrency > 1 {
		vars = append(vars, "AWS_LAMBDA_MAX_CONCURRENCY="+strconv.Itoa(r.Concurrency))
	}
	env = slices.Clip(env)
	for _, v := range vars {
		key, _, _ := strings.Cut(v, "=")
		switch i := slices.IndexFunc(env, func(e string) bool { return strings.HasPrefix(e, key+"=") }); {
		case i < 0:
			env = append(env, v)
		case key == "TZ" && !r.names("TZ"):
			env = slices.Concat(env[:i], env[i+1:], []string{v}) // the host's was passed on
		}
	}
	return env, nil
}

// names reports whether Env names the variable.
func (r *resolved) names(variable string) bool {
	return slices.ContainsFunc(r.Env, func(e string) bool { return e == variable || strings.HasPrefix(e, variable+"=") })
}

const lambdaRegion = "us-east-1"

// converse waits until the process has ended. Then it takes the answers that the process
// has sent.
func (d *lambdaDriver) converse() {
	<-d.exited
	unread := d.server.Close(d.w.pool.config.Grace)
	d.w.pool.mu.Lock()
	d.unread = unread
	d.w.pool.mu.Unlock()
}

func (d *lambdaDriver) ended() { close(d.exited) }

// close ends the server of a worker that did not start.
func (d *lambdaDriver) close() {
	if d.server != nil {
		d.server.Close(0)
	}
	d.direct.close()
}

// Polled makes room for one more task: a worker takes one only while it polls.
func (d *lambdaDriver) Polled() {
	w, p := d.w, d.w.pool
	p.mu.Lock()
	d.resize(p.now())
	starting := w.state.State() == WorkerStarting
	if !starting {
		now := p.now()
		p.serve(w, now)
		p.madeRoom()
	}
	mine := !starting && p.claim(w)
	p.mu.Unlock()
	switch {
	case starting:
		w.ready()
	case mine:
		d.send()
	}
}

// resize lets the pool assign as many tasks as the worker polls for, at most those that it
// was asked to run at a time: some clients have more polls. Pool.mu is held.
func (d *lambdaDriver) resize(now int64) {
	w, most := d.w, d.w.pool.config.Concurrency
	polls, flight := d.server.Waiting()
	w.concurrency, w.paused = min(most, max(1, polls+flight)), polls == 0
	switch {
	case polls+flight >= most:
		d.missing = 0
	case d.missing == 0:
		d.missing = now
	}
}

// send gives pending tasks to polls. If a connection has just broken, its task waits for the
// next poll.
func (d *lambdaDriver) send() {
	w, p := d.w, d.w.pool
	p.mu.Lock()
	for len(w.pending) > 0 && !w.broken {
		c := w.pending[0]
		if !d.server.Offer(p.invocation(c)) {
			break
		}
		w.pending = slices.Delete(w.pending, 0, 1)
		w.sentTo.Store(c.number) // before an answer can be accounted for, as Pool.mu is held
	}
	d.resize(p.now())
	p.release(w)
}

// takeBack takes back tasks that wait for a poll.
func (d *lambdaDriver) takeBack(first uint32, _ int64) {
	w, p := d.w, d.w.pool
	for _, c := range slices.Backward(slices.Clone(w.pending)) {
		if first != 0 && protocol.Before(c.number, first) {
			continue
		}
		w.pending = slices.DeleteFunc(w.pending, func(other *call) bool { return other == c })
		w.drop(c)
		p.replay(c)
	}
	if w.count == 0 {
		p.emptied(w, p.now())
	}
}

// invocation returns what the worker gets of c.
func (p *Pool) invocation(c *call) *lambda.Invocation {
	t := &c.task
	inv := &lambda.Invocation{
		Number: c.number, Payload: t.Payload, Limit: c.output, Timeout: c.timeout, Deadline: time.Now().Add(cmp.Or(c.timeout, noDeadline)),
		ID: t.Meta[MetaLambdaRequest], ARN: t.Meta[MetaLambdaARN], Trace: t.Meta[MetaLambdaTrace],
		Client: t.Meta[MetaLambdaClient], Identity: t.Meta[MetaLambdaIdentity],
	}
	if o, ok := t.Observer.(bullpen.ChunkObserver); ok {
		inv.Chunk = o.Chunk
	}
	if inv.ARN == "" {
		inv.ARN = p.config.arn
	}
	if inv.Trace == "" {
		inv.Trace = rayOf(t.Meta["traceparent"])
	}
	if len(inv.Payload) == 0 {
		inv.Payload = emptyEvent
	}
	return inv
}

// emptyEvent is the event of an invocation without a payload, as at AWS.
var emptyEvent = []byte("{}")

// rayOf returns the trace header of X-Ray for a traceparent of W3C Trace Context, or empty
// text for something else.
func rayOf(parent string) string {
	part := strings.Split(parent, "-")
	if len(part) < 4 || len(part[1]) != 32 || len(part[2]) != 16 {
		return ""
	}
	sampled := "0"
	if strings.HasSuffix(part[3], "1") {
		sampled = "1"
	}
	return "Root=1-" + part[1][:8] + "-" + part[1][8:] + ";Parent=" + part[2] + ";Sampled=" + sampled
}

// Process returns the process of the worker.
func (d *lambdaDriver) Process() (pid int, ended <-chan struct{}) {
	d.w.pool.mu.Lock()
	defer d.w.pool.mu.Unlock()
	return d.w.pid, d.exited
}

// Dropped takes a task back that the worker has not got.
func (d *lambdaDriver) Dropped(number uint32) {
	d.recount()
	d.answer(number, &wire.Message{Kind: protocol.Returned}, 0)
}

// Answered passes an answer to the pool.
func (d *lambdaDriver) Answered(inv *lambda.Invocation, a *lambda.Answer) {
	m := &wire.Message{Kind: protocol.Result, Body: a.Body, Size: a.Size}
	switch {
	case a.Broken:
		m = failed(bullpen.Protocol, failure{Message: "the worker asked for its next task instead of answering"}, 0, 0)
	case a.Died:
		m = failed(bullpen.Crashed, failure{Message: "the process of the worker that ran it died"}, 0, 0)
	case a.Failure != nil:
		m = failed(bullpen.Failed, *a.Failure, inv.Timeout, a.Ran)
	}
	d.recount()
	d.answer(inv.Number, m, a.Ran)
}

// recount is resize for an answer: the worker gets no task for it before it polls.
func (d *lambdaDriver) recount() {
	p := d.w.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	d.resize(p.now())
}

// Failed records why the worker cannot start. It then exits.
func (d *lambdaDriver) Failed(f *failure) {
	w, p := d.w, d.w.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.state.State() != WorkerStarting || w.fault != nil {
		return
	}
	w.fault = f
	w.tail.add(f.Error())
	if f.Stack != "" {
		for line := range strings.SplitSeq(f.Stack, "\n") {
			w.tail.add(line)
		}
	}
	w.overdueBy(p.now() + int64(p.config.Grace))
}

// tend replaces a worker that polls for fewer tasks than it should, for as long as a start
// may take. One that does not poll at all is killed.
func (d *lambdaDriver) tend(now int64) {
	w, p := d.w, d.w.pool
	patience := int64(p.config.StartTimeout)
	p.wakeBy(now + patience) // always, as a wake for each task would cost more
	if w.mute() && !w.broken && !d.server.Connected() {
		p.broke(w) // it has closed everything, and may hold a task for ever
	}
	if s := w.state.State(); d.missing == 0 || now < d.missing+patience || s != WorkerIdle && s != WorkerBusy {
		return
	}
	switch {
	case w.count == len(w.pending) && w.paused:
		p.kill(w, BySilence, nil)
	case p.config.Concurrency > 1:
		p.flag(w, ByItself)
	}
}

// leave closes the poll, at which every client exits, and signals those that do not read.
func (d *lambdaDriver) leave() {
	w := d.w
	if d.server == nil {
		return
	}
	patience := lambdaLeave
	if d.server.Extended() {
		patience = lambdaExtended
	}
	d.server.Release()
	d.direct.leave()
	if !w.exited {
		w.overdueBy(w.pool.now() + int64(patience))
	}
}
