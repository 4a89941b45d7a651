package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/bench/internal/store"
)

func TestStores(t *testing.T) {
	t.Parallel()
	for _, s := range stores() {
		for _, experiment := range []string{enqueue64, enqueue1, end2end64, end2end1, beside64} {
			if experiment == beside64 && s.hoard == nil {
				continue
			}
			c, err := lookUp(s.id + "/" + experiment)
			if err != nil {
				t.Error(err)
				continue
			}
			t.Run(c.id(), func(t *testing.T) {
				t.Parallel()
				where := site{Folder: t.TempDir()}
				if c.experiment.beside {
					where.Beside = 10 // of one bulk, and the count at the end includes them
				}
				m, err := c.take(t.Context(), where, 50*time.Millisecond)
				if err != nil || m["rate"] <= 0 || m["cpu_us"] <= 0 {
					t.Fatalf("%v, %v", m, err)
				}
				if per, grouped := m["per_commit"]; grouped != (s.id != "pebble-own") || grouped && (per < 1 || per > 64) {
					t.Errorf("%v changes a commit", per)
				}
			})
		}
	}
}

// lossy is a store that forgets what it has confirmed.
type lossy struct{ store.Store }

func (lossy) Commit([]store.Change) error { return nil }

func TestStoreThatLoses(t *testing.T) {
	t.Parallel()
	kind := store.Kinds()[0]
	open := kind.Open
	kind.Open = func(dir string) (store.Store, error) {
		s, err := open(dir)
		return lossy{s}, err
	}
	who, err := openStore(kind, true)(t.Context(), site{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := who.enqueue(t.Context(), payload(1)); err != nil {
		t.Error(err)
	}
	if err := who.close(); err == nil || !strings.Contains(err.Error(), "has confirmed {Jobs:1") {
		t.Errorf("nothing is there of what was confirmed, and close gives %v", err)
	}
}

func TestHoards(t *testing.T) {
	t.Parallel()
	for _, s := range slices.Concat(bullpens(), stores()) {
		if s.hoard == nil {
			continue
		}
		t.Run(s.id, func(t *testing.T) {
			t.Parallel()
			c, dir := cell{system: s}, t.TempDir()
			m, err := c.fill(t.Context(), 300, site{Folder: dir})
			if err != nil || m["jobs"] != 300 || m["disk_mb"] <= 0 || m["enqueue_rate"] <= 0 || m["kept"] <= 0 {
				t.Fatalf("%v, %v", m, err)
			}
			m, err = c.startWith(t.Context(), site{Folder: dir, Least: 300})
			if err != nil || m["first_s"] < m["open_s"] || m["open_s"] <= 0 {
				t.Fatalf("%v, %v", m, err)
			}
			handed := int(m["handed"])
			if handed < 0 || s.kind == ours && handed < 1 {
				t.Errorf("%d jobs have been handed out", handed)
			}
			if _, err := c.startWith(t.Context(), site{Folder: dir, Least: 301 - handed}); err == nil || !strings.Contains(err.Error(), fmt.Sprint(301-handed)) {
				t.Errorf("a job is missing, and the start gives %v", err)
			}
		})
	}
}

func TestStoreTables(t *testing.T) {
	t.Parallel()
	r := &run{Rounds: 1, Stores: true, Cells: []measured{
		{System: pebbleStore, Experiment: enqueue64, Round: 1, Metrics: metrics{"rate": 100_000, "p50_ms": 0.5, "p99_ms": 1, "cpu_us": 8, "per_commit": 40}},
		{System: "bbolt", Experiment: enqueue64, Round: 1, Metrics: metrics{"rate": 40_000, "p50_ms": 1, "p99_ms": 2, "cpu_us": 16, "per_commit": 63.5}},
	}}
	text := r.markdown("store.json")
	for _, want := range []string{"# Bare stores", "| changes a commit | Pebble's rate is × this |", "| 100 000 | 0.500 | 1.000 | 8.0 | 40.0 | - |", "| 40 000 | 1.000 | 2.000 | 16.0 | 63.5 | 2.50 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "## Goals") {
		t.Error("bare stores have goals")
	}
	if got := r.tableFile(); got != "store.md" {
		t.Errorf("the tables go to %s", got)
	}
}
