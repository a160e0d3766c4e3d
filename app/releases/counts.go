package releases

import (
	"context"
	"errors"
	"strings"
	"sync"

	"collab/domain/calendar"
	"collab/domain/release"
)

// counts holds the checks that are not stored yet.
type counts struct {
	mu      sync.Mutex
	all     map[countKey]*checkCount // guarded by mu
	day     calendar.Day             // of unknown; guarded by mu
	unknown map[string]struct{}      // versions without a release that are counted one by one; guarded by mu

	flushing sync.Mutex // held while they are stored

	devices devices
}

// devices holds the devices that checked on the present day, and on earlier days as far as they are
// not stored yet.
type devices struct {
	mu  sync.Mutex
	all map[deviceKey]*sketch // guarded by mu
}

type deviceKey struct {
	day    calendar.Day
	target release.Target
}

type sketch struct {
	release.Sketch
	stored bool
}

// add adds a device with an id.
func (d *devices) add(day calendar.Day, t release.Target, client string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := deviceKey{day, t}
	s := d.all[k]
	if s == nil {
		if d.all == nil {
			d.all = map[deviceKey]*sketch{}
		}
		s = &sketch{stored: true}
		d.all[k] = s
	}
	if s.Add(client) {
		s.stored = false
	}
}

// take returns the counts that are not stored, and forgets those of earlier days that are.
func (d *devices) take(day calendar.Day) (all []release.DailyDevices) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, s := range d.all {
		switch {
		case !s.stored:
			s.stored = true
			all = append(all, release.DailyDevices{Day: k.day, Target: k.target, Devices: s.Sketch})
		case k.day < day:
			delete(d.all, k)
		}
	}
	return all
}

// restore takes back the counts that take returned, as they were not stored.
func (d *devices) restore(all []release.DailyDevices) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range all {
		if s := d.all[deviceKey{one.Day, one.Target}]; s != nil {
			s.stored = false
		}
	}
}

type countKey struct {
	day     calendar.Day
	target  release.Target
	version string
}

type checkCount struct{ checks, offered int64 }

// add counts a check.
func (c *counts) add(day calendar.Day, t release.Target, v release.Version, known, offered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	version := v.Key() // without build metadata, which could have any number of values
	if version == "" || !known && !c.countedSeparately(day, version) {
		version = release.OtherVersions
	}
	n := checkCount{checks: 1}
	if offered {
		n.offered = 1
	}
	c.count(countKey{day, t, version}, n)
}

// count adds n to a count. The caller holds mu.
func (c *counts) count(k countKey, n checkCount) {
	total := c.all[k]
	if total == nil {
		if c.all == nil {
			c.all = map[countKey]*checkCount{}
		}
		total = &checkCount{}
		k.version = strings.Clone(k.version) // it may be a substring of a request
		c.all[k] = total
	}
	total.checks += n.checks
	total.offered += n.offered
}

// countedSeparately reports whether a version without a release is counted separately. The caller holds mu.
func (c *counts) countedSeparately(day calendar.Day, version string) bool {
	if c.day != day {
		c.day, c.unknown = day, map[string]struct{}{}
	}
	if _, ok := c.unknown[version]; ok {
		return true
	}
	if len(c.unknown) == release.MaxUnknown {
		return false
	}
	c.unknown[strings.Clone(version)] = struct{}{}
	return true
}

// take returns the counts and resets them.
func (c *counts) take() (all []release.CheckCount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, n := range c.all {
		all = append(all, release.CheckCount{Day: k.day, Target: k.target, Version: k.version, Checks: n.checks, Offered: n.offered})
	}
	c.all = nil
	return all
}

// FlushCounts adds this server's counts of checks, devices and reports to the store.
func (s *Releases) FlushCounts(ctx context.Context) error {
	s.counts.flushing.Lock()
	defer s.counts.flushing.Unlock()
	return errors.Join(s.flushChecks(ctx), s.flushDevices(ctx), s.flushReports(ctx))
}

// flushFor is FlushCounts for a request. A client that disconnects must not interrupt the write: see
// Close.
func (s *Releases) flushFor(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTimeout)
	defer cancel()
	return s.FlushCounts(ctx)
}

func (s *Releases) flushChecks(ctx context.Context) error {
	all := s.counts.take()
	if len(all) == 0 {
		return nil
	}
	err := s.Store.Deployment().Adoption().Add(ctx, all)
	if err != nil {
		s.counts.mu.Lock()
		defer s.counts.mu.Unlock()
		for _, t := range all {
			s.counts.count(countKey{t.Day, t.Target, t.Version}, checkCount{t.Checks, t.Offered})
		}
	}
	return err
}

func (s *Releases) flushDevices(ctx context.Context) error {
	all := s.counts.devices.take(calendar.DayOf(s.Clock.Now()))
	if len(all) == 0 {
		return nil
	}
	err := s.Store.Deployment().Adoption().AddDevices(ctx, all)
	if err != nil {
		s.counts.devices.restore(all)
	}
	return err
}
