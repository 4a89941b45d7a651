package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/confine"
)

// isolation is the part of a worker's confinement that it does not share with other
// workers: its control group and its temporary folder.
type isolation struct {
	group *confine.Group // nil if there are no bounds, or memory is watched
	temp  string         // empty without a folder
}

// temporary lists the variables that name the folder for temporary files.
var temporary = []string{"TMPDIR", "TEMP", "TMP"}

// openIsolation creates what all workers' isolations need.
func (p *Pool) openIsolation() error {
	if err := p.openBounds(); err != nil {
		return err
	}
	if p.config.Sandbox.Profile == ProfileNone {
		return nil
	}
	parent := ""
	p.config.env = slices.DeleteFunc(p.config.env, func(e string) bool {
		name, value, _ := strings.Cut(e, "=")
		if !slices.Contains(temporary, name) {
			return false
		}
		if parent == "" {
			parent = value
		}
		return true
	})
	scratch, err := confine.OpenScratch(parent)
	if err != nil {
		return errors.Join(fmt.Errorf("process: temporary folders of the workers: %w", err), p.closeIsolation())
	}
	p.scratch = scratch
	return nil
}

// closeIsolation releases what openIsolation created, when no worker is left.
func (p *Pool) closeIsolation() error {
	var errs []error
	if p.groups != nil {
		errs = append(errs, p.groups.Close())
	}
	if p.scratch != nil {
		errs = append(errs, p.scratch.Close())
	}
	return errors.Join(errs...)
}

// openBounds creates the control groups, or has memory watched if there are none.
func (p *Pool) openBounds() error {
	want := p.config.bounds()
	if want == (confine.Bounds{}) {
		return nil
	}
	groups, err := openGroups(want)
	if err == nil {
		p.groups = groups
		return p.weighGroups()
	}
	err = fmt.Errorf("process: the limits of the workers (Limits.Memory, Limits.CPU, PIDs, Weight): %w", err)
	if _, watchErr := confine.RSS(os.Getpid()); want.Memory == 0 || watchErr != nil || !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if want.Memory = 0; want != (confine.Bounds{}) {
		var rest error
		if p.groups, rest = openGroups(want); rest != nil {
			return err
		}
	}
	p.unbound = err
	return p.weighGroups()
}

// weighGroups gives the workers in control groups the same total share of scarce
// processors that their nice value would give them outside.
func (p *Pool) weighGroups() error {
	if p.groups == nil {
		return nil
	}
	nice := p.config.Nice
	if nice == HostNice {
		nice = 0
	}
	if err := p.groups.Weigh(nice, p.config.Max, p.config.Weight); err != nil {
		return errors.Join(fmt.Errorf("process: %w", err), p.groups.Close())
	}
	return nil
}

// openGroups is a variable so that tests can simulate a machine without control groups.
var openGroups = confine.OpenGroups

// bounds returns the configured kernel bounds of one worker.
func (r *resolved) bounds() confine.Bounds {
	return confine.Bounds{Memory: r.Limits.Memory, PIDs: r.PIDs, CPU: r.Limits.CPU, Weight: r.Weight}
}

// fillIsolation adds to c what an isolation with bounds b lacks.
func (p *Pool) fillIsolation(c isolation, b confine.Bounds) (_ isolation, err error) {
	if p.scratch != nil && c.temp == "" {
		if c.temp, err = p.scratch.Folder(); err != nil {
			return isolation{}, fmt.Errorf("temporary folder of the worker: %w", err)
		}
	}
	if p.groups == nil {
		return c, nil
	}
	if p.unbound != nil {
		b.Memory = 0
	}
	if c.group, err = p.groups.Get(b); err != nil {
		return c, errors.Join(fmt.Errorf("limits of the worker: %w", err), p.freeIsolation(&c))
	}
	return c, nil
}

