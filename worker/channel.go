package worker

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/bullpen-run/bullpen/protocol"
)

// variable is the name of the environment variable that names the channel.
const variable = "BULLPEN_WORKER"

// channel connects a worker with its host.
type channel struct {
	in, out *os.File
	memory  []byte // shared memory, or nil
}

// address is the value of the environment variable.
type address struct{ in, out, mem int } // mem is -1 without shared memory

// parseAddress parses the value of the variable. It ignores unknown parts.
func parseAddress(value string) (address, error) {
	version, rest, _ := strings.Cut(value, ",")
	if version != "v"+strconv.Itoa(protocol.Version) {
		return address{}, fmt.Errorf("worker: the host speaks version %q of the worker protocol, and this program speaks v%d: "+
			"build it with a matching version of Bullpen", version, protocol.Version)
	}
	a := address{-1, -1, -1}
	for part := range strings.SplitSeq(rest, ",") {
		key, number, _ := strings.Cut(part, "=")
		var to *int
		switch key {
		case "in":
			to = &a.in
		case "out":
			to = &a.out
		case "mem":
			to = &a.mem
		default:
			continue
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 {
			return address{}, fmt.Errorf("worker: %s=%q: %q is not a descriptor", variable, value, part)
		}
		*to = n
	}
	if a.in < 0 || a.out < 0 {
		return address{}, fmt.Errorf("worker: %s=%q does not name both in and out", variable, value)
	}
	return a, nil
}

// open opens the channel named in the environment, and removes the variable.
func open() (*channel, error) {
	value := os.Getenv(variable)
	if value == "" {
		return nil, ErrByHand
	}
	a, err := parseAddress(value)
	if err != nil {
		return nil, err
	}
	if err := os.Unsetenv(variable); err != nil {
		return nil, fmt.Errorf("worker: remove %s from the environment: %w", variable, err)
	}
	if a.in == 0 || a.out == 1 {
		if a, err = moveStandard(a); err != nil {
			return nil, fmt.Errorf("worker: move the channel away from the standard streams: %w", err)
		}
	}
	closeOnExec(a)
	ch := &channel{in: os.NewFile(uintptr(a.in), "in"), out: os.NewFile(uintptr(a.out), "out")}
	if ch.in == nil || ch.out == nil {
		return nil, fmt.Errorf("worker: %s=%q names descriptors that are not open", variable, value)
	}
	if a.mem >= 0 {
		if ch.memory, err = mapMemory(a.mem); err != nil {
			return nil, fmt.Errorf("worker: map the shared memory: %w", err)
		}
	}
	return ch, nil
}

// close closes the channel. The memory stays mapped, for handlers that still run.
func (ch *channel) close() {
	_ = ch.in.Close()
	_ = ch.out.Close()
}
