package luahaproxy

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxyproc"
	"github.com/haproxy-weighter/haproxy-weighter/test/haproxytest"
)

// counter tells how often scripts of the same Lua have let HAProxy's thread do other things for a
// millisecond.
const counter = `
local pauses, msleep = 0, core.msleep
core.msleep = function(milliseconds)
  if milliseconds == 1 then
    pauses = pauses + 1
  end
  msleep(milliseconds)
end
core.register_fetches("pauses", function() return pauses end)
`

// TestManyServers: a table of 2,000 servers is read whole, in small pieces, once: an answer that is
// the same as before costs nothing more.
func TestManyServers(t *testing.T) {
	t.Parallel()
	haproxytest.ForEachVersion(t, func(t *testing.T, b haproxyproc.Binary) {
		many := func(first float64) *balancer.Table {
			x := table("ingest")
			for i := range 2000 {
				x.Rows = append(x.Rows, row(fmt.Sprintf("server-%04d", i), first+float64(i)))
			}
			return x
		}
		file := filepath.Join(t.TempDir(), "counter.lua")
		if err := os.WriteFile(file, []byte(counter), 0o600); err != nil {
			t.Fatal(err)
		}
		port := freePorts(t, 1)[0]
		l := listen(t, many(1))
		config := strings.Replace(global(t, "lua-load", l.address), "  lua-load", "  lua-load "+file+"\n  lua-load", 1) + defaults + fmt.Sprintf(`
frontend in
  bind 127.0.0.1:%d
  http-request return status 200 content-type text/plain lf-string "%%[lua.pauses] %%[lua.weighter_load(ingest)] %%[lua.weighter_load(ingest,server-1999)] %%[lua.weighter_best(ingest)]"
`, port)
		p := start(t, haproxyproc.Options{Binary: b.Path, Config: config})
		get := client(t, port)
		answer := func() (pauses int, rest string) {
			text, rest, _ := strings.Cut(get("/", nil), " ")
			pauses, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			return pauses, rest
		}
		awaitAnswer := func(want string) int {
			var pauses int
			until(t, p, func() (bool, string) {
				var rest string
				pauses, rest = answer()
				return rest == want, rest
			})
			return pauses
		}
		const values = 2000 * 15 // at least, and three passes over the rows
		first := awaitAnswer("1001 2000 server-0000")
		if least := (values + 3*2000) / 200; first < least {
			t.Errorf("read in %d pieces, want %d or more", first, least)
		}
		seen := l.requests("GET")
		until(t, p, func() (bool, string) { return l.requests("GET") >= seen+3, "not read again" })
		if again, _ := answer(); again != first {
			t.Errorf("the same answer was looked at again: %d pieces, then %d", first, again)
		}
		l.publish(many(2))
		if awaitAnswer("1002 2001 server-0000") == first {
			t.Error("a new table came in no piece")
		}
	})
}
