package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// What an order may say.
const (
	mostOrder   = 64 << 10 // bytes of a body
	mostReason  = 500      // bytes
	leastFor    = time.Second
	mostFor     = 30 * 24 * time.Hour
	mostWeight  = 256
	leastWeight = 1
	modeOfFile  = "file" // the mode that the file says
)

// rule says which fields an order has; those that it has not are refused.
type rule struct {
	server, weight, mode bool
	reason               bool // required; else it may be given
	lasts, mayLast       bool // a time is required; may be given
}

// rules has every order by its name.
var rules = map[string]rule{
	"pin":      {server: true, weight: true, reason: true, lasts: true},
	"unpin":    {server: true},
	"freeze":   {reason: true, lasts: true},
	"unfreeze": {},
	"mode":     {mode: true, reason: true, mayLast: true},
}

// decodeOrder reads the body of an order and checks all that can be checked
// without knowing the backends.
func decodeOrder(kind string, body []byte) (api.Order, error) {
	var o api.Order
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return api.Order{}, fmt.Errorf("the body is no order: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return api.Order{}, errors.New("the body is no order: something follows the object")
	}
	o.Reason = strings.TrimSpace(o.Reason)
	return o, rules[kind].check(kind, &o)
}

// check compares an order with the rule of its kind.
func (r rule) check(kind string, o *api.Order) error {
	switch {
	case o.Backend == "":
		return errors.New("backend is missing")
	case r.server && o.Server == "":
		return errors.New("server is missing")
	case !r.server && o.Server != "":
		return fmt.Errorf("%s takes no server: it is for the whole backend", kind)
	case !r.weight && o.Weight != 0:
		return fmt.Errorf("%s takes no weight", kind)
	case r.weight && (o.Weight < leastWeight || o.Weight > mostWeight):
		return fmt.Errorf("weight %d can't be pinned; allowed: %d to %d (0 would be a drain: use HAProxy's set server %s/%s state drain)",
			o.Weight, leastWeight, mostWeight, o.Backend, o.Server)
	case !r.mode && o.Mode != "":
		return fmt.Errorf("%s takes no mode", kind)
	case r.mode && o.Mode != string(config.Live) && o.Mode != string(config.Observe) && o.Mode != modeOfFile:
		return fmt.Errorf("mode %q: allowed: live, observe, and file for what the file says", o.Mode)
	case r.mode && o.Mode == modeOfFile && o.ForSeconds != 0:
		return errors.New("mode file takes no time: it ends the order that is in force")
	}
	if err := r.checkTime(kind, o.ForSeconds); err != nil {
		return err
	}
	if o.Reason == "" && !r.reason {
		return nil
	}
	return checkReason(o.Reason)
}

func (r rule) checkTime(kind string, seconds float64) error {
	switch {
	case seconds == 0 && r.lasts:
		return errors.New("for_seconds is missing: an order that nobody takes back has to end by itself")
	case seconds == 0:
		return nil
	case !r.lasts && !r.mayLast:
		return fmt.Errorf("%s takes no time: it ends what is in force", kind)
	case seconds < leastFor.Seconds() || seconds > mostFor.Seconds():
		return fmt.Errorf("for_seconds %g: allowed: %g to %g (30 days)", seconds, leastFor.Seconds(), mostFor.Seconds())
	}
	return nil
}

// checkReason refuses what others could not read in a log or a table.
func checkReason(reason string) error {
	switch {
	case reason == "":
		return errors.New("reason is missing: whoever sees this at night has to know why")
	case len(reason) > mostReason:
		return fmt.Errorf("the reason has %d bytes; allowed: up to %d", len(reason), mostReason)
	}
	for _, r := range reason {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return fmt.Errorf("the reason has a character that can't be printed (%U); allowed: one line of text", r)
		}
	}
	return nil
}
