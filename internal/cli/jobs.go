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

// parseJobs reads the most workers: a number, or +N, -N or P% in relation to the
// processors, as in GNU parallel. There is always at least one.
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

// fewProcessors gives the program itself a processor for two processes that run at a
// time, where each task is a process of its own: starting them and taking what they say
// is little work, and goroutines that wake each other across processors cost more than
// that. GOMAXPROCS in the environment has the last word.
func (o *options) fewProcessors() {
	if o.protocol == process.Exec && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), max(1, o.max/2)))
	}
}

// forbidGains keeps this program from gaining rights, where its workers must not gain
// any either: it then starts them sooner. Where that is not possible they start later.
func (o *options) forbidGains() {
	if o.protocol == process.Exec && o.sandbox == process.ProfileDefault {
		_ = confine.ForbidGains()
	}
}

func errJobs(cpus int) error {
	return fmt.Errorf("use a number from 1 on, or +N, -N or P%% of the %d processors, such as 8, +1 or 50%%", cpus)
}
