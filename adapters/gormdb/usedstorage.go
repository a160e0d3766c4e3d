package gormdb

import (
	"context"

	"collab/domain/id"
	"collab/domain/object"
)

// lockedHead is the head of a log that a transaction has locked, with the organisation's usage
// of the store.
type lockedHead struct {
	object.Head
	usage   object.Usage
	counted bool // usage is known
	changed bool // usage differs from the stored one
}

// usageColumns are the columns of log_heads by class.
var usageColumns = [...]string{
	object.SharedFiles: "shared_bytes", object.PersonalFiles: "personal_bytes",
	object.Memories: "memory_bytes", object.Versions: "version_bytes",
}

// set sets the parameters of updateHead.
func (h *lockedHead) set(c command) command {
	countedN := int64(-1) // no number of an entry
	if h.counted {
		countedN = h.N
	}
	c = c.set("n", h.N).set("counted_n", countedN)
	for class, column := range usageColumns {
		c = c.set(column, h.usage[class])
	}
	return c
}

func (c *conn) storeHead(ctx context.Context, o id.Org, h *lockedHead) error {
	_, err := exec(ctx, c.write, "Log", h.set(storeHead.of(o)))
	return err
}

func (r *logHeadRow) usage() (object.Usage, bool) {
	return object.Usage{r.SharedBytes, r.PersonalBytes, r.MemoryBytes, r.VersionBytes}, r.CountedN == r.N
}

// grow adds to the usage of an organisation whose log the transaction has locked.
func (c *conn) grow(o id.Org, class object.Class, growth int64) {
	if h := c.heads[o]; h.counted && growth != 0 {
		h.usage[class], h.changed = h.usage[class]+growth, true
	}
}

// storeUsage stores the usage that no appended change has stored.
func (c *conn) storeUsage(ctx context.Context) error {
	for o, h := range c.heads {
		if !h.changed {
			continue
		}
		if err := c.storeHead(ctx, o, h); err != nil {
			return err
		}
		h.changed = false
	}
	return nil
}

// Used sums the sizes of objects and earlier versions where the stored usage does not count. A transaction that has
// locked the log stores the sums.
func (s storage) Used(ctx context.Context, orgs []id.Org) (map[id.Org]object.Usage, error) {
	used := make(map[id.Org]object.Usage, len(orgs))
	for _, o := range orgs {
		used[o] = object.Usage{}
	}
	var read, sum []id.Org
	for _, o := range validIDs(orgs) {
		switch h := s.heads[o]; {
		case h == nil:
			read = append(read, o)
		case h.counted:
			used[o] = h.usage
		default:
			sum = append(sum, o)
		}
	}
	if of, some := headTable.ofEach(s.read, read); some {
		err := each(ctx, of, func(r *logHeadRow) (logHeadRow, error) { return *r, nil }, func(r logHeadRow) error {
			usage, counted := r.usage()
			if counted {
				used[r.OrgID] = usage
			} else {
				sum = append(sum, r.OrgID)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(sum) > 0 {
		var r objectRow
		earlier := false
		c := sumSizes[s.dialect].crossTenant(crossTenantOverview).set("orgs", list(s.dialect, sum))
		err := eachRow(ctx, s.read, "Object", c, []any{&r.OrgID, &r.Place.Kind, &r.Place.Scope, &r.Content.Size, &earlier}, func() error {
			usage, class := used[r.OrgID], object.Place(r.Place).Class()
			if earlier {
				class = object.Versions
			}
			usage[class] += r.Content.Size
			used[r.OrgID] = usage
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, o := range sum {
		if h := s.heads[o]; h != nil {
			h.usage, h.counted, h.changed = used[o], true, true
		}
	}
	return used, nil
}
