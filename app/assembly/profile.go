package assembly

import (
	"go.uber.org/fx"

	"collab/app/assembly/config"
)

// choice is the adapter that implements one group of ports.
type choice struct {
	group    string
	adapter  string
	variable string // the variable that selects it; empty if there is only one adapter
	option   fx.Option
}

// profile returns the choices of a configuration, one for each group.
func profile(c config.Config) []choice {
	return []choice{
		chooseRecords(c),
		chooseBlobs(c),
		chooseBus(c),
		choosePayments(c),
		chooseModels(c),
		chooseAnalytics(c),
		chooseToolServers(c),
		chooseIdentity(c),
		chooseIdentityEvents(c),
		chooseServiceTokens(c),
		chooseSealing(c),
		chooseMail(c),
		chooseSystem(c),
	}
}

// options joins the choices.
func options(choices []choice) fx.Option {
	all := make([]fx.Option, len(choices))
	for i, c := range choices {
		all[i] = c.option
	}
	return fx.Options(all...)
}
