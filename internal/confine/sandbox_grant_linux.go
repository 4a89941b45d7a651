package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// grant is a file or folder that children may use.
type grant struct {
	path   string // without symbolic links
	fd     int    // as the host sees it, O_PATH
	folder bool
	write  bool // write access; also marks a device
}

// grants are all files that the children of one Spawner may use, except each child's
// private ones.
type grants struct {
	list  []grant           // sorted by path, so that folders come before their content
	links map[string]string // symbolic links on the way to them, and their targets
}

// newGrants opens the files that s names. It fails if one is missing.
func newGrants(s Strict) (*grants, error) {
	g := &grants{links: map[string]string{}}
	var faults []error
	add := func(paths []string, write, needed bool) {
		for _, p := range paths {
			err := g.add(p, write)
			if err != nil && (needed || !errors.Is(err, fs.ErrNotExist)) {
				faults = append(faults, err)
			}
		}
	}
	add(SystemFolders(), false, false)
	add([]string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}, true, false)
	if s.Network { // often a link into /run
		add([]string{"/etc/resolv.conf", "/etc/hosts"}, false, false)
	}
	add(s.Read, false, true)
	add(s.Write, true, true)
	if len(faults) > 0 {
		g.close()
		return nil, fmt.Errorf("confine: Strict: %w", errors.Join(faults...))
	}
	slices.SortFunc(g.list, func(a, b grant) int { return strings.Compare(a.path, b.path) })
	return g, nil
}

// add opens path and records the links on the way.
func (g *grants) add(path string, write bool) error {
	full, err := g.follow(path)
	if err != nil {
		return err
	}
	for i := range g.list {
		if g.list[i].path == full {
			g.list[i].write = g.list[i].write || write
			return nil
		}
	}
	fd, err := unix.Open(full, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		unix.Close(fd)
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	g.list = append(g.list, grant{path: full, fd: fd, folder: stat.Mode&unix.S_IFMT == unix.S_IFDIR, write: write})
	return nil
}

// follow resolves the symbolic links of path, and records them.
func (g *grants) follow(path string) (string, error) {
	const most = 40 // as in the kernel
	here, rest := "/", strings.Split(strings.TrimPrefix(path, "/"), "/")
	for links := 0; len(rest) > 0; {
		next := filepath.Join(here, rest[0]) // also resolves ".."
		rest = rest[1:]
		info, err := os.Lstat(next)
		if err != nil {
			return "", &os.PathError{Op: "find", Path: path, Err: errors.Unwrap(err)}
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			here = next
			continue
		}
		if links++; links > most {
			return "", &os.PathError{Op: "find", Path: path, Err: unix.ELOOP}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		g.links[next] = target
		if filepath.IsAbs(target) {
			here = "/"
		}
		rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
	}
	return here, nil
}

func (g *grants) close() {
	for _, one := range g.list {
		unix.Close(one.fd)
	}
	g.list = nil
}

// rules returns the Landlock rules of g.
func (g *grants) rules() []landRule {
	rules := make([]landRule, 0, len(g.list))
	for _, one := range g.list {
		r := landRule{fd: one.fd, access: landRead}
		if one.write {
			r.access = landAll
		}
		if !one.folder {
			r.access &= landFile
		}
		rules = append(rules, r)
	}
	return rules
}

// mounts returns the grants that need a mount of their own. The others are in a folder
// that has a mount with at least their rights.
func (g *grants) mounts() []grant {
	var list []grant
	for _, one := range g.list {
		covered := slices.ContainsFunc(list, func(outer grant) bool {
			return inside(one.path, outer.path) && (outer.write || !one.write || one.device()) && outer.path != settings
		})
		if !covered && !inside(one.path, "/proc") {
			list = append(list, one)
		}
	}
	return list
}

// mountPoint is a file, folder or link that a view needs before anything is mounted in it.
type mountPoint struct {
	path   string
	folder bool
	link   string // target of a symbolic link; empty for others
}

// mountPoints returns the folders and files for the mounts of g, including /proc and /dev/shm,
// and the links, each after the folders that contain it.
func (g *grants) mountPoints() (list []mountPoint) {
	made := map[string]bool{}
	add := func(p mountPoint) {
		for _, folder := range append(prefixes(filepath.Dir(p.path)), p.path) {
			if made[folder] {
				continue
			}
			made[folder] = true
			if folder != p.path {
				list = append(list, mountPoint{path: folder, folder: true})
			} else {
				list = append(list, p)
			}
		}
	}
	mounts := g.mounts()
	for _, one := range mounts {
		add(mountPoint{path: one.path, folder: one.folder})
	}
	add(mountPoint{path: "/proc", folder: true})
	add(mountPoint{path: "/dev/shm", folder: true})
	links := maps.Clone(g.links)
	for name, target := range map[string]string{"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		links["/dev/"+name] = "/proc/self/" + target
	}
	for _, path := range slices.Sorted(maps.Keys(links)) {
		if !slices.ContainsFunc(mounts, func(outer grant) bool { return inside(path, outer.path) }) { // otherwise that mount has it already
			add(mountPoint{path: path, link: links[path]})
		}
	}
	return list
}

// attributes returns the attributes of the mount of g in a view.
func (g grant) attributes() uint64 {
	attr := uint64(unix.MOUNT_ATTR_NOSUID)
	if !g.write {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	if !g.device() {
		attr |= unix.MOUNT_ATTR_NODEV
	}
	return attr
}

// device reports whether a mount of g must let devices be opened.
func (g grant) device() bool { return inside(g.path, "/dev") }

// settings has files that only root may read, such as passwords and keys. A mount of it
// does not include files in it that are granted by name.
const settings = "/etc"

// secrets returns the files and folders below folder that not every user may read, unless
// they are granted by name.
func (g *grants) secrets(folder string) (list []string) {
	// What cannot be examined, children cannot read either.
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return nil //nolint:nilerr // as said above
		}
		info, err := entry.Info()
		if err != nil {
			return nil //nolint:nilerr // removed meanwhile
		}
		need := fs.FileMode(0o004)
		if entry.IsDir() {
			need = 0o005
		}
		if info.Mode()&need == need || slices.ContainsFunc(g.list, func(one grant) bool { return inside(one.path, path) }) {
			return nil
		}
		list = append(list, path)
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return list
}
