package settings

import "strings"

// gone maps the keys and sections of earlier versions to what to use instead.
var gone = map[string]string{
	"queue.cluster": "the daemon no longer runs a cluster server: run nats-server with JetStream on three " +
		"machines, and set queue.url to their addresses and queue.replicas to 3; the upgrade notes " +
		"in CHANGELOG.md say how to keep the jobs",
	"queue.sync_always": "every confirmed job is now synced to disk: remove this line",
}

// instead returns what to use instead of a removed key; empty if there was no such
// key.
func instead(path string) string {
	for section, advice := range gone {
		if path == section || strings.HasPrefix(path, section+".") {
			return advice
		}
	}
	return ""
}

// insteadOf is instead for the variable of a key.
func insteadOf(name string) string {
	for section, advice := range gone {
		if v := variable(section); name == v || strings.HasPrefix(name, v+"_") {
			return advice
		}
	}
	return ""
}
