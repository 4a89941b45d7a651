// Command goprogram is a guest of the tests: it sorts, hashes, encodes and allocates, and
// prints what came of it. Given a number, it does that so many times.
package main

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

type record struct {
	Name  string            `json:"name"`
	Value int               `json:"value"`
	Tags  []string          `json:"tags"`
	Extra map[string]string `json:"extra"`
}

func main() {
	times := 1
	if len(os.Args) > 1 {
		n, err := strconv.Atoi(os.Args[1])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		times = n
	}
	for range times {
		fmt.Println(work())
	}
}

func work() string {
	var records []record
	state := uint32(1)
	for i := range 2000 {
		state = state*1664525 + 1013904223
		records = append(records, record{
			Name: fmt.Sprintf("record-%d", state), Value: int(state >> 8), Tags: []string{"a", strconv.Itoa(i)},
			Extra: map[string]string{"k": strconv.Itoa(i * 7)},
		})
	}
	sort.Slice(records, func(i, j int) bool { return records[i].Value < records[j].Value })
	text, err := json.Marshal(records)
	if err != nil {
		return err.Error()
	}
	var again []record
	if err := json.Unmarshal(text, &again); err != nil {
		return err.Error()
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, 6)
	if err != nil {
		return err.Error()
	}
	if _, err := w.Write(text); err != nil {
		return err.Error()
	}
	if err := w.Close(); err != nil {
		return err.Error()
	}
	found := regexp.MustCompile(`record-(\d+)7`).FindAllString(string(text), -1)
	sum := sha256.Sum256([]byte(strings.Join(found, ",")))
	return fmt.Sprintf("%d %d %d %x", len(again), packed.Len(), len(found), sum)
}
