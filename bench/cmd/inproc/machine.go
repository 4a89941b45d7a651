package main

import (
	"runtime/debug"
	"strings"

	"github.com/bullpen-run/bullpen/bench/internal/machine"
)

// compared are the modules whose versions matter.
var compared = []string{"Jeffail/tunny", "alitto/pond", "bytedance/gopkg", "gammazero/workerpool", "panjf2000/ants",
	"sourcegraph/conc", "x/sync"}

func describe() machine.Machine {
	m := machine.Describe()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return m
	}
	for _, d := range info.Deps {
		for _, name := range compared {
			if strings.Contains(d.Path, name) {
				m.Versions[name] = d.Version
			}
		}
	}
	return m
}
