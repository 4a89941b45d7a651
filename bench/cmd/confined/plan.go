package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// cell is what one process measures; it gives figures for one or more rows. Its
// name begins with that of its part.
type cell struct {
	id   string
	take func(ctx context.Context, o options, p places) (map[string]metrics, error)
}

// row is one line of a table.
type row struct {
	id, title string
	kind      kind
}

// kind says what a row stands for.
type kind uint8

const (
	ours   kind = iota
	others      // the same done with means that anybody has
	floor       // no pool at all: what the machine gives
)

// column is one figure of a table.
type column struct {
	key, title string
	digits     int
}

// part is one table.
type part struct {
	id, title, note string
	columns         []column
	rows            []row
	cells           []cell
}

func parts() []part {
	return []part{zygotePart(), memoryPart(), burstPart(), startPart(), sandboxPart(), neighbourPart(), timeoutPart()}
}

// plan gives the cells whose names match.
func plan(only *regexp.Regexp) (cells []cell) {
	for _, p := range parts() {
		for _, c := range p.cells {
			if only.MatchString(c.id) {
				cells = append(cells, c)
			}
		}
	}
	return cells
}

func lookUp(id string) (cell, error) {
	for _, c := range plan(regexp.MustCompile("")) {
		if c.id == id {
			return c, nil
		}
	}
	return cell{}, fmt.Errorf("there is no cell %q: see -list", id)
}

// lines joins sentences to a paragraph.
func lines(sentences ...string) string { return strings.Join(sentences, " ") }
