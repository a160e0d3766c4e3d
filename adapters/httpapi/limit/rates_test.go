package limit

import (
	"testing"
	"time"
)

func TestParseRates(t *testing.T) {
	checkParser(t, ParseRates, map[string]Rates{
		"off": {},
		"caller=1200/m,address=600/m,chat=60/m,credentials=30/m,webhook=9/s": {Rate{1200, time.Minute}, Rate{600, time.Minute}, Rate{60, time.Minute}, Rate{30, time.Minute}, Rate{9, time.Second}},
		" address=5/s ": {Address: Rate{5, time.Second}},
		"caller=1/h":    {Caller: Rate{1, time.Hour}},
	}, "", "caller", "caller=", "caller=5", "caller=5/d", "caller=0/m", "caller=-1/m", "other=5/m", "caller=5/m,caller=6/m", "caller=5/m,", "caller=x/m")
}
