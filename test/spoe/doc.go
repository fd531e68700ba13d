// Package spoe runs the shipped examples of haproxy-conf in a real HAProxy, with
// an SPOE agent that can be made to fail, servers that say who they are, and a
// receiver for HAProxy's log. Its tests hold that the examples route as they say
// and that no fault of the agent stops traffic; test/spoefaults prints what such
// a fault costs a connection.
//
// The package does not import "testing".
package spoe

import "time"

// patience bounds every wait for an event; it is no assertion on speed.
const patience = 60 * time.Second
