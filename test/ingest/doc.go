// Package ingest is the case that haproxy-weighter exists for, in small: TCP
// servers that count the datapoints they receive, and long-lived clients whose
// rates differ by three orders of magnitude.
//
// A [Workload] and its seed give a [Plan]: who connects when, sends how fast
// and stays how long. The same seed gives the same plan, so that two policies
// meet exactly the same clients. [Clients] plays a plan against one address
// (a HAProxy), [Server] is what HAProxy balances to, and a [Feeder] reports
// each second what every server received, as a real ingest service would
// report to carbon.
//
// It is a library for the demo and for comparisons of policies; it imports
// nothing of this project and not the package testing.
package ingest
