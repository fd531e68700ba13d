package graphite

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"time"
)

// Metric is one data point to send. Its time is sent in whole seconds.
type Metric struct {
	Name  string // components between dots, see CarbonComponent
	Value float64
	Time  time.Time
}

// Bounds of names. Carbon keeps each component as a file name with a suffix
// (255 bytes), and the whole as a path.
const (
	maxComponent = 200
	maxName      = 1000
)

// isNameByte tells which characters of a name every carbon, relay and render
// API takes as they are: the others are globs, tags, separators, or make a
// series that no query finds.
func isNameByte(r rune) bool {
	return r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// CarbonComponent makes one component of a name of any text: what is not
// [A-Za-z0-9_-] becomes "_", and what is too long for a file is cut and marked
// with a hash of the whole. Different texts may give the same component.
func CarbonComponent(text string) string {
	if text == "" {
		return "_"
	}
	clean := strings.Map(func(r rune) rune {
		if isNameByte(r) {
			return r
		}
		return '_'
	}, text)
	if len(clean) <= maxComponent {
		return clean
	}
	return CarbonHashed(clean[:maxComponent-hashLength], text)
}

// hashLength is that of what CarbonHashed appends.
const hashLength = 9

// CarbonHashed appends "-" and eight hexadecimal digits to a component, which
// depend on text alone: for texts that would otherwise share a component.
func CarbonHashed(component, text string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return fmt.Sprintf("%s-%08x", component[:min(len(component), maxComponent-hashLength)], h.Sum32())
}

// CheckCarbonName says what is wrong with a name or a prefix of one: allowed
// are components of A-Z, a-z, 0-9, _ and - with a dot between them. The error
// does not quote the name, which may hold the key of a hosted service.
func CheckCarbonName(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("it is longer than %d bytes", maxName)
	}
	for component := range strings.SplitSeq(name, ".") {
		switch {
		case component == "":
			return errors.New("a part between dots is empty")
		case len(component) > maxComponent:
			return fmt.Errorf("a part between dots is longer than %d bytes", maxComponent)
		case strings.ContainsFunc(component, func(r rune) bool { return !isNameByte(r) }):
			return errors.New("it has a character other than letters, digits, _ and - between its dots")
		}
	}
	return nil
}

// check says why a metric can't be sent. One such line could end the
// connection for all lines behind it, or poison every sum with an Infinity.
func (m *Metric) check() error {
	if err := CheckCarbonName(m.Name); err != nil {
		return err
	}
	if math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
		return errors.New("its value is not finite")
	}
	if s := m.Time.Unix(); s <= 0 || s > math.MaxUint32 {
		return errors.New("its time can't be stored")
	}
	return nil
}

// appendLine appends the line of a checked metric.
func (m *Metric) appendLine(b []byte) []byte {
	b = append(b, m.Name...)
	b = append(b, ' ')
	form := byte('f')
	if abs := math.Abs(m.Value); abs >= 1e15 || abs < 1e-6 && abs > 0 {
		form = 'g' // hundreds of digits otherwise
	}
	b = strconv.AppendFloat(b, m.Value, form, -1, 64)
	b = append(b, ' ')
	b = strconv.AppendInt(b, m.Time.Unix(), 10)
	return append(b, '\n')
}
