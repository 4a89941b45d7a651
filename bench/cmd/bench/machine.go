package main

import (
	"fmt"
	"os/exec"
	"strings"

	"github.com/bullpen-run/bullpen/bench/internal/machine"
)

// describe gives this machine with the versions of all that is measured.
func describe(p places) machine.Machine {
	m := machine.Describe()
	for name, args := range map[string][]string{
		"python":   {p.python(), "-c", "import sys; print(sys.version.split()[0])"},
		"packages": {p.python(), "-m", "pip", "list", "--format=freeze"},
		"node":     {"node", "--version"},
		"parallel": {"parallel", "--version"},
		"xargs":    {"xargs", "--version"},
	} {
		out, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil {
			continue // not installed: its cells say so
		}
		text, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		if name == "packages" {
			text = strings.Join(strings.Fields(string(out)), " ")
		}
		m.Versions[name] = text
	}
	return m
}

// oneCore gives the words that pin a command to the last processor allowed: the
// first one often has the interrupts.
func oneCore() ([]string, error) {
	cpus := machine.Allowed()
	if len(cpus) == 0 {
		return nil, fmt.Errorf("the processors of this process are not known")
	}
	if _, err := exec.LookPath("taskset"); err != nil {
		return nil, fmt.Errorf("taskset is not installed (apt-get install util-linux)")
	}
	return []string{"taskset", "-c", fmt.Sprint(cpus[len(cpus)-1])}, nil
}
