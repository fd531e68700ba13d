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
// and that is where the meter looks at the clock. What works for longer than an
// instruction does, or makes more than a few bytes, is a function of ours that
// calls spend. The longest instructions there are, by maxString, maxArray and
// maxRegisters, take some tenths of a millisecond.
//
// To measure what a state keeps takes long, a millisecond for a MiB or so. So
// it is done between calls, by who has called, and only when the process has
// allocated enough since the last time for the state to be over its limit: then
// it is due. Others allocate too: that costs a measurement and nothing else. A
// call is interrupted for it only when the process has allocated callAllowance
// in its course, and the clock stands still meanwhile. So a call can add to a
// state that is within its limit callAllowance and what is made in the two
// milliseconds around it.
type meter struct {
	now     func() time.Time
	measure func(limit int, rest func()) int // bytes that the state keeps; may stop at limit
	limit   time.Duration
	began   time.Time
	steps   uint // instructions so far
	work    int  // of builtin functions since the last look, in bytes or steps
	looked  time.Time
	stopped error         // why the script must end; nil while it may run
	done    chan struct{} // nil, or closed

	size    int           // bytes that the state kept when it was measured last
	made    uint64        // bytes that the process had allocated by then
	ran     time.Duration // of the calls since the memory was looked at between them
	wait    time.Duration // how long calls have run since due
	due     bool          // it must be measured before long
	from    uint64        // bytes that the process had allocated at the first look of the call, 0 before that
	allowed int           // bytes that it may allocate from then on

	readings [1]metrics.Sample
}

var _ context.Context = (*meter)(nil)

const (
	stepsPerLook = 16
	workPerLook  = 16 << 10
	// memoryEvery is how long a script runs between two looks at the memory.
	memoryEvery = time.Millisecond
	// memoryStep is the least that the process must have allocated since the
	// last measurement to make another one worth its time.
	memoryStep    = 8 << 20
	callAllowance = 16 << 20
)

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func newMeter(now func() time.Time, measure func(int, func()) int) *meter {
	m := &meter{now: now, measure: measure}
	m.readings[0].Name = "/gc/heap/allocs:bytes"
	m.made = m.allocated()
	return m
}

// begin starts the time of a call.
func (m *meter) begin(limit time.Duration) {
	m.work, m.stopped, m.done, m.from = 0, nil, nil, 0
	m.limit, m.began = limit, m.now()
	m.looked = m.began
}

// end notes how long the call has run. Short calls can keep something too.
func (m *meter) end() {
	took := m.now().Sub(m.began)
	if m.due {
		m.wait += took
	}
	if m.ran += took; m.ran >= memoryEvery {
		m.ran = 0
		m.due = m.due || m.allocated()-m.made >= uint64(max(memoryStep, memoryLimit-m.size))
	}
}

// overdue tells whether the state must not be used before it is measured:
// calls have run for so long since it was due.
func (m *meter) overdue() bool { return m.due && m.wait >= AnswerLimit }

// tend measures the state between two calls, and says what is wrong with it.
// rest is called now and then meanwhile; nil means nothing.
func (m *meter) tend(rest func()) error {
	m.sizeUp(rest)
	if m.size > memoryLimit {
		return errMemory
	}
	return nil
}

func (m *meter) sizeUp(rest func()) {
	m.size = m.measure(memoryLimit, rest)
	m.made, m.due, m.wait, m.ran = m.allocated(), false, 0, 0
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
		m.watchMemory()
		m.looked = m.now()
		m.began = m.began.Add(m.looked.Sub(now)) // a script can't help what that takes
	}
}

// watchMemory measures what the state keeps in the middle of a call, when the
// process has allocated enough meanwhile.
func (m *meter) watchMemory() {
	made := m.allocated()
	switch {
	case m.from == 0:
		m.from, m.allowed = made, callAllowance
	case made-m.from >= uint64(m.allowed):
		m.sizeUp(nil)
		m.from, m.allowed = m.made, max(callAllowance, memoryLimit-m.size)
		if m.size > memoryLimit {
			m.stop(errMemory)
		}
	}
}

// allocated is how many bytes the process has ever allocated.
func (m *meter) allocated() uint64 {
	metrics.Read(m.readings[:])
	return m.readings[0].Value.Uint64()
}

var errMemory = fmt.Errorf("it keeps more than %d MiB of memory", memoryLimit>>20)

func (m *meter) stop(why error) { m.stopped, m.done = why, closed }
