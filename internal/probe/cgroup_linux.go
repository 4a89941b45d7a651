package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// limiters are the v1 controllers for the limits of Bullpen.
var limiters = []string{"memory", "pids", "cpu", "cpuset", "blkio"}

// Hierarchy is one mounted cgroup tree and this process's place in it.
type Hierarchy struct {
	V2          bool
	Controllers []string // of v1: those of the mount; of v2: none, since each group has different ones
	Dir         string   // folder of this process's group
	Top         string   // the highest visible folder of the tree
}

func tryCgroupV2() (bool, string) {
	h, err := hierarchyV2()
	if err != nil {
		return false, err.Error()
	}
	controllers := "no controllers (they are on v1, or not delegated)"
	if len(h.Controllers) > 0 {
		controllers = "controllers " + strings.Join(h.Controllers, ", ")
	}
	if err := tryGroup(h.Dir, nil); err != nil {
		return false, fmt.Sprintf("mounted, but no group can be created in %s: %v; %s", h.Dir, reason(err), controllers)
	}
	return true, fmt.Sprintf("groups can be created in %s; %s", h.Dir, controllers)
}

func tryCgroupKill() (bool, string) {
	h, err := hierarchyV2()
	if err != nil {
		return false, err.Error()
	}
	err = tryGroup(h.Dir, func(dir string) error {
		_, err := os.Stat(filepath.Join(dir, "cgroup.kill"))
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, "groups have no cgroup.kill (it needs Linux 5.14)"
	case err != nil:
		return false, fmt.Sprintf("no group can be created in %s: %v", h.Dir, reason(err))
	}
	return true, "groups created in " + h.Dir + " have it"
}

func tryCgroupV1() (bool, string) {
	all, err := Hierarchies()
	if err != nil {
		return false, err.Error()
	}
	var writable, other []string
	for _, h := range all {
		if h.V2 {
			continue
		}
		err := tryGroup(h.Dir, nil)
		for _, c := range h.Controllers {
			switch {
			case !slices.Contains(limiters, c):
			case err != nil:
				other = append(other, c)
			default:
				writable = append(writable, c)
			}
		}
	}
	slices.Sort(writable)
	slices.Sort(other)
	switch {
	case len(writable)+len(other) == 0:
		return false, "no v1 controller is mounted"
	case len(writable) == 0:
		return false, "mounted, but no group can be created: " + strings.Join(other, ", ")
	case len(other) == 0:
		return true, "writable: " + strings.Join(writable, ", ")
	}
	return true, "writable: " + strings.Join(writable, ", ") + "; not writable: " + strings.Join(other, ", ")
}

var groupNumber atomic.Int64

// tryGroup creates a group in dir, calls look with it, and removes it.
func tryGroup(dir string, look func(dir string) error) (err error) {
	name := filepath.Join(dir, fmt.Sprintf("bullpen-probe-%d-%d", os.Getpid(), groupNumber.Add(1)))
	if err := os.Mkdir(name, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(name)) }()
	if look != nil {
		return look(name)
	}
	return nil
}

// hierarchyV2 finds the v2 tree, with the controllers of this process's group.
func hierarchyV2() (Hierarchy, error) {
	all, err := Hierarchies()
	if err != nil {
		return Hierarchy{}, err
	}
	for _, h := range all {
		if h.V2 {
			text, err := os.ReadFile(filepath.Join(h.Dir, "cgroup.controllers"))
			if err != nil {
				return h, fmt.Errorf("mounted, but cannot be read: %w", err)
			}
			h.Controllers = strings.Fields(string(text))
			return h, nil
		}
	}
	return Hierarchy{}, errors.New("no cgroup2 file system is mounted")
}

// Hierarchies returns the mounted cgroup trees and this process's current place in each
// of them. Unlike the features, these may change. It takes about 0.1 ms. If nothing is
// mounted, it returns none; the error says what could not be read.
func Hierarchies() ([]Hierarchy, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cannot list the mounts: %w", err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("cannot find the own cgroup: %w", err)
	}
	found := parseHierarchies(string(mounts), string(own))
	for i := range found {
		// If a container shows only a part of the tree, the path of this process's group
		// may lead outside of it: then the top of the visible part is that group.
		h := &found[i]
		if _, err := os.Stat(filepath.Join(h.Dir, "cgroup.procs")); err != nil {
			h.Dir = h.Top
		}
	}
	return found, nil
}

// parseHierarchies parses the texts of /proc/self/mountinfo and /proc/self/cgroup. It
// skips lines that it does not understand.
func parseHierarchies(mountinfo, own string) []Hierarchy {
	var found []Hierarchy
	for _, m := range parseMounts(mountinfo) {
		h := Hierarchy{V2: m.kind == "cgroup2", Dir: m.point, Top: m.point}
		if !h.V2 {
			h.Controllers = m.controllers()
			if len(h.Controllers) == 0 {
				continue
			}
		}
		path, ok := ownPath(own, h)
		if !ok {
			continue
		}
		if rel, inside := strings.CutPrefix(path, strings.TrimSuffix(m.root, "/")); inside && (rel == "" || rel[0] == '/') {
			h.Dir = filepath.Join(m.point, rel)
		}
		found = append(found, h)
	}
	return found
}

// ownPath finds the path of this process's group in the text of /proc/self/cgroup.
func ownPath(own string, h Hierarchy) (string, bool) {
	for line := range strings.Lines(own) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if h.V2 && parts[0] == "0" && parts[1] == "" {
			return parts[2], true
		}
		if !h.V2 && slices.Contains(strings.Split(parts[1], ","), h.Controllers[0]) {
			return parts[2], true
		}
	}
	return "", false
}

// mount is a line of mountinfo for a cgroup tree.
type mount struct{ root, point, kind, options string }

// controllers returns the v1 controllers among the options of the file system.
func (m mount) controllers() []string {
	var names []string
	for o := range strings.SplitSeq(m.options, ",") {
		switch o {
		case "rw", "ro", "xattr", "noprefix", "clone_children", "all", "none", "":
		default:
			if !strings.Contains(o, "=") {
				names = append(names, o)
			}
		}
	}
	return names
}

// parseMounts returns the cgroup file systems in a mountinfo text.
func parseMounts(mountinfo string) []mount {
	var found []mount
	for line := range strings.Lines(mountinfo) {
		front, back, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		f, b := strings.Fields(front), strings.Fields(back)
		if !ok || len(f) < 6 || len(b) < 3 || (b[0] != "cgroup" && b[0] != "cgroup2") {
			continue
		}
		found = append(found, mount{root: unescape(f[3]), point: unescape(f[4]), kind: b[0], options: b[2]})
	}
	return found
}

// unescape decodes the octal escapes (\040 for a blank) of mountinfo.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// reason returns err without its path, which the sentence already contains.
func reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
