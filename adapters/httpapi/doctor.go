package httpapi

import (
	"net/http"

	"collab/domain/fault"
	"collab/domain/org"
)

// Finding is the result of a check of the server's configuration. It contains no secrets.
type Finding struct {
	Check     string
	Verdict   string // ok, note or wrong
	Message   string
	Remedy    string      // what to do; empty: nothing
	Variables [][2]string // that Message and Remedy name, each with its help
}

type (
	doctorView struct {
		OK     bool          `json:"ok"`
		Checks []findingView `json:"checks"`
	}
	findingView struct {
		Check     string         `json:"check"`
		Verdict   string         `json:"verdict"`
		Message   string         `json:"message"`
		Remedy    string         `json:"remedy"`
		Variables []variableView `json:"variables"`
	}
	variableView struct {
		Name string `json:"name"`
		Help string `json:"help"`
	}
)

// doctorSeconds is the limit of the duration of a check of the configuration.
const doctorSeconds = 15

// examine replies with the findings of the checks of the configuration. Only one request at a time runs them, because
// they send requests to the systems of the configuration.
func (a *api) examine(c *call, _ org.Actor) error {
	if !a.doctor.TryLock() {
		return fault.New(fault.Limited, "The configuration is being checked for another request").RetryIn(doctorSeconds)
	}
	defer a.doctor.Unlock()
	v := doctorView{OK: true, Checks: []findingView{}}
	for _, f := range a.Doctor(c.r.Context()) {
		v.OK = v.OK && f.Verdict != "wrong"
		shown := findingView{f.Check, f.Verdict, f.Message, f.Remedy, []variableView{}}
		for _, variable := range f.Variables {
			shown.Variables = append(shown.Variables, variableView{variable[0], variable[1]})
		}
		v.Checks = append(v.Checks, shown)
	}
	c.Header()["Cache-Control"] = noStore
	return c.reply(http.StatusOK, v)
}
