//go:build !unix

package process

// inherits says that a child can be given descriptors beside the standard ones.
const inherits = false
