package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// choice selects the jobs that a request is about.
type choice struct {
	filter job.Filter
}

// choosing is one parameter of a choice, for queries and bodies.
type choosing struct {
	name string
	set  func(c *choice, v string) error
}

// choosings is the table of parameters of choices.
var choosings = []choosing{
	{"pool", func(c *choice, v string) error { c.filter.Queue = v; return checkPool(v, true) }},
	{"task", func(c *choice, v string) error { c.filter.Name = v; return checkText(v, longestName) }},
	{"group", func(c *choice, v string) error { c.filter.Group = v; return checkText(v, longestName) }},
	{"schedule", func(c *choice, v string) error { c.filter.Schedule = v; return checkText(v, longestName) }},
	{"batch", func(c *choice, v string) error { c.filter.Batch = v; return checkID(v) }},
	{"state", func(c *choice, v string) (err error) { c.filter.States, err = readWords(v, job.ParseState); return err }},
	{"reason", func(c *choice, v string) error {
		c.filter.Reason = job.Reason(v)
		if !slices.Contains(reasons, v) {
			return errors.New("use one of " + strings.Join(reasons, ", "))
		}
		return nil
	}},
	{"outcome", func(c *choice, v string) error {
		c.filter.Outcome = v
		_, err := bullpen.ParseOutcome(v)
		return err
	}},
	{"cause", func(c *choice, v string) error { c.filter.Cause = v; return checkCause(v) }},
	{"search", func(c *choice, v string) error { c.filter.Search = v; return checkSearch(v) }},
	{"since", func(c *choice, v string) (err error) { c.filter.Since, err = readTime(v); return err }},
	{"before", func(c *choice, v string) (err error) { c.filter.Before, err = readTime(v); return err }},
	{"order", func(c *choice, v string) error {
		c.filter.Newest = v == "newest"
		if v != "newest" && v != "oldest" {
			return errors.New("use newest or oldest")
		}
		return nil
	}},
}

// The parameters that each request accepts.
var (
	listChoices  = []string{"pool", "task", "group", "schedule", "batch", "state", "reason", "outcome", "cause", "search", "since", "before", "order"}
	deadChoices  = []string{"pool", "task", "group", "schedule", "batch", "reason", "outcome", "cause", "search", "since", "before", "order"}
	causeChoices = []string{"pool", "task", "group", "schedule", "batch", "reason", "outcome", "search", "since", "before"}
)

const (
	longestSearch = 256
	causeDigits   = 12
)

// readWords reads words separated by commas.
func readWords[T comparable](text string, parse func(string) (T, error)) (all []T, err error) {
	for word := range strings.SplitSeq(text, ",") {
		v, err := parse(word)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all, nil
}

func checkSearch(v string) error {
	switch {
	case v == "":
		return errors.New("it is empty: leave it out")
	case len(v) > longestSearch:
		return fmt.Errorf("it has %d bytes, use %d at most", len(v), longestSearch)
	case !utf8.ValidString(v):
		return errors.New("it is not UTF-8")
	}
	return nil
}

func checkCause(v string) error {
	if len(v) != causeDigits || strings.Trim(v, "0123456789abcdef") != "" {
		return fmt.Errorf("use the %d hexadecimal digits that /v1/dead/causes gives", causeDigits)
	}
	return nil
}

func choosingOf(name string) *choosing {
	for i := range choosings {
		if choosings[i].name == name {
			return &choosings[i]
		}
	}
	return nil
}

// readChoice reads a choice from a query.
func readChoice(q query, f *faults) choice {
	var c choice
	for i := range q {
		if set := choosingOf(q[i].name); set != nil {
			if err := set.set(&c, q[i].value); err != nil {
				f.add(q[i].name + " is " + quoted(q[i].value) + ": " + err.Error())
			}
		}
	}
	c.check(f)
	return c
}

// check checks the parameters that depend on each other.
func (c *choice) check(f *faults) {
	if s, b := c.filter.Since, c.filter.Before; !s.IsZero() && !b.IsZero() && !s.Before(b) {
		f.add("since must be earlier than before: exchange them")
	}
}
