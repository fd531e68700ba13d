package ingest

import (
	"sync"
	"time"
)

const (
	meterSlot  = 100 * time.Millisecond
	meterSlots = 10 // one second
)

// meter counts datapoints and knows the rate of the last second.
type meter struct {
	mu    sync.Mutex
	total int64
	// slots hold counts by time; one more than a second's worth, because the
	// slot in progress is not part of the rate.
	slots [meterSlots + 1]int64
	last  int64 // number of the newest slot
}

// slotAt numbers the slots of all time.
func slotAt(now time.Time) int64 { return now.UnixNano() / int64(meterSlot) }

// advanceLocked empties the slots between the newest one and now.
func (m *meter) advanceLocked(slot int64) {
	for m.last = max(m.last, slot-int64(len(m.slots))); m.last < slot; {
		m.last++
		m.slots[m.last%int64(len(m.slots))] = 0
	}
}

// add counts n datapoints received at now.
func (m *meter) add(now time.Time, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advanceLocked(slotAt(now))
	m.total += n
	m.slots[m.last%int64(len(m.slots))] += n
}

// read returns the total and the datapoints of the last whole second before now.
func (m *meter) read(now time.Time) (total int64, rate float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	slot := slotAt(now)
	m.advanceLocked(slot)
	for i, n := range m.slots {
		if int64(i) != m.last%int64(len(m.slots)) {
			rate += float64(n)
		}
	}
	return m.total, rate
}
