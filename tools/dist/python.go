package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// python builds the wheel and the source archive of the Python SDK, from a copy with
// the version and the license.
func (r *release) python(interpreter string) error {
	version, err := pythonVersion(r.version)
	if err != nil {
		return err
	}
	folder := filepath.Join(r.work, "python")
	if err := os.CopyFS(folder, os.DirFS("sdk/python")); err != nil {
		return err
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(folder, "bullpen", "_version.py"), []byte(`__version__ = "`+version+"\"\n"), 0o644),
		os.WriteFile(filepath.Join(folder, "LICENSE"), license, 0o644))
	if err != nil {
		return err
	}
	return command(interpreter, "-m", "build", "--no-isolation", "--outdir", r.out, folder)
}

var prerelease = regexp.MustCompile(`^-(alpha|beta|rc)\.?([0-9]+)$`)

// pythonVersion returns a version of Go in the form that Python sorts alike.
func pythonVersion(v string) (string, error) {
	pre := semver.Prerelease(v)
	core := strings.TrimSuffix(strings.TrimPrefix(semver.Canonical(v), "v"), pre)
	if pre == "" {
		return core, nil
	}
	if m := prerelease.FindStringSubmatch(pre); m != nil {
		return core + map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[m[1]] + m[2], nil
	}
	when, err := module.PseudoVersionTime(v)
	if err != nil {
		return "", fmt.Errorf("%s has no form for Python: use -alpha.N, -beta.N or -rc.N", v)
	}
	base, err := module.PseudoVersionBase(v)
	if err == nil && semver.Prerelease(base) != "" { // it comes after this prerelease
		core, err = pythonVersion(base)
		core += ".post0"
	}
	if err != nil {
		return "", err
	}
	rev, err := module.PseudoVersionRev(v)
	return core + ".dev" + when.Format("20060102150405") + "+g" + rev, err
}
