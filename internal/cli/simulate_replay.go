package cli

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/api"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
	"github.com/haproxy-weighter/haproxy-weighter/internal/simulate"
	"github.com/haproxy-weighter/haproxy-weighter/weighting"
)

// replay runs simulate --series.
func (p *Program) replay(ctx context.Context, c *cobra.Command, f *simulateFlags) error {
	cfg, err := p.read(ctx)
	if err != nil {
		return err
	}
	backend, err := f.replayed(cfg)
	if err != nil {
		return err
	}
	r := simulate.Replay{Backend: *backend}
	if c.Flags().Changed("lag") {
		if r.Lag, err = c.Flags().GetDuration("lag"); err != nil || r.Lag < 0 {
			return usage(errors.New("--lag is below 0"))
		}
	}
	if c.Flags().Changed("lifetime") {
		if r.Lifetime, err = c.Flags().GetDuration("lifetime"); err != nil || r.Lifetime < time.Second {
			return usage(errors.New("--lifetime is below 1s"))
		}
	}
	file, err := os.Open(f.series)
	if err != nil {
		return usage(fmt.Errorf("--series: %w", err))
	}
	defer file.Close()
	series, err := simulate.ReadRecording(ctx, file)
	if err != nil {
		return failed(fmt.Errorf("%s: %w", f.series, err), hintRecording)
	}
	if backend.Capacity.Kind == "initial-weight" {
		p.hintf("%s", hintReplayCapacity)
	}
	switch {
	case f.csv:
		return p.replayCSV(ctx, &r, series)
	case f.json:
		return p.replayJSON(ctx, &r, series)
	}
	return p.replayTable(ctx, &r, series)
}

func (f *simulateFlags) replayed(c *config.Config) (*config.Backend, error) {
	if f.backend != "" {
		return find(c, f.backend)
	}
	if len(c.Backends) == 1 {
		return &c.Backends[0], nil
	}
	names := make([]string, len(c.Backends))
	for i := range c.Backends {
		names[i] = c.Backends[i].Name
	}
	return nil, usage(fmt.Errorf("%s has %s; say which with --backend", c.File, count(len(names), "backend")), api.NearNames("", names, "backends"))
}

func (p *Program) replayCSV(ctx context.Context, r *simulate.Replay, series []graphite.Series) error {
	w := csv.NewWriter(p.Stdout)
	if err := w.Write(simulate.ReplayHeading()); err != nil {
		return err
	}
	if err := r.Run(ctx, series, func(s simulate.ReplayStep) error { return s.WriteCSV(w) }); err != nil {
		return err
	}
	w.Flush()
	return w.Error()
}

func (p *Program) replayJSON(ctx context.Context, r *simulate.Replay, series []graphite.Series) error {
	steps := []simulate.ReplayStep{}
	if err := r.Run(ctx, series, func(s simulate.ReplayStep) error { steps = append(steps, s); return nil }); err != nil {
		return err
	}
	return p.writeJSON(struct {
		Backend string                `json:"backend"`
		Steps   []simulate.ReplayStep `json:"steps"`
	}{r.Backend.Name, steps})
}

// replayTable shows one line a pass and the weights at the end.
func (p *Program) replayTable(ctx context.Context, r *simulate.Replay, series []graphite.Series) error {
	passes := newTable("time", "verdict", ">fresh", ">mean load", ">max/mean", ">weights changed", ">least weight", "why not")
	var last simulate.ReplayStep
	written := 0
	err := r.Run(ctx, series, func(s simulate.ReplayStep) error {
		last = s
		least := 256
		for _, v := range s.Servers {
			least = min(least, v.Weight)
		}
		mean, imbalance := "-", "-" // no load is not a load of zero
		if s.Fresh > 0 {
			mean, imbalance = number(s.Mean), fixed(s.Imbalance, 3)
		}
		why, look := s.Why, plain
		if s.Verdict == weighting.Write {
			why, look = "", green
			written++
		} else if s.Verdict == weighting.Hold {
			look = yellow
		}
		passes.add(cell{text: s.Time.Format(time.RFC3339)}, cell{string(s.Verdict), look},
			cell{text: fmt.Sprintf("%d/%d", s.Fresh, s.InService)}, cell{text: mean}, cell{text: imbalance},
			cell{text: strconv.Itoa(s.Changes)}, cell{text: strconv.Itoa(least)}, cell{text: why})
		return nil
	})
	if err != nil {
		return failed(fmt.Errorf("backend %s: %w", r.Backend.Name, err))
	}
	end := newTable("server", ">load", ">age", ">share", ">weight", "reason")
	for _, v := range last.Servers {
		end.add(cell{text: v.Server}, cell{text: maybe(v.Load, number)}, cell{text: maybe(v.AgeSeconds, seconds)},
			cell{text: percent(v.Share)}, cell{text: strconv.Itoa(v.Weight), style: bold}, cell{text: v.Reason})
	}
	if err := p.writeTable(passes); err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "\nafter the last pass, %s:\n", last.Time.Format(time.RFC3339))
	if err := p.writeTable(end); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Stdout, "\npasses: %d, with new weights in %d of them; function %s. %s\n",
		len(passes.rows), written, r.Backend.Weighting.Function, wordsReplayed)
	return err
}

const (
	hintRecording      = "record one with: curl -d 'target=TARGET&from=-6h&format=json' GRAPHITE/render"
	hintReplayCapacity = `capacity = "initial-weight" needs HAProxy; in this replay every server counts 1`
	wordsReplayed      = "The loads are the recorded ones: weights that had really been set would have changed them."
)
