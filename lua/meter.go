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
	made     uint64 // bytes that the process had allocated when measured last
	ran      time.Duration
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
	// memoryStep is what the process must have allocated meanwhile to make
	// measuring worth its time.
	memoryStep = 8 << 20
	// measureEvery is how long calls run, all together, before the memory is
	// measured after a call: it finds what is kept from call to call.
	measureEvery = 2 * time.Millisecond
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
	m.limit, m.began = limit, m.now()
	m.looked, m.made = m.began, 0
	m.work, m.stopped, m.done = 0, nil, nil
}

// end notes what the call has run for. It returns why the state must not be
// used again, if that is so.
func (m *meter) end() error {
	if m.stopped != nil {
		return m.stopped
	}
	m.ran += m.now().Sub(m.began)
	if m.ran >= measureEvery {
		m.ran = 0
		m.weighMemory()
	}
	return m.stopped
}

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

// watchMemory measures when the process has allocated enough since the last
// time. Others allocate too: that costs a measurement and nothing else.
func (m *meter) watchMemory() {
	metrics.Read(m.readings[:])
	made := m.readings[0].Value.Uint64()
	if m.made == 0 { // the first look of a call is early enough to begin counting
		m.made = made
	}
	if made-m.made < memoryStep {
		return
	}
	m.made = made
	m.weighMemory()
}

var errMemory = fmt.Errorf("it keeps more than %d MiB of memory", memoryLimit>>20)

func (m *meter) weighMemory() {
	if m.measure(memoryLimit) > memoryLimit {
		m.stop(errMemory)
	}
}

func (m *meter) stop(why error) { m.stopped, m.done = why, closed }
