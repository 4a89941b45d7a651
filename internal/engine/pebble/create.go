package pebble

import (
	"context"
	"errors"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Create creates a store in the folder of c, which must not exist, and calls fill to add
// its content. The folder gets its name when fill has succeeded and all survives a loss
// of power; otherwise it is removed.
func Create(ctx context.Context, c Config, fill func(engine.Engine) error) error {
	if err := c.check(); err != nil {
		return err
	}
	c = c.withDefaults()
	dir := c.Dir
	half, err := begin(c.FS, dir)
	if err != nil {
		return err
	}
	c.Dir = half.dir
	e, err := Open(ctx, c)
	if err == nil {
		err = errors.Join(fill(e), e.Close(context.WithoutCancel(ctx)))
	}
	if err == nil {
		err = half.finish(dir)
	}
	if err != nil {
		err = errors.Join(err, c.FS.RemoveAll(half.dir))
	}
	return err
}
