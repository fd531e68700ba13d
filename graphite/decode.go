package graphite

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// decodeError is a body that is no answer.
type decodeError struct {
	kind  Kind
	text  string
	quote int // the text goes on with what the body has there; -1: it does not
}

// decode reads a body: a JSON list of series.
//
// encoding/json can't be used for it. It turns null in a float64 into 0, gives
// up on the whole body at 1e9999 or at a number as name, and takes null for an
// empty list; with raw messages for all of that it is too slow for 10,000 series.
// So the body is walked once, with JSON's grammar and two liberties that some
// servers need: NaN and Infinity as values, which make a point that isn't usable,
// and a name with escapes that JSON doesn't know, which makes a fault of its series.
func decode(body []byte) ([]Series, *decodeError) {
	d := &decoder{scanner: scanner{body: body}}
	d.space()
	if d.at == len(body) {
		return nil, &decodeError{KindEmpty, "it answered 200 with an empty body: check the proxy in front of it", -1}
	}
	if body[d.at] != '[' {
		return nil, notAList(body)
	}
	// One allocation for the points of all series. Each needs its own bracket and
	// six bytes, so a hostile body can't ask for much more than its own size.
	d.points = make([]Point, 0, min(bytes.Count(body, []byte{']'}), len(body)/6))
	// The same for the series: thirteen bytes each, and no growth that copies.
	series := make([]Series, 0, min(bytes.Count(body, []byte(`"datapoints"`)), mostSeries+1))
	d.at++
	wrongShape, tooMany := 0, false
	ok := d.list(']', func() bool {
		s, shape, ok := d.series()
		if !shape {
			if wrongShape++; wrongShape > mostMisshapen {
				return ok
			}
		}
		series = append(series, s)
		tooMany = len(series) > mostSeries
		return ok && !tooMany
	})
	if tooMany {
		return nil, tooManySeries()
	}
	if d.space(); !ok || d.at != len(body) {
		return nil, &decodeError{KindNotJSON, fmt.Sprintf("its answer is no whole JSON: it breaks at byte %d of %d, near ", d.at, len(body)), d.at}
	}
	if wrongShape > 0 && min(wrongShape, mostMisshapen) == len(series) {
		return nil, &decodeError{KindNotSeries, fmt.Sprintf("its answer is JSON, but no list of Graphite series (first: %s): "+
			"check that url is a render API and that its parameters name no other format", series[0].Fault), -1}
	}
	return series, nil
}

// mostSeries is how many series an answer may have: ten times what the largest
// backend that anybody has measured needs. Of more, each takes many times the
// few bytes that it has in the body, here and in whoever reads the answer.
const mostSeries = 100_000

func tooManySeries() *decodeError {
	return &decodeError{KindTooLarge, fmt.Sprintf("its answer has more than %d series: narrow the target", mostSeries), -1}
}

// mostMisshapen is how many elements that are no series are kept, to tell of
// them: two bytes make one, and thirty times as many hold it.
const mostMisshapen = 100

// notAList explains a body that doesn't begin with a bracket.
func notAList(body []byte) *decodeError {
	if !json.Valid(body) {
		return &decodeError{KindNotJSON, "its answer is called JSON but is none; it begins with ", 0}
	}
	return &decodeError{KindNotSeries, "its answer is JSON, but not a list of series; it begins with ", 0}
}

type decoder struct {
	scanner
	points []Point
}

// series reads one element of the list. shape is false when it isn't what a
// render API sends at all; ok is false when it isn't JSON.
func (d *decoder) series() (s Series, shape, ok bool) {
	if d.peek() != '{' {
		ok = d.value(0)
		return Series{Fault: "it is no JSON object"}, false, ok
	}
	d.badString = false
	named, pointed := false, false
	var nameFault, pointFault string
	d.at++
	ok = d.list('}', func() bool {
		key, ok := d.key()
		if !ok {
			return false
		}
		switch string(key) { // a conversion that doesn't allocate
		case "target":
			named = true
			s.Name, nameFault, ok = d.name()
		case "datapoints":
			pointed = true
			s.Points, s.OutOfRange, pointFault, ok = d.datapoints()
		default:
			ok = d.value(0)
		}
		return ok
	})
	switch {
	case d.badString:
		s.Fault = "it contains an escape that JSON does not know: give it a plain name, with aliasByNode or alias"
	case !pointed:
		s.Fault = "it has no datapoints"
	case pointFault != "":
		s.Fault = pointFault
	case !named:
		s.Fault = "it has no name"
	case nameFault != "":
		s.Fault = nameFault
	}
	return s, pointed && pointFault == "", ok
}

