// Command dist makes the files of a release from the checkout in which it runs, the way
// dist.sh starts it: in a clone of one commit, with the time of that commit in
// SOURCE_DATE_EPOCH.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	out := flag.String("out", "dist", "folder for the files; it is made anew")
	version := flag.String("version", "", "fail if the checkout has another version")
	python := flag.String("python", "python3", "interpreter that has build and flit_core")
	flag.Parse()
	if err := run(*out, *version, *python); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// release is a release in the making.
type release struct {
	version string    // as Go writes it: v1.2.3
	when    time.Time // of the commit, and of all that is made of it
	out     string    // folder of the files
	work    string    // folder of what is made on the way
}

// bare returns the version without the v, as it stands in the names of files.
func (r *release) bare() string { return strings.TrimPrefix(r.version, "v") }

// path returns the path of a file of the release for a target.
func (r *release) path(t target, suffix string) string {
	return filepath.Join(r.out, "bullpen_"+r.bare()+"_"+t.os+"_"+t.arch+suffix)
}

func run(out, version, python string) error {
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r := &release{when: time.Unix(epoch, 0).UTC(), out: out}
	if r.work, err = os.MkdirTemp("", "bullpen-dist-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o755)); err != nil {
		return err
	}
	binaries, err := r.build()
	if err != nil {
		return err
	}
	if version != "" && version != r.version {
		return fmt.Errorf("the version is %s, not %s: use one such as v1.2.3 or v1.2.3-rc.1, and no earlier one than a tag of this commit", r.version, version)
	}
	if err := command("go", "-C", "tools/dist", "run", "./pages", "-version", r.version, r.pages()); err != nil {
		return err
	}
	for _, b := range binaries {
		if err := r.pack(b); err != nil {
			return fmt.Errorf("%s/%s: %w", b.target.os, b.target.arch, err)
		}
	}
	if err := r.python(python); err != nil {
		return fmt.Errorf("python: %w", err)
	}
	return r.sum()
}

// pages is the folder of the manual pages and the completions.
func (r *release) pages() string { return filepath.Join(r.work, "pages") }

// pack makes all files of a binary.
func (r *release) pack(b binary) error {
	err := errors.Join(r.archive(b), r.bom(b))
	if b.target.os == "linux" {
		err = errors.Join(err, r.deb(b), r.image(b))
	}
	return err
}

// sum writes SHA256SUMS over all files, and prints their sizes.
func (r *release) sum() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var sums strings.Builder
	var total int64
	for _, e := range entries {
		path := filepath.Join(r.out, e.Name())
		digest, size, err := digest(path)
		if err := errors.Join(err, os.Chmod(path, 0o644)); err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", digest, e.Name())
		fmt.Printf("%8.1f MB  %s\n", float64(size)/1e6, e.Name())
		total += size
	}
	fmt.Printf("%8.1f MB  in %d files of %s, and their sums in SHA256SUMS\n", float64(total)/1e6, len(entries), r.version)
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

// digest returns the SHA-256 and the size of a file.
func digest(path string) (sum []byte, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, f)
	return h.Sum(nil), size, err
}

// command runs a program, whose output is shown.
func command(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}
