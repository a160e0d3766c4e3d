package gormdb

// The reasons for statements on tenant tables without an organisation.
var (
	crossTenantMemberships    = crossTenant("memberships of one user: its organisations are what is read")
	crossTenantInvitations    = crossTenant("an invitation's token is all that an invited person has")
	crossTenantOldInvitations = crossTenant("old invitations of all organisations are removed")
	crossTenantCustomers      = crossTenant("a customer's id is the only reference to an organisation in the payment provider's messages")
	crossTenantDue            = crossTenant("due work is done for all organisations")
	crossTenantOverview       = crossTenant("an operator's list shows the seats, the subscription and the usage of each organisation in it")
	crossTenantHeads          = crossTenant("a server reads the logs of all organisations that its clients follow")
	crossTenantLogs           = crossTenant("old entries are removed from all logs")
	crossTenantBlobs          = crossTenant("all organisations share one store of blobs, from which garbage is removed")
	crossTenantVersions       = crossTenant("expired versions of objects are removed for all organisations")
	crossTenantLeases         = crossTenant("a server extends the leases of all its requests, and returns the tokens of expired ones of all organisations")
	crossTenantAudit          = crossTenant("an entry of the deployment belongs to no organisation")
	crossTenantConnectors     = crossTenant("tool servers are checked, and authorizations revoked, for all organisations")
	crossTenantSessions       = crossTenant("a session is found by its id in a token, and a user has sessions in several organisations")
	crossTenantDeviceGrants   = crossTenant("a device and the browser that its code is typed in name no organisation, and expired grants of all organisations are removed")
	crossTenantRequests       = crossTenant("the counts of past minutes are removed for all organisations")
	crossTenantUploads        = crossTenant("expired uploads of all organisations are removed")
	crossTenantFlows          = crossTenant("a provider's redirect contains only the state, and expired flows of all organisations are removed")
)

// crossTenant is the reason why a statement on a tenant table names no
// organisation.
type crossTenant string
