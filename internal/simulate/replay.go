package simulate

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/balancer"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// Replay puts a recorded answer of Graphite through a backend's configured
// function, as the daemon would have read it pass by pass. The loads are what
// they were: the replay shows what would have been set, not what would have
// come of it.
type Replay struct {
	Backend  config.Backend
	Lag      time.Duration // from the end of a step until Graphite had its point
	Lifetime time.Duration // mean connection lifetime that the function is told; 0 = unknown
}

// ReplayStep is one pass. Its JSON form is documented and stable.
type ReplayStep struct {
	Time      time.Time         `json:"time"`
	Verdict   weighting.Verdict `json:"verdict"`
	Why       string            `json:"why"`
	HoldCode  string            `json:"hold_code"`
	Fresh     int               `json:"fresh"`
	InService int               `json:"in_service"`
	Mean      float64           `json:"mean"`
	Imbalance float64           `json:"imbalance"` // max over mean; 0 when unknown
	Delay     float64           `json:"delay_seconds"`
	Gain      float64           `json:"gain"`
	Changes   int               `json:"changes"` // weights that would have been written
	Servers   []ReplayServer    `json:"servers"`
}

// ReplayServer is one server of a ReplayStep.
type ReplayServer struct {
	Server     string             `json:"server"`
	Load       *float64           `json:"load"` // null: no usable data
	AgeSeconds *float64           `json:"age_seconds"`
	Reason     string             `json:"reason"` // why there is no load; empty otherwise
	Share      float64            `json:"share"`
	Weight     int                `json:"weight"` // in force after the pass
	Reasons    []weighting.Reason `json:"reasons"`
}

// maxRecording is the largest recording that is read.
const maxRecording = 1 << 30

// nowhere stands for the address that a recording has not.
const nowhere = "http://recording"

// ReadRecording decodes a render answer (format=json) just as the daemon does.
func ReadRecording(ctx context.Context, in io.Reader) ([]graphite.Series, error) {
	body, err := io.ReadAll(io.LimitReader(in, maxRecording+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxRecording {
		return nil, fmt.Errorf("it is longer than %d bytes", maxRecording)
	}
	client, err := graphite.NewClient(graphite.Config{URL: nowhere, MaxBody: maxRecording, Transport: recording(body)})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	answer, err := client.Render(ctx, graphite.Request{Targets: []string{"recording"}, Window: time.Hour})
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "graphite at "+nowhere+": "))
	}
	if len(answer.Series) == 0 {
		return nil, errors.New("it holds no series")
	}
	return answer.Series, nil
}

// recording answers every request with its bytes: the way to the one decoder.
type recording []byte

// RoundTrip answers without any network.
func (r recording) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(r)),
		Body: io.NopCloser(bytes.NewReader(r)), Request: request,
	}, nil
}

// past shows a recording as Graphite had it at one moment.
type past struct {
	series []graphite.Series
	steps  []time.Duration // by series
	lag    time.Duration
	now    time.Time
}

// Render cuts the request's window out of the recording.
func (p *past) Render(_ context.Context, r graphite.Request) (*graphite.Answer, error) {
	until := p.now.Add(-r.Until)
	from := until.Add(-r.Window).Unix()
	answer := &graphite.Answer{Now: p.now}
	for i, s := range p.series {
		newest := min(until.Unix(), p.now.Add(-p.lag-p.steps[i]).Unix())
		lo := sort.Search(len(s.Points), func(j int) bool { return s.Points[j].Unix > from })
		hi := sort.Search(len(s.Points), func(j int) bool { return s.Points[j].Unix > newest })
		s.Points = s.Points[min(lo, hi):hi]
		answer.Series = append(answer.Series, s)
	}
	return answer, nil
}

// Run replays the recording. Each pass is given to step before the next one.
func (r *Replay) Run(ctx context.Context, series []graphite.Series, step func(ReplayStep) error) error {
	p := &past{series: series, lag: r.Lag}
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range series {
		points := series[i].Points
		p.steps = append(p.steps, stepOf(points))
		if len(points) > 0 {
			first, last = min(first, points[0].Unix), max(last, points[len(points)-1].Unix)
		}
	}
	if first > last {
		return errors.New("no series of the recording has a data point")
	}
	longest := slices.Max(p.steps)
	servers, err := r.servers(ctx, p, time.Unix(last, 0).Add(longest+r.Lag))
	if err != nil {
		return err
	}
	control := weighting.NewController(r.Backend.Weighting)
	var lastChange time.Time
	end := time.Unix(last, 0).Add(longest + r.Lag)
	for now := time.Unix(first, 0).Add(longest + r.Lag); !now.After(end); now = now.Add(r.Backend.Interval) {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.now = now.UTC()
		if err := r.read(ctx, p, servers); err != nil {
			return err
		}
		d := control.Decide(weighting.Input{Now: p.now, Servers: servers, Lifetime: r.Lifetime, LastChange: lastChange})
		s := newReplayStep(p.now, servers, d)
		if s.Changes > 0 {
			lastChange = p.now
		}
		if err := step(s); err != nil {
			return err
		}
	}
	return nil
}