// key reads `"key" :`. A key with odd escapes matches nothing.
func (d *decoder) key() ([]byte, bool) {
	raw, ok := d.label()
	if !ok || bytes.IndexByte(raw, '\\') < 0 {
		return bytes.Trim(raw, `"`), ok
	}
	key, _ := unquote(raw)
	return []byte(key), true
}

// name reads the value of "target". A bad alias makes it a number or a list,
// a node out of range makes it empty.
func (d *decoder) name() (name, fault string, ok bool) {
	if d.peek() != '"' {
		start := d.at
		ok = d.value(0)
		name = clip(string(d.body[start:d.at]), 80)
		return name, fmt.Sprintf("its name is %s, not a text: check alias() in the target", name), ok
	}
	raw, ok := d.quoted()
	name, sound := unquote(raw)
	if !sound { // quoted has set badString, which makes the fault
		return clip(string(raw), 80), "", ok
	}
	if name == "" {
		fault = "its name is empty: check the node number of aliasByNode in the target"
	}
	return name, fault, ok
}

// unquote returns the text of a quoted string; ok is false when JSON wouldn't.
func unquote(raw []byte) (string, bool) {
	if len(raw) < 2 {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	if plain(inner) {
		return string(inner), true
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

func plain(s []byte) bool {
	ascii := true
	for _, c := range s {
		if c < ' ' || c == '\\' {
			return false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	return ascii || utf8.Valid(s)
}

// datapoints reads the value of "datapoints". The points lie in d.points, the
// slice returned can't grow into those of the next series.
func (d *decoder) datapoints() (points []Point, outOfRange int, fault string, ok bool) {
	if d.peek() != '[' {
		return nil, 0, "its datapoints are no list", d.value(0)
	}
	start, sorted := len(d.points), true
	d.at++
	ok = d.list(']', func() bool {
		at := d.at
		p, inRange, ok := d.point()
		if !ok {
			d.at = at
			fault = "one of its data points is not [value, time]"
			return d.value(0)
		}
		if !inRange {
			outOfRange++
		}
		if n := len(d.points); n > start && d.points[n-1].Unix > p.Unix {
			sorted = false
		}
		d.points = append(d.points, p)
		return true
	})
	if fault != "" || !ok {
		d.points = d.points[:start]
		return nil, 0, fault, ok
	}
	points = d.points[start:len(d.points):len(d.points)]
	if !sorted {
		slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(a.Unix, b.Unix) })
	}
	return points, outOfRange, "", ok
}

// maxUnix bounds stamps so that differences of two can't overflow. It is the
// last second that a float64 holds exactly, some 285 million years away.
const maxUnix = 1 << 53

// point reads `[value, time]`; ok is false for any other shape.
func (d *decoder) point() (p Point, inRange, ok bool) {
	if d.peek() != '[' {
		return p, false, false
	}
	d.at++
	d.space()
	if p.Value, inRange, ok = d.pointValue(); !ok {
		return p, false, false
	}
	d.space()
	if d.peek() != ',' {
		return p, false, false
	}
	d.at++
	d.space()
	stamp, _, ok := d.number()
	if !ok || !(math.Abs(stamp) <= maxUnix) {
		return p, false, false
	}
	p.Unix = int64(math.Floor(stamp))
	d.space()
	if d.peek() != ']' {
		return p, false, false
	}
	d.at++
	return p, inRange, true
}

// pointValue reads a number or null. NaN is the value of whatever is none;
// inRange is false for a number that no float64 holds.
func (d *decoder) pointValue() (v float64, inRange, ok bool) {
	switch d.peek() {
	case 'n', 'N':
		return math.NaN(), true, d.literal("null") || d.literal("NaN")
	case 'I':
		return math.NaN(), false, d.literal("Infinity")
	case '-':
		if d.literal("-Infinity") {
			return math.NaN(), false, true
		}
	}
	return d.number()
}

// faultDuplicates marks the series that share a name: there is no telling which
// of them is the server's, and the last one is as wrong as the first. A series
// with another fault counts: it is there, and it has the name.
func faultDuplicates(series []Series) {
	count := make(map[string]int, len(series))
	for i := range series {
		count[series[i].Name]++
	}
	if len(count) == len(series) {
		return
	}
	texts := make(map[int]string) // by count: a hostile answer has half a million to tell of
	for i := range series {
		s := &series[i]
		n := count[s.Name]
		if s.Fault != "" || n < 2 {
			continue
		}
		if texts[n] == "" {
			texts[n] = "the answer has " + strconv.Itoa(n) + " series of this name: make the names differ (aliasByNode, aliasByTags), or name the target once"
		}
		s.Fault = texts[n]
	}
}
