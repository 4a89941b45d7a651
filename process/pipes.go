package process

import (
	"errors"
	"fmt"
	"os"

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

// pipes are the pipes of one worker: the channel to it, the channel from it, and its
// two output streams.
type pipes struct {
	in, out, stdout, stderr ends
	onStdio                 bool // the protocol runs over the standard streams
}

func (p *pipes) open() (err error) {
	if p.in.child, p.in.host, err = confine.HostWritePipe(); err != nil {
		return err
	}
	for _, e := range []*ends{&p.out, &p.stdout, &p.stderr} {
		if e.child, e.host, err = confine.HostReadPipe(); err != nil {
			return err
		}
	}
	return nil
}

// openExec opens the pipes of an Exec process.
func (p *pipes) openExec(input bool) (err error) {
	if input {
		if p.in.child, p.in.host, err = confine.HostWritePipe(); err != nil {
			return err
		}
	}
	for _, e := range []*ends{&p.stdout, &p.stderr} {
		if e.child, e.host, err = confine.HostReadPipe(); err != nil {
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

// standard puts the channel on standard input and output.
func (p *pipes) standard() []*os.File {
	p.onStdio = true
	return []*os.File{p.in.child, p.out.child, p.stderr.child}
}

// frames puts the channel on descriptors of its own if they can be inherited, and
// returns the value of BULLPEN_WORKER.
func (p *pipes) frames(memory *confine.Memory) ([]*os.File, string) {
	if !inherits {
		return p.standard(), "v1,in=0,out=1"
	}
	files := []*os.File{nil, p.stdout.child, p.stderr.child, p.in.child, p.out.child}
	channel := "v1,in=3,out=4"
	if memory != nil {
		files = append(files, memory.File())
		channel += fmt.Sprintf(",mem=%d", len(files)-1)
	}
	return files, channel
}
