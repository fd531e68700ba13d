package report

// The words for operators: what happened, meanwhile, what to do. No line has the
// prefix of the series in it, which may be the key of a hosted service.

import (
	"log/slog"
	"time"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
)

func tellLost(log *slog.Logger, carbon graphite.CarbonAddress, cause error, kept time.Duration) {
	log.Warn("the report does not reach carbon", "carbon", carbon.String(), "cause", cause.Error(),
		"meanwhile", "weights and SPOE answers go on as ever; the newest "+kept.String()+" of the report are kept, with their times, and sent when carbon is back",
		"do", "check that carbon or a relay runs at report.carbon, and takes plaintext lines there")
}

func tellBack(log *slog.Logger, carbon graphite.CarbonAddress, out graphite.Outage) {
	log.Info("the report reaches carbon again", "carbon", carbon.String(),
		"after", out.Lasted.Round(time.Millisecond).String(), "lines_dropped", out.Dropped)
}

func tellLeft(log *slog.Logger, carbon graphite.CarbonAddress, stats graphite.SenderStats) {
	log.Warn("this program ends while the report does not reach carbon: its last lines are lost",
		"carbon", carbon.String(), "lines_dropped", stats.Dropped)
}

func tellCollision(log *slog.Logger, c collision) {
	log.Warn("two names would be one series in the report", "names", c.other+" "+c.name, "of", c.where,
		"meanwhile", c.name+" is reported as "+c.as,
		"do", "give one of them another name, different in more than the characters that a series can't have")
}
