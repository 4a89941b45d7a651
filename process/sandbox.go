package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Profile is the strictness of a sandbox.
type Profile uint8

const (
	// ProfileDefault prevents workers from gaining privileges by running other programs
	// (no_new_privs, so sudo and the like do not work) and from writing core files.
	// Each worker gets its own temporary folder, named by TMPDIR, which is removed with
	// the worker. In every profile workers have their own session and process group,
	// inherit no other descriptors, and get an environment by allow-list. If the system
	// has no equivalent of no_new_privs, [Pool.Guarantees] reports it.
	ProfileDefault Profile = iota
	// ProfileNone has none of the restrictions of ProfileDefault.
	ProfileNone
	// ProfileStrict is for untrusted code. In addition to ProfileDefault, workers see
	// only the files of the system and those in [Sandbox.Allow], and write only to
	// their temporary folder. They have no network, no capabilities and no view of
	// other processes, and cannot make the system calls that attacks on the kernel
	// need. It requires Linux with landlock and seccomp, and permission to create
	// namespaces (CAP_SYS_ADMIN and CAP_SYS_CHROOT) or, without Preload, user
	// namespaces.
	ProfileStrict
)

var profileNames = []string{ProfileDefault: "default", ProfileNone: "none", ProfileStrict: "strict"}

// String returns the name of p.
func (p Profile) String() string {
	if int(p) < len(profileNames) {
		return profileNames[p]
	}
	return fmt.Sprintf("profile(%d)", uint8(p))
}

// ParseProfile returns the profile with the name word.
func ParseProfile(word string) (Profile, error) {
	if i := slices.Index(profileNames, word); i >= 0 {
		return Profile(i), nil
	}
	return 0, fmt.Errorf("unknown sandbox profile %q: use none, default or strict", word)
}

// Sandbox restricts what workers can reach. SECURITY.md describes what each profile
// protects against and what it does not. All fields except Profile are for
// ProfileStrict only.
type Sandbox struct {
	Profile Profile
	// Allow names further files and folders that workers may use: "PATH" for reading
	// and writing, "PATH:ro" for reading and running. Workers may always read those of
	// the system (/usr, /etc and the like), the program and its installation, files
	// among the arguments of Command, Dir, and the folders that PYTHONPATH in Env
	// names.
	Allow []string
	// Network gives workers the network of the host.
	Network bool
	// Temp is the most bytes in the temporary folder of a worker; 0 means 256 MiB. They
	// count as memory of the worker.
	Temp int64
	// BestEffort skips restrictions that this system cannot enforce, and
	// [Pool.Guarantees] reports them. Without it, New fails.
	BestEffort bool
}

// allowed is one entry of Sandbox.Allow.
type allowed struct {
	path  string // absolute
	write bool
}

// parseAllowed parses an entry; relative paths start at dir.
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
		errs = append(errs, errors.New("Sandbox: Allow, Network, Temp and BestEffort need ProfileStrict; other profiles do not restrict files or network"))
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

// reach returns the paths that workers of ProfileStrict may read, and those that they
// may write too, beyond what every strict worker may use.
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
