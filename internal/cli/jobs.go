package cli

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/bullpen-run/bullpen/internal/confine"
	"github.com/bullpen-run/bullpen/process"
)

// parseJobs parses the maximum number of workers: a number, or +N, -N or P% relative
// to the number of processors, as in GNU parallel. The result is at least 1.
func parseJobs(s string) (int, error) {
	cpus := runtime.GOMAXPROCS(0)
	if text, ok := strings.CutSuffix(s, "%"); ok {
		p, err := strconv.ParseFloat(text, 64)
		if err == nil && p > 0 && p*float64(cpus)/100 <= math.MaxInt32 {
			return max(1, int(p*float64(cpus)/100)), nil
		}
		return 0, errJobs(cpus)
	}
	n, err := strconv.ParseInt(s, 10, 32)
	switch {
	case err != nil || n == 0:
		return 0, errJobs(cpus)
	case s[0] == '+' || s[0] == '-':
		if n > math.MaxInt32-int64(cpus) {
			return 0, errJobs(cpus)
		}
		return max(1, cpus+int(n)), nil
	}
	return int(n), nil
}

// fewProcessors limits this program to one processor for every two concurrent
// processes, if each task is a process of its own. Starting processes and reading
// their output is little work, and goroutines that wake each other across processors
// cost more. GOMAXPROCS in the environment takes precedence.
func (o *options) fewProcessors() {
	if o.protocol == process.Exec && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), max(1, o.max/2)))
	}
}

// forbidGains keeps this program from gaining rights (no_new_privs), if its workers
// must not gain any either: they then start faster. If that fails they start more
// slowly.
func (o *options) forbidGains() {
	if o.protocol == process.Exec && o.sandbox == process.ProfileDefault {
		_ = confine.ForbidGains()
	}
}

func errJobs(cpus int) error {
	return fmt.Errorf("use a number from 1 on, or +N, -N or P%% of the %d processors, such as 8, +1 or 50%%", cpus)
}
