package config

import "log/slog"

func readLog(t *table) Log {
	l := Log{Format: choice(t, "format", "text", "json")}
	switch choice(t, "level", "info", "debug", "warn", "error") {
	case "debug":
		l.Level = slog.LevelDebug
	case "warn":
		l.Level = slog.LevelWarn
	case "error":
		l.Level = slog.LevelError
	default:
		l.Level = slog.LevelInfo
	}
	return l
}
