package spoe

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// logTarget has HAProxy log about connections into the file that has its own
// messages: nothing is lost there, as it can be on a socket.
const logTarget = "stdout format raw"

// logs finds lines in that file.
type logs struct {
	path string
	read int64 // bytes looked at
	// lines by the client's host:port, the oldest first: Linux gives a port out
	// again soon.
	lines map[string][]string
	// form of a line: the client and the time come first. HAProxy's own messages may be
	// split by one, so it may stand anywhere.
	form *regexp.Regexp
}

func newLogs(path string) *logs {
	return &logs{path: path, lines: map[string][]string{}, form: regexp.MustCompile(`(127\.0\.0\.1:\d+) \[.*`)}
}

// line waits for the line of one client's connection or request. HAProxy
// writes it when that has ended.
func (l *logs) line(client string) (string, error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if lines := l.lines[client]; len(lines) > 0 {
			l.lines[client] = lines[1:]
			return lines[0], nil
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("no line of %s in HAProxy's log", client)
		}
		if err := l.more(); err != nil {
			return "", err
		}
	}
}

// more takes in the lines that have come.
func (l *logs) more() error {
	f, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	news := make([]byte, info.Size()-l.read)
	n, err := f.ReadAt(news, l.read)
	if err != nil && n == 0 && len(news) > 0 {
		return err
	}
	news = news[:n]
	end := bytes.LastIndexByte(news, '\n') + 1
	l.read += int64(end)
	for line := range strings.Lines(string(news[:end])) {
		if m := l.form.FindStringSubmatch(line); m != nil {
			l.lines[m[1]] = append(l.lines[m[1]], m[0])
		}
	}
	return nil
}

// variable finds name=VALUE in a log line; HAProxy writes "-" for a variable
// that is not set.
func variable(line, name string) string {
	for _, word := range strings.Fields(line) {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value
		}
	}
	return ""
}
