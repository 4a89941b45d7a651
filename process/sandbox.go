package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Profile says how far workers are shut in.
type Profile uint8

const (
	// ProfileDefault keeps workers from gaining rights by running other programs
	// (no_new_privs, so sudo and the like do not work) and from writing core
	// files, and gives each a temporary folder, in TMPDIR, which is removed with
	// the worker. Their own session and process group, closed descriptors and an
	// environment by allow-list they have in every profile. Where the system has no
	// such thing as no_new_privs, [Pool.Guarantees] tells.
	ProfileDefault Profile = iota
	// ProfileNone leaves these out.
	ProfileNone
	// ProfileStrict is for code that is not trusted: besides what ProfileDefault
	// does, workers see no file but those of the system and what [Sandbox.Allow]
	// names, write only to their temporary folder, have no network, no
	// capabilities, no view of other processes, and lack the system calls that
	// attacks on the kernel need. It needs Linux with landlock and seccomp, and
	// the right to make namespaces (CAP_SYS_ADMIN and CAP_SYS_CHROOT) or, without
	// Preload, to make user namespaces.
	ProfileStrict
)

var profileNames = []string{ProfileDefault: "default", ProfileNone: "none", ProfileStrict: "strict"}

// String returns the word for p.
func (p Profile) String() string {
	if int(p) < len(profileNames) {
		return profileNames[p]
	}
	return fmt.Sprintf("profile(%d)", uint8(p))
}

// ParseProfile returns the profile that word names.
func ParseProfile(word string) (Profile, error) {
	if i := slices.Index(profileNames, word); i >= 0 {
		return Profile(i), nil
	}
	return 0, fmt.Errorf("unknown sandbox profile %q: use none, default or strict", word)
}

// Sandbox says what workers are kept from. SECURITY.md tells what each profile
// protects from and what it does not. The fields beside Profile are for
// ProfileStrict only.
type Sandbox struct {
	Profile Profile
	// Allow names files and folders that workers may use besides those of the
	// system (/usr, /etc and the like, to be read), the program and its
	// installation, files among the arguments of Command, Dir, and the folders
	// that PYTHONPATH in Env names: "PATH" to be read and written, "PATH:ro" to
	// be read and run.
	Allow []string
	// Network leaves workers the network of the host.
	Network bool
	// Temp is the most that a worker may hold in its temporary folder, in bytes;
	// 0 means 256 MiB. It counts as memory of the worker.
	Temp int64
	// BestEffort leaves out what this system cannot do, which
	// [Pool.Guarantees] then tells. Without it New refuses.
	BestEffort bool
}

// allowed is one entry of Sandbox.Allow.
type allowed struct {
	path  string // absolute
	write bool
}

// parseAllowed reads an entry; relative paths start at dir.
func parseAllowed(entry, dir string) (allowed, error) {
	path, readOnly := strings.CutSuffix(entry, ":ro")
	if path == "" || strings.ContainsRune(path, 0) {
		return allowed{}, fmt.Errorf("Sandbox.Allow has %q: use PATH or PATH:ro", entry)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return allowed{}, fmt.Errorf("Sandbox.Allow has %q: %w", entry, err)
	}
	if _, err := os.Stat(path); err != nil {
		return allowed{}, fmt.Errorf("Sandbox.Allow has %q: %w", entry, err)
	}
	return allowed{path: path, write: !readOnly}, nil
}

func (r *resolved) checkSandbox() error {
	s := r.Sandbox
	var errs []error
	if s.Profile > ProfileStrict {
		errs = append(errs, fmt.Errorf("Sandbox.Profile is %d: use ProfileNone, ProfileDefault or ProfileStrict", s.Profile))
	}
	if s.Temp < 0 {
		errs = append(errs, fmt.Errorf("Sandbox.Temp is %d: use a positive number of bytes, or 0 for 256 MiB", s.Temp))
	}
	if s.Profile != ProfileStrict && (len(s.Allow) > 0 || s.Network || s.Temp > 0 || s.BestEffort) {
		errs = append(errs, errors.New("Sandbox: Allow, Network, Temp and BestEffort are for ProfileStrict only; other profiles keep workers from no file and no network"))
	}
	for _, entry := range s.Allow {
		a, err := parseAllowed(entry, r.Dir)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r.allow = append(r.allow, a)
	}
	return errors.Join(errs...)
}

// reach lists what workers of ProfileStrict may read, and what they may write
// too, besides what every one has.
func (r *resolved) reach() (read, write []string) {
	for _, a := range r.allow {
		if a.write {
			write = append(write, a.path)
		} else {
			read = append(read, a.path)
		}
	}
	if r.Dir != "" {
		read = append(read, r.Dir)
	}
	for _, arg := range r.Command[1:] {
		path := arg
		if !filepath.IsAbs(path) {
			path = filepath.Join(r.Dir, path)
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			if path, err = filepath.Abs(path); err == nil {
				read = append(read, path)
			}
		}
	}
	for _, e := range r.env {
		list, ok := strings.CutPrefix(e, "PYTHONPATH=")
		if !ok {
			continue
		}
		for _, path := range filepath.SplitList(list) {
			if _, err := os.Stat(path); err == nil && filepath.IsAbs(path) {
				read = append(read, path)
			}
		}
	}
	return read, write
}
