package process

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// traits are what a pool must know of the protocol that its workers speak. A pool looks
// at these fields only, never at the protocol itself:
//
//	               frames            lines         exec
//	most           any number        any number    1
//	ahead          48 KiB            48 KiB        -
//	perTask        no                no            yes
//	exact          no                no            yes
//	greets         yes               no            -
//	timed          yes               no            -
//	quiet          -                 500 ms        -
//	deaths         3                 10            -
type traits struct {
	name    string
	most    int           // most tasks that a worker has in hand; 0 for Config.Window
	ahead   int           // payload bytes on their way to a worker above which it gets no more tasks
	perTask bool          // each task has a process of its own; a worker is a place for one
	exact   bool          // no task is lost, see [bullpen.Guarantees]
	loss    string        // which tasks are lost
	greets  bool          // a worker reports that it is ready; else its first answer shows it
	timed   bool          // a worker reports the run time of each task
	quiet   time.Duration // how long a task may be unanswered before the keeper checks its worker; 0 for any time
	deaths  int           // workers that may end with a task assigned that, as far as is known, none has started
}

// protocols are the traits of each protocol.
var protocols = [...]traits{
	Frames: {
		name: "frames", ahead: pipeRoom, greets: true, timed: true, deaths: maxDeaths,
		loss: "a task that had ended when its worker died, before its answer was sent, is lost",
	},
	// The kernel reports which lines a worker has not read, and filters exit by themselves.
	Lines: {
		name: "lines", ahead: pipeRoom, quiet: silentFor, deaths: maxReplays,
		loss: "lines that a dead worker had read and not answered are lost",
	},
	Exec: {name: "exec", most: 1, ahead: math.MaxInt, perTask: true, exact: true},
}

// String returns the name of p.
func (p Protocol) String() string {
	if int(p) < len(protocols) {
		return protocols[p].name
	}
	return fmt.Sprintf("protocol(%d)", uint8(p))
}

// ParseProtocol returns the protocol with the name word.
func ParseProtocol(word string) (Protocol, error) {
	var names []string
	for i, t := range protocols {
		if t.name == word {
			return Protocol(i), nil
		}
		names = append(names, t.name)
	}
	return 0, fmt.Errorf("unknown protocol %q: use %s", word, strings.Join(names, ", "))
}
