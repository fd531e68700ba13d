package simulate

import "sync"

// lazyScript draws a seed's script when the first run asks for it. The last
// user's reference is the only one left, so a long study does not hold all.
func lazyScript(m *Model, seed uint64) func() *script {
	return sync.OnceValue(func() *script { return newScript(m, seed, m.horizon()) })
}
