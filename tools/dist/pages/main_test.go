package main

import "testing"

func TestMarkdown(t *testing.T) {
	t.Parallel()
	const text = "Takes *.txt and <x>_[y],\nin a row.\n\nKinds:\n\n  a   one\n      more\nThe end."
	const want = "Takes \\*.txt and \\<x\\>\\_\\[y\\],\nin a row.\n\nKinds:\n\n\n      a   one\n          more\n\nThe end."
	if got := markdown(text); got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}
