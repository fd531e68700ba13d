package simulate

// at queues something to be done at a time of the model.
func (w *world) at(seconds float64, do func()) {
	w.actions = append(w.actions, do)
	w.queue.push(event{at: seconds, kind: disturb, id: int32(len(w.actions) - 1)})
}

// schedule queues what an event does to the servers; what it does to arrivals
// and rates is in the script and in ratesFactor.
func (w *world) schedule(e *Event) {
	begin := w.model.Warmup.Seconds() + e.At.Seconds()
	end := begin + e.For.Seconds()
	s := &w.servers[e.Server]
	switch e.Kind {
	case Restart:
		w.at(begin, func() { w.stop(e.Server) })
		w.at(end, func() { w.start(e.Server) })
	case Hot:
		w.at(begin, func() { w.heat(e.Server, e.Factor) })
	case Missing:
		w.at(begin, func() { s.silent++ })
		w.at(end, func() { s.silent-- })
	case Stuck:
		w.at(begin, func() { s.stuck++ })
		w.at(end, func() { s.stuck-- })
	}
}

// stop takes a server down. Its clients come again at once, each through any
// balancer, and stay as long as they would have.
func (w *world) stop(server int) {
	if w.servers[server].down {
		return
	}
	w.servers[server].down = true
	for _, b := range w.balancers {
		b.setUp(server, false)
	}
	for id := range w.conns {
		c := &w.conns[id]
		if !c.open || int(c.server) != server {
			continue
		}
		w.detach(int32(id))
		c.balancer = int32(w.reconnect.IntN(len(w.balancers)))
		c.since = w.now
		chosen := w.choose(c.balancer)
		if chosen < 0 {
			chosen = server // nowhere else to go: they wait for it
		} else {
			w.balancers[c.balancer].totals[chosen]++
		}
		w.attach(int32(id), chosen)
	}
}

// start brings a server back.
func (w *world) start(server int) {
	s := &w.servers[server]
	if !s.down {
		return
	}
	s.down = false
	s.upSince = wall(w.now)
	for _, b := range w.balancers {
		b.setUp(server, true)
	}
}

// heat scales the rates of a server's connections until its load is factor
// times the mean.
func (w *world) heat(server int, factor float64) {
	s := &w.servers[server]
	if s.load == 0 {
		return
	}
	w.touch(s)
	others, capacity := -s.load, -s.capacity
	for i := range w.servers {
		others += w.servers[i].load
		capacity += w.servers[i].capacity
	}
	scale := factor * others / capacity * s.capacity / s.load
	for id := range w.conns {
		if c := &w.conns[id]; c.open && int(c.server) == server {
			c.rate *= scale
		}
	}
	s.load *= scale
}
