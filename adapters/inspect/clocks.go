package inspect

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxClockDifference is the largest difference between clocks that is not reported.
const maxClockDifference = 5 * time.Second

// Clocks compares the clocks of other systems with this machine's.
type Clocks struct {
	Now     func() time.Time
	Timeout time.Duration // of requests of its clients

	mu       sync.Mutex
	readings []reading
}

// reading is a time of another clock, and times of this machine's clock before and after it.
type reading struct {
	name          string
	remote        time.Time
	precision     time.Duration // theirs is rounded down to a multiple of it
	before, after time.Time
}

// difference returns the least time that the other clock is ahead, negative if it is behind.
// It is 0 if the time of the messages can explain the difference.
func (r reading) difference() time.Duration {
	if ahead := r.remote.Sub(r.after); ahead > 0 {
		return ahead
	}
	if behind := r.before.Sub(r.remote.Add(r.precision)); behind > 0 {
		return -behind
	}
	return 0
}

// Add records the time of a system's clock, read between before and after. It ignores all but
// the first reading of each system.
func (c *Clocks) Add(name string, remote time.Time, precision time.Duration, before, after time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, known := range c.readings {
		if known.name == name {
			return
		}
	}
	c.readings = append(c.readings, reading{name, remote, precision, before, after})
}

// Inspect reports the clocks that differ from this machine's.
func (c *Clocks) Inspect() (f Findings) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var agree []string
	for _, r := range c.readings {
		difference := r.difference().Round(100 * time.Millisecond)
		if difference.Abs() <= maxClockDifference {
			agree = append(agree, r.name)
			continue
		}
		direction := "ahead of"
		if difference < 0 {
			direction = "behind"
		}
		f.Wrong("keep the time of both machines by NTP: tokens and signed messages that are off by minutes are refused",
			"that of %s is %s %s this machine's", r.name, difference.Abs(), direction)
	}
	switch {
	case len(c.readings) == 0:
		f.Note("", "nothing to compare this machine's with")
	case len(agree) > 0:
		f.OK("this machine's agrees with %s", strings.Join(agree, ", "))
	}
	return f
}

// Client returns a client that adds the Date of each response of the named system.
func (c *Clocks) Client(name string) *http.Client {
	return &http.Client{Transport: dateTransport{c, name}, Timeout: c.Timeout}
}

// dateTransport adds the Date of each response to clocks.
type dateTransport struct {
	clocks *Clocks
	name   string
}

func (d dateTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	before := d.clocks.Now()
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	date, invalid := http.ParseTime(response.Header.Get("Date"))
	// A cache returns the Date of the response that it stored.
	age, _ := time.ParseDuration(response.Header.Get("Age") + "s")
	if invalid == nil && age >= 0 {
		d.clocks.Add(d.name, date.Add(age), time.Second, before, d.clocks.Now())
	}
	return response, nil
}
