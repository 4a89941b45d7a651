package logs

import (
	"context"
	"io"
	"log/slog"
	"testing"
)

// benchmark measures records that find room: the writer gets time to catch up,
// which is not counted.
func benchmark(b *testing.B, log func(*slog.Logger)) {
	b.Helper()
	b.ReportAllocs()
	n, dropped := 0, uint64(0)
	var l *Log
	var logger *slog.Logger
	reopen := func() {
		b.StopTimer()
		if l != nil {
			if err := l.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
			dropped += l.Dropped()
		}
		var err error
		if l, err = New(Config{Writer: io.Discard, JSON: true}); err != nil {
			b.Fatal(err)
		}
		logger = slog.New(l.Handler()).With("pool", "images", "node", "a")
		b.StartTimer()
	}
	for b.Loop() {
		if n%1024 == 0 {
			reopen()
		}
		log(logger)
		n++
	}
	reopen()
	b.StopTimer()
	if err := l.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(dropped)/float64(n), "dropped/op")
}

// BenchmarkRecord is what a caller pays for a line of a worker.
func BenchmarkRecord(b *testing.B) {
	benchmark(b, func(l *slog.Logger) {
		l.LogAttrs(context.Background(), slog.LevelInfo, "a job has ended", slog.String("job", "01J9ZQ"), slog.Int("attempt", 1), slog.String("worker", "images-1"))
	})
}

// BenchmarkWarning finds the part of the buffer that is kept for it.
func BenchmarkWarning(b *testing.B) {
	benchmark(b, func(l *slog.Logger) {
		l.LogAttrs(context.Background(), slog.LevelWarn, "a job has ended", slog.String("job", "01J9ZQ"), slog.Any("error", io.ErrUnexpectedEOF))
	})
}

// BenchmarkBelowTheLevel is not logged.
func BenchmarkBelowTheLevel(b *testing.B) {
	benchmark(b, func(l *slog.Logger) {
		l.LogAttrs(context.Background(), slog.LevelDebug, "a request", slog.String("path", "/v1/jobs"))
	})
}
