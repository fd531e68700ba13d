package lua

import (
	"context"
	"fmt"
	"runtime/metrics"
	"time"

	engine "github.com/yuin/gopher-lua"
)

// meter limits what a call may take of time and memory. To the engine it is a
// context: the engine asks Done before each instruction, in its own goroutine,
// and that is where the meter looks at the clock and, every millisecond, at
// the memory. What works for longer than an instruction does, or makes more
// than a few bytes, is a function of ours that calls spend.
type meter struct {
	now      func() time.Time
	measure  func(limit int) int // bytes that the state keeps; may stop at limit
	limit    time.Duration
	began    time.Time
	steps    uint // instructions so far
	work     int  // of builtin functions since the last look, in bytes or steps
	looked   time.Time
	size     int           // bytes that the state kept when measured last
	made     uint64        // bytes that the process had allocated by then
	ran      time.Duration // of the calls since the memory was looked at between them
	stopped  error         // why the script must end; nil while it may run
	done     chan struct{} // nil, or closed
	readings [1]metrics.Sample
}

var _ context.Context = (*meter)(nil)

const (
	stepsPerLook = 64
	workPerLook  = 16 << 10
	// memoryEvery is how long a script runs between two looks at the memory:
	// what it can make in that time is what it can have above the limit.
	memoryEvery = time.Millisecond
	// memoryStep is the least that the process must have allocated since the
	// last measurement to make another one worth its time.
	memoryStep = 8 << 20
)

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func newMeter(now func() time.Time, measure func(int) int) *meter {
	m := &meter{now: now, measure: measure}
	m.readings[0].Name = "/gc/heap/allocs:bytes"
	return m
}

// begin starts the time of a call.
func (m *meter) begin(limit time.Duration) {
	m.work, m.stopped, m.done = 0, nil, nil
	if m.ran >= memoryEvery { // short calls can keep something too
		m.ran = 0
		m.watchMemory()
	}
	m.limit, m.began = limit, m.now()
	m.looked = m.began
}

// end notes how long the call has run.
func (m *meter) end() { m.ran += m.now().Sub(m.began) }

// Done is asked before each instruction: a closed channel ends the script.
func (m *meter) Done() <-chan struct{} {
	if m.steps++; m.steps%stepsPerLook == 0 {
		m.look()
	}
	return m.done
}

// Err says why.
func (m *meter) Err() error { return m.stopped }

// Deadline is not told: the clock may be a test's.
func (m *meter) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value has none.
func (m *meter) Value(any) any { return nil }

// spend notes work of a builtin function, and raises an error in the script
// when it must end.
func (m *meter) spend(l *engine.LState, work int) {
	if m.work += work; m.work < workPerLook {
		return
	}
	m.work = 0
	m.look()
	if m.stopped != nil {
		l.RaiseError("%s", m.stopped.Error())
	}
}

func (m *meter) look() {
	now := m.now()
	switch {
	case m.stopped != nil:
	case now.Sub(m.began) > m.limit:
		m.stop(fmt.Errorf("it ran longer than %s", m.limit))
	case now.Sub(m.looked) >= memoryEvery:
		m.looked = now
		m.watchMemory()
	}
}

// watchMemory measures what the state keeps, when the process has allocated
// enough since the last time for it to be over the limit by now. Others
// allocate too: that costs a measurement and nothing else.
func (m *meter) watchMemory() {
	metrics.Read(m.readings[:])
	made := m.readings[0].Value.Uint64()
	if made-m.made < uint64(max(memoryStep, memoryLimit-m.size)) {
		return
	}
	m.made, m.size = made, m.measure(memoryLimit)
	if m.size > memoryLimit {
		m.stop(errMemory)
	}
}

var errMemory = fmt.Errorf("it keeps more than %d MiB of memory", memoryLimit>>20)

func (m *meter) stop(why error) { m.stopped, m.done = why, closed }
