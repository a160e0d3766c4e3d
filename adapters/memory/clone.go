package memory

import (
	"slices"

	"collab/domain/connector"
	"collab/domain/invitation"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/release"
	"collab/domain/replay"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/workspace"
)

// The functions of this file copy records so that nothing of the copy can be
// changed through the original.

// asIs is for records that hold nothing by reference.
func asIs[V any](v V) V { return v }

func clonePointer[V any](p *V) *V {
	if p == nil {
		return nil
	}
	return new(*p)
}

func cloneUser(u org.User) org.User {
	u.DeletedAt = clonePointer(u.DeletedAt)
	return u
}

func cloneOrg(o org.Organisation) org.Organisation {
	o.ClosedAt, o.ErasedAt = clonePointer(o.ClosedAt), clonePointer(o.ErasedAt)
	return o
}

func cloneMembership(m org.Membership) org.Membership {
	m.RemovedAt = clonePointer(m.RemovedAt)
	return m
}

func cloneInvitation(i invitation.Invitation) invitation.Invitation {
	i.AcceptedAt = clonePointer(i.AcceptedAt)
	return i
}

func cloneSubscription(s plan.Subscription) plan.Subscription {
	s.PurchasedSeats = clonePointer(s.PurchasedSeats)
	s.CurrentPeriodStart, s.CurrentPeriodEnd = clonePointer(s.CurrentPeriodStart), clonePointer(s.CurrentPeriodEnd)
	s.TrialEnd, s.Checkout = clonePointer(s.TrialEnd), clonePointer(s.Checkout)
	return s
}

func cloneRemote(r plan.Remote) plan.Remote {
	r.Seats, r.TrialEnd = clonePointer(r.Seats), clonePointer(r.TrialEnd)
	r.PeriodStart, r.PeriodEnd = clonePointer(r.PeriodStart), clonePointer(r.PeriodEnd)
	return r
}

func cloneTeam(t team.Team) team.Team {
	t.Description = clonePointer(t.Description)
	return t
}

func cloneWorkspace(w workspace.Workspace) workspace.Workspace {
	w.Description = clonePointer(w.Description)
	return w
}

func cloneTask(t task.Task) task.Task {
	t.Description, t.Assignee, t.Workspace = clonePointer(t.Description), clonePointer(t.Assignee), clonePointer(t.Workspace)
	t.Due, t.Tags = clonePointer(t.Due), slices.Clone(t.Tags)
	return t.Restore(t.Status(), clonePointer(t.CompletedAt()))
}

func cloneChange(c task.Change) task.Change {
	c.Fields = slices.Clone(c.Fields)
	for i, f := range c.Fields {
		c.Fields[i].From, c.Fields[i].To = clonePointer(f.From), clonePointer(f.To)
	}
	return c
}

func cloneReplay(r replay.Record) replay.Record {
	r.Answer = slices.Clone(r.Answer)
	return r
}

func cloneObject(o object.Object) object.Object {
	o.Workspace, o.Team, o.Owner = clonePointer(o.Workspace), clonePointer(o.Team), clonePointer(o.Owner)
	return o
}

func cloneEntry(c object.Change) object.Change {
	c.Object = cloneObject(c.Object)
	if c.Audience = clonePointer(c.Audience); c.Audience != nil {
		c.Audience.Users, c.Audience.Teams = slices.Clone(c.Audience.Users), slices.Clone(c.Audience.Teams)
	}
	return c
}

func cloneInstance(i connector.Instance) connector.Instance {
	i.Name, i.Tools = clonePointer(i.Name), slices.Clone(i.Tools)
	i.LastUsedAt, i.ExpiresAt, i.RenewAt, i.DueAt = clonePointer(i.LastUsedAt), clonePointer(i.ExpiresAt), clonePointer(i.RenewAt), clonePointer(i.DueAt)
	return i
}

func cloneSealed(s connector.Sealed) connector.Sealed {
	s.Entries, s.Renewal = slices.Clone(s.Entries), slices.Clone(s.Renewal)
	return s
}

func cloneFlow(f connector.Flow) connector.Flow {
	f.Server.AuthMethods, f.Server.Scopes = slices.Clone(f.Server.AuthMethods), slices.Clone(f.Server.Scopes)
	f.Verifier = slices.Clone(f.Verifier)
	return f
}

func cloneRegistered(r connector.Registered) connector.Registered {
	r.Secret, r.ExpiresAt = slices.Clone(r.Secret), clonePointer(r.ExpiresAt)
	return r
}

func cloneRevocation(r connector.Revocation) connector.Revocation {
	r.Renewal = slices.Clone(r.Renewal)
	return r
}

func cloneRelease(r release.Release) release.Release {
	r.SHA512, r.SHA1, r.FileSizeBytes = clonePointer(r.SHA512), clonePointer(r.SHA1), clonePointer(r.FileSizeBytes)
	r.Notes, r.MinOSVersion, r.Signature = clonePointer(r.Notes), clonePointer(r.MinOSVersion), clonePointer(r.Signature)
	return r
}

func cloneRevised(r revised) revised {
	r.Release = cloneRelease(r.Release)
	return r
}
