package main

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"time"
)

// child measures the cell that o names in this process and prints its figures.
func child(o options) error {
	c, err := find(o.cell)
	if err != nil {
		return err
	}
	m := measured{}
	if err := m.take(c, o); err != nil {
		m.Error = err.Error()
	}
	// The contender is left as it is: the process ends now, and one whose ending
	// hangs must not spoil its figures.
	return json.NewEncoder(os.Stdout).Encode(m)
}

// take measures c here.
func (m *measured) take(c cell, o options) error {
	w, err := c.system.makers[c.experiment.Maker](c.experiment.Shape)
	if err != nil {
		return err
	}
	if w.weigh != nil {
		bytes, n, err := w.weigh()
		if err == nil {
			m.Metrics = map[string]float64{"bytes_each": bytes / float64(n), "count": float64(n)}
		}
		return err
	}
	n, err := calibrate(w, o.span)
	if err != nil {
		return err
	}
	var count *counters
	if o.perf {
		if count, err = openCounters(hardware); err != nil {
			return err
		}
		defer count.close()
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	first := count.read()
	begin := time.Now()
	err = w.run(n)
	took := time.Since(begin)
	last := count.read()
	runtime.ReadMemStats(&after)
	tasks := float64(n) * float64(w.tasks)
	m.Metrics = map[string]float64{
		"ns":     float64(took.Nanoseconds()) / tasks,
		"bytes":  float64(after.TotalAlloc-before.TotalAlloc) / tasks,
		"allocs": float64(after.Mallocs-before.Mallocs) / tasks,
		"tasks":  tasks,
	}
	if count != nil {
		m.Metrics["instructions"] = float64(last-first) / tasks
	}
	return err
}

// calibrate warms up and gives how many units take about span.
func calibrate(w work, span time.Duration) (int, error) {
	if w.tasks < 1 {
		return 0, errors.New("the work says nothing of its tasks")
	}
	for n := 1; ; n *= 2 {
		begin := time.Now()
		if err := w.run(n); err != nil {
			return 0, err
		}
		if took := time.Since(begin); took >= span/4 || n >= 1<<28 {
			return max(1, int(float64(n)*float64(span)/float64(max(took, 1)))), nil
		}
	}
}
