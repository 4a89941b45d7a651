package process

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/bullpen-run/bullpen/internal/confine"
	"github.com/bullpen-run/bullpen/internal/wire"
)

// rest reads a pipe until its end. After the read deadline it does not wait, but reads what
// is already there: a host with no processor to spare may come to read only then. That may
// be lastBytes at most, as a process that has detached itself may go on writing.
type rest struct {
	*os.File

	after int // bytes read after the deadline
}

// Read is io.Reader.
func (r *rest) Read(b []byte) (n int, err error) {
	n, err = r.File.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) || r.after >= lastBytes {
		return n, err
	}
	conn, broken := r.SyscallConn()
	if broken != nil {
		return 0, err
	}
	var now error
	broken = conn.Control(func(fd uintptr) { n, now = wire.ReadNow(fd, b) })
	switch {
	case broken != nil || errors.Is(now, wire.ErrAgain):
		return 0, err
	case now != nil:
		return 0, now
	}
	r.after += n
	return n, nil
}

// ends are the two ends of one pipe.
type ends struct{ child, host *os.File }

// pipes are the pipes of one process: the channel to it, the channel from it, and its
// two output streams. It has only those that its driver opens.
type pipes struct{ in, out, stdout, stderr ends }

// open opens some of the pipes.
func (p *pipes) open(some ...*ends) (err error) {
	for _, e := range some {
		pipe := confine.HostReadPipe
		if e == &p.in {
			pipe = confine.HostWritePipe
		}
		if e.child, e.host, err = pipe(); err != nil {
			return err
		}
	}
	return nil
}

func (p *pipes) closeChild() {
	for _, e := range []ends{p.in, p.out, p.stdout, p.stderr} {
		if e.child != nil {
			_ = e.child.Close()
		}
	}
}

func (p *pipes) closeHost() {
	for _, e := range []ends{p.in, p.out, p.stdout, p.stderr} {
		if e.host != nil {
			_ = e.host.Close()
		}
	}
}

// standard opens the channel on standard input and output.
func (p *pipes) standard() ([]*os.File, error) {
	err := p.open(&p.in, &p.out, &p.stderr)
	return []*os.File{p.in.child, p.out.child, p.stderr.child}, err
}

// frames opens the channel on descriptors of its own if they can be inherited, and
// returns the value of BULLPEN_WORKER.
func (p *pipes) frames(memory *confine.Memory) (_ []*os.File, channel string, _ error) {
	if !inherits {
		files, err := p.standard()
		return files, "v1,in=0,out=1", err
	}
	if err := p.open(&p.in, &p.out, &p.stdout, &p.stderr); err != nil {
		return nil, "", err
	}
	files := []*os.File{nil, p.stdout.child, p.stderr.child, p.in.child, p.out.child}
	channel = "v1,in=3,out=4"
	if memory != nil {
		files = append(files, memory.File())
		channel += fmt.Sprintf(",mem=%d", len(files)-1)
	}
	return files, channel, nil
}

// with returns env with one more variable, and leaves env as it is.
func with(env []string, variable string) []string { return append(slices.Clip(env), variable) }
