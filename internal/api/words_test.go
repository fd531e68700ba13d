package api

import (
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 59*time.Second + 900*time.Millisecond: "59s", time.Minute: "1m",
		90 * time.Second: "1m30s", time.Hour: "1h", time.Hour + 59*time.Second: "1h", 90 * time.Minute: "1h30m",
		day: "1d", 3*day + 4*time.Hour + 59*time.Minute: "3d4h", 400 * day: "400d",
	} {
		if got := Span(d); got != want {
			t.Errorf("%s: %s, want %s", time.Duration(d), got, want)
		}
	}
}
