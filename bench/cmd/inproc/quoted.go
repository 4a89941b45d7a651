package main

// quote is a figure that was measured earlier, on a machine of the same kind, of a
// contender that does not take part: its module cannot be had from the module
// proxy, or is a whole application.
type quote struct {
	system, title string
	experiment    string
	// ns is per task.
	ns float64
	// channel is what the buffered channel took in the run that is quoted. The
	// share of it is what can be compared; the nanoseconds cannot.
	channel float64
}

const article, ultrapool = "goapp", "ultrapool"

// quotes: goapp is the pool of the article of 2023, with other programs at work on
// the machine; ultrapool v2 on a quiet one. Both with 4 workers and GOMAXPROCS=2.
func quotes() []quote {
	goapp := "romapres2010/goapp 6076d7e (the article of 2023)"
	ultra := "maurice2k/ultrapool v2 1164638"
	return []quote{
		{article, goapp, "one", 283, 37.7},
		{article, goapp, "many-2", 269, 37.3},
		{article, goapp, "trip", 512, 286},
		{article, goapp, "group-1024", 328, 79},
		{article, goapp + ", long task", "deadline", 1027, 450},
		{ultrapool, ultra, "one", 75, 40},
		{ultrapool, ultra, "many-2", 97, 46},
		{ultrapool, ultra, "trip", 299, 268},
		{ultrapool, ultra, "group-1024", 112, 79},
		{ultrapool, ultra, "deadline", 313, 308},
	}
}

// quoteOf gives what is quoted of a system in an experiment.
func quoteOf(system, experiment string) (quote, bool) {
	for _, q := range quotes() {
		if q.system == system && q.experiment == experiment {
			return q, true
		}
	}
	return quote{}, false
}
