package cli

import "fmt"

// The words of "check --live" about what the daemon needs on its own machine; the
// rules are those of words.go.

const (
	wordsPageFree  = "free: status page, JSON and metrics can be served here"
	wordsPageOurs  = "haproxy-weighter answers: it runs already"
	wordsPageOther = "something else listens here"

	doPage        = `end the other program, or choose another address, or "off", for admin.listen: the daemon does not start like this`
	doPageDefault = `choose another address, or "off", for admin.listen; with this default the daemon starts all the same, without status page, JSON and metrics`
	doPageFolder  = "create the folder, for a user that haproxy-weighter may run as, or change admin.listen"

	doControl     = `look what is at this path, or choose another one, or "off", for admin.control`
	doControlFile = `remove it if nobody needs it, or choose another path for admin.control`
	doAsDaemon    = "check as the user that the daemon has: sudo -u haproxy-weighter haproxy-weighter check --live; if that says the same, give the folder and what is in it to that user"

	// wordsNoControl goes behind what to do about the default path.
	wordsNoControl = "; without it the daemon starts all the same, and the commands status, explain, history, pin and freeze don't work"

	doStateFolder = "make the folder, for the user that the daemon has (systemd: StateDirectory=haproxy-weighter), or choose another path for state.file"
	doState       = "see what is in it: at its next start the daemon reads nothing from it, and begins without the pins and freezes that it held; one that is no state file is moved aside then, with .bad behind its name"

	wordsCarbon = "takes connections; whether it keeps what it gets, only Graphite shows"
	doCarbon    = "look whether carbon runs, whether this is its port for plaintext lines, and what is between the two machines; weights never wait for it, but there are no reports"
)

func doControlFolder(folder string) string {
	return fmt.Sprintf("nothing, where systemd starts the daemon: it makes the folder (RuntimeDirectory=haproxy-weighter); else: mkdir -m 750 %s, for the user that the daemon has", shellQuote(folder))
}
