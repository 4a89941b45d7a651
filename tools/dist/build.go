package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/mod/semver"
)

// target is a system that the command is built for.
type target struct{ os, arch string }

var targets = []target{
	{"linux", "amd64"}, {"linux", "arm64"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

// binary is the command for one target.
type binary struct {
	target target
	path   string
	info   *buildinfo.BuildInfo
	legal  []byte // licenses of what is in it
}

// program is the name of the binary's file.
func (b *binary) program() string { return filepath.Base(b.path) }

// build builds the command for all targets. It takes the version of the release from
// them: the go command stamps it, from the tags of the checkout.
func (r *release) build() ([]binary, error) {
	var all []binary
	for _, t := range targets {
		b := binary{target: t, path: filepath.Join(r.work, t.os+"_"+t.arch, "bullpen")}
		if t.os == "windows" {
			b.path += ".exe"
		}
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", b.path, "./cmd/bullpen")
		cmd.Env = environment(t)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		err := cmd.Run()
		if err == nil {
			b.info, err = buildinfo.ReadFile(b.path)
		}
		if err == nil {
			b.legal, err = thirdParty(b)
		}
		if err != nil {
			return nil, fmt.Errorf("build for %s/%s: %w", t.os, t.arch, err)
		}
		all = append(all, b)
	}
	r.version = all[0].info.Main.Version
	if !semver.IsValid(r.version) || semver.Build(r.version) != "" {
		return nil, fmt.Errorf("the version %s is not that of a commit", r.version)
	}
	return all, nil
}

// environment is that of the go command for a target, without settings of the user that
// would change a binary.
func environment(t target) []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off")
}
