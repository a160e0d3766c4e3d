package httpapi

import (
	"net/http"

	"collab/domain/fault"
	"collab/domain/org"
)

type (
	// Finding is the result of a check of the server's configuration. It contains no secrets.
	Finding struct {
		Check     string     `json:"check"`
		Verdict   string     `json:"verdict"` // ok, note or wrong
		Message   string     `json:"message"`
		Remedy    string     `json:"remedy"`    // what to do; empty: nothing
		Variables []Variable `json:"variables"` // that Message and Remedy name; not nil
	}

	// Variable is a variable of the configuration.
	Variable struct {
		Name string `json:"name"`
		Help string `json:"help"`
	}

	doctorView struct {
		OK     bool      `json:"ok"`
		Checks []Finding `json:"checks"`
	}
)

// doctorSeconds is the limit of the duration of a check of the configuration.
const doctorSeconds = 15

// checkConfiguration replies with the findings of the checks of the configuration. Only one request at a time runs them,
// because they send requests to the systems of the configuration.
func (a *api) checkConfiguration(c *call, _ org.Actor) error {
	if !a.doctor.TryLock() {
		return fault.New(fault.Limited, "The configuration is being checked for another request").RetryIn(doctorSeconds)
	}
	defer a.doctor.Unlock()
	v := doctorView{OK: true, Checks: a.Doctor(c.r.Context())}
	for _, f := range v.Checks {
		v.OK = v.OK && f.Verdict != "wrong"
	}
	c.Header()["Cache-Control"] = noStore
	return c.reply(http.StatusOK, v)
}
