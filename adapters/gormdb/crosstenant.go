package gormdb

// All reasons for statements on tenant tables that are not about one organisation.
var (
	crossTenantMemberships = crossTenant("memberships of one user: which organisations there are is the question")
	crossTenantInvitations = crossTenant("an invitation's token is all that an invited person has")
	crossTenantCustomers   = crossTenant("a customer's id is all that the payment provider says of an organisation")
	crossTenantDue         = crossTenant("what is due is looked after for all organisations")
	crossTenantOverview    = crossTenant("an operator's list shows the seats and the subscription of each organisation in it")
	crossTenantHeads       = crossTenant("a server asks for the logs of all organisations that its clients follow")
	crossTenantLogs        = crossTenant("old entries are removed from all logs")
	crossTenantBlobs       = crossTenant("there is one store of blobs, and what nobody needs is removed from all of it")
	crossTenantLeases      = crossTenant("a server extends the leases of all its requests, and what anybody's hold is given back when they expire")
	crossTenantAudit       = crossTenant("an entry of the deployment belongs to no organisation")
	crossTenantConnectors  = crossTenant("tool servers are looked at, and authorizations taken back, for all organisations")
	crossTenantSessions    = crossTenant("a session is found by a token of it, and one user's are in all their organisations")
	crossTenantFlows       = crossTenant("a browser that comes back from a provider has nothing but the state, and what expired is removed for all organisations")
)

// crossTenant is the reason why a statement on a tenant table names no
// organisation.
type crossTenant string
