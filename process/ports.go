package process

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports below the range from which systems choose the ports of connections.
const (
	lowestPort  = 10000
	highestPort = 32767
)

// portTable has the ports of all workers of this process.
type portTable struct {
	mu    sync.Mutex
	taken map[int]bool // guarded by mu
}

// ports is shared by all pools: they share the machine's ports.
var ports = portTable{taken: map[int]bool{}}

// take returns a port on which nobody listens.
func (t *portTable) take() (int, error) {
	for range 100 {
		port := lowestPort + rand.IntN(highestPort-lowestPort+1)
		if !t.claim(port) {
			continue
		}
		if unused(port) {
			return port, nil
		}
		t.giveBack(port)
	}
	return 0, errors.New("no port is free for the worker: end some other servers on this machine")
}

func (t *portTable) claim(port int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken[port] {
		return false
	}
	t.taken[port] = true
	return true
}

func (t *portTable) giveBack(port int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.taken, port)
}

// unused reports whether a server could listen at the port, on any address.
func unused(port int) bool {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