// enter confines the process of spec to c.
func (c *isolation) enter(spec *confine.Spec) {
	spec.Group, spec.Temp = c.group, c.temp
	if c.temp == "" {
		return
	}
	spec.Env = slices.Clip(spec.Env)
	for _, name := range temporary {
		spec.Env = append(spec.Env, name+"="+c.temp)
	}
}

// usage returns the resource usage that the kernel counted.
func (c *isolation) usage() (u confine.Usage) {
	if c.group != nil {
		u, _ = c.group.Usage() // on error the death counts as a crash
	}
	return u
}

// freeIsolation kills leftover processes in c and removes its folder. It may take long,
// so the caller holds no lock.
func (p *Pool) freeIsolation(c *isolation) error {
	if c.group != nil {
		c.group.Put()
	}
	temp := c.temp
	*c = isolation{}
	if temp == "" {
		return nil
	}
	return p.scratch.Remove(temp)
}

// profile returns the confinement that all workers share.
func (r *resolved) profile() confine.Profile {
	shielded := r.Sandbox.Profile != ProfileNone && runtime.GOOS == "linux" // promiseBounds reports other systems
	profile := confine.Profile{
		CPUs: r.CPUs, Guard: true, GuardAlone: true,
		NoNewPrivs: shielded, NoCore: shielded, IOPriority: confine.IOPriority(r.IO),
	}
	if r.Nice != HostNice {
		profile.Nice, profile.NiceSet = r.Nice, true
	}
	if r.Sandbox.Profile == ProfileStrict {
		read, write := r.reach()
		profile.Strict = &confine.Strict{
			Read: append(read, confine.ProgramPaths(r.path)...), Write: write,
			Network: r.Sandbox.Network, Loopback: r.ownNetwork(), TempSize: r.Sandbox.Temp, BestEffort: r.Sandbox.BestEffort,
			ForkServer: len(r.Preload) > 0,
		}
	}
	return profile
}

// ownNetwork reports whether each worker has a network of its own, in which only the host
// reaches it.
func (r *resolved) ownNetwork() bool {
	return r.network && r.Sandbox.Profile == ProfileStrict && !r.Sandbox.Network
}

// promiseBounds adds the guarantees on bounds and sandbox to g.
func (p *Pool) promiseBounds(g *bullpen.Guarantees) {
	note := func(text string) { g.Notes = append(g.Notes, text) }
	limits := p.config.Limits
	g.MemoryBound, g.CPUBound = limits.Memory > 0 && p.unbound == nil, limits.CPU > 0
	switch {
	case p.unbound != nil:
		note(fmt.Sprintf("memory of a worker is only checked every %v, not limited by the kernel, and without its child processes: %v", watchEvery, p.unbound))
	case limits.Memory == 0 && limits.CPU == 0:
		note("memory and CPU of a worker have no limit: none is configured (Limits.Memory, Limits.CPU)")
	case limits.Memory == 0:
		note("memory of a worker has no limit: none is configured (Limits.Memory)")
	case limits.CPU == 0:
		note("CPU of a worker has no limit: none is configured (Limits.CPU)")
	}
	g.NoFilesystem, g.NoNetwork = p.spawn.Confined()
	if p.config.Sandbox.Profile == ProfileDefault && runtime.GOOS != "linux" {
		note("workers may gain rights by running other programs: this system cannot prevent it")
	}
	if p.config.Sandbox.Profile != ProfileStrict {
		note("a worker can use the files and the network of the host (only ProfileStrict prevents it)")
	}
	for _, missing := range p.spawn.Missing() {
		note("the sandbox lacks: " + missing)
	}
}

// startProcess starts the process of spec, directly or through the fork server.
func (p *Pool) startProcess(spec confine.Spec) (*confine.Child, error) {
	begin := p.spawn.Start
	if p.forkServer != nil {
		begin = p.forkServer.start
	}
	child, err := begin(spec)
	if err == nil && p.config.OOMScore > 0 {
		// If it cannot be set, the kernel chooses by size alone.
		_ = child.SetOOMScore(p.config.OOMScore)
	}
	return child, err
}
