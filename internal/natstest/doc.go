// Package natstest runs real NATS servers for tests, each a process of its own on
// loopback: one, or a cluster whose members can be killed, stopped, paused, cut off
// from each other, and started again on what they had stored.
//
// The servers are built by the go command from the module that tools/nats pins, once
// and then kept in its cache. They end with the test, and on Linux also when the test
// binary dies. All servers share the processor and the disk of one machine, so what
// survives here proves nothing about a loss of power.
package natstest
