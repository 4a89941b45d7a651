package wasm

import (
	"testing"

	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
