package wasm

import (
	"strconv"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
)

// environment returns the configuration of a command for the running task, whose variables
// are those that a process of package process has with the protocol exec.
func (i *instance) environment() wazero.ModuleConfig {
	if !i.pool.module.environ {
		return i.config
	}
	c := i.config
	t := &i.call.task
	set := func(name, value string) {
		if name != "" && value != "" && !strings.ContainsAny(name, "=\x00") && !strings.ContainsRune(value, 0) {
			c = c.WithEnv(name, value)
		}
	}
	set("TASK_ID", t.ID)
	set("TASK_NAME", t.Name)
	if left := i.call.timeout; left > 0 {
		set("TASK_DEADLINE_MS", strconv.FormatInt(time.Now().Add(left).UnixMilli(), 10))
	}
	for key, value := range t.Meta {
		set("TASK_META_"+key, value)
	}
	return c
}