// stepOf is the smallest distance of neighbouring stamps, a second when there is none.
func stepOf(points []graphite.Point) time.Duration {
	least := int64(math.MaxInt64)
	for i := 1; i < len(points); i++ {
		if d := points[i].Unix - points[i-1].Unix; d > 0 {
			least = min(least, d)
		}
	}
	if least == math.MaxInt64 {
		least = 1
	}
	return time.Duration(least) * time.Second
}

// servers are those that any series of the recording names, with equal
// weights at first.
func (r *Replay) servers(ctx context.Context, p *past, end time.Time) ([]weighting.Server, error) {
	p.now = end
	rows, err := balancer.Loads(ctx, p, r.Backend, r.names(p.series))
	if err != nil {
		return nil, err
	}
	var list []weighting.Server
	for _, row := range rows {
		known := slices.ContainsFunc(list, func(s weighting.Server) bool { return s.Name == row.Server })
		if row.Server == "" || row.Metric != "" || known {
			continue
		}
		capacity := 1.0
		if c, named := r.Backend.Capacity.Table[row.Server]; named {
			capacity = c
		}
		list = append(list, weighting.Server{
			Name: row.Server, Capacity: capacity, Weight: initialWeight, InitialWeight: initialWeight, Sessions: -1,
		})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no series of the recording names a server of backend %s: compare target, server_regexp and server_name with %q",
			r.Backend.Name, p.series[0].Name)
	}
	return list, nil
}

// names are the servers as a target with {server} needs them: there the
// daemon's series carry the servers' own names. Nil for every other target.
func (r *Replay) names(series []graphite.Series) []string {
	if !strings.Contains(r.Backend.Target, "{server}") {
		return nil
	}
	var list []string
	for i := range series {
		list = append(list, series[i].Name)
	}
	return list
}

// read fills in the loads of one pass.
func (r *Replay) read(ctx context.Context, p *past, servers []weighting.Server) error {
	backend := r.Backend
	rows, err := balancer.Loads(ctx, p, backend, r.names(p.series))
	if err != nil {
		return err
	}
	answer, err := p.Render(ctx, graphite.Request{Window: backend.Window, Until: backend.Until})
	if err != nil {
		return err
	}
	for i := range servers {
		s := &servers[i]
		s.Load, s.LoadTime, s.DataAge, s.Metrics = math.NaN(), time.Time{}, 0, nil
		s.Reason = "the recording has no series for it"
		for j := range min(len(rows), len(answer.Series)) {
			if rows[j].Server != s.Name {
				continue
			}
			got, err := answer.Series[j].Reduce(backend.Aggregate, p.now, backend.MaxAge)
			if usable := err == nil && rows[j].Reason == ""; rows[j].Metric != "" {
				if usable {
					addMetric(s, rows[j].Metric, got.Value)
				}
			} else if s.Reason = rows[j].Reason; usable {
				s.Load, s.LoadTime, s.DataAge = got.Value, got.Time, got.MidAge
			}
		}
	}
	return nil
}

// addMetric notes a further value for a script.
func addMetric(s *weighting.Server, name string, value float64) {
	if s.Metrics == nil {
		s.Metrics = make(map[string]float64)
	}
	s.Metrics[name] = value
}

// newReplayStep records a pass and puts its weights in force.
func newReplayStep(now time.Time, servers []weighting.Server, d *weighting.Decision) ReplayStep {
	step := ReplayStep{
		Time: now, Verdict: d.Verdict, Why: d.Why, HoldCode: d.HoldCode, Fresh: d.Fresh, InService: d.InService,
		Mean: d.Mean, Imbalance: d.MaxOverMean, Delay: d.Delay.Seconds(), Gain: d.Gain,
	}
	for i := range servers {
		s := &servers[i]
		row := ReplayServer{
			Server: s.Name, Reason: s.Reason, Share: d.Servers[i].Share, Weight: s.Weight,
			Reasons: slices.Clone(d.Servers[i].Reasons),
		}
		if !math.IsNaN(s.Load) {
			load, age := s.Load, now.Sub(s.LoadTime).Seconds()
			row.Load, row.AgeSeconds = &load, &age
		}
		if d.Verdict == weighting.Write && d.Servers[i].Weight != s.Weight {
			s.Weight = d.Servers[i].Weight
			row.Weight = s.Weight
			step.Changes++
		}
		step.Servers = append(step.Servers, row)
	}
	return step
}

// ReplayHeading is the first line of the CSV form of a replay.
func ReplayHeading() []string {
	return []string{"time", "server", "load", "age_seconds", "share", "weight", "verdict"}
}

// WriteCSV writes one line a server.
func (s *ReplayStep) WriteCSV(w *csv.Writer) error {
	maybe := func(x *float64) string {
		if x == nil {
			return ""
		}
		return csvNumber(*x)
	}
	for _, v := range s.Servers {
		if err := w.Write([]string{
			s.Time.Format(time.RFC3339), v.Server, maybe(v.Load), maybe(v.AgeSeconds),
			csvNumber(v.Share), strconv.Itoa(v.Weight), string(s.Verdict),
		}); err != nil {
			return err
		}
	}
	return nil
}
