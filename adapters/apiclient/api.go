// Code generated from docs/openapi.yaml by generate_test.go; DO NOT EDIT.

package apiclient

import (
	"context"
	"net/http"
	"time"
)

// ListOrganisations is GET /api/v1/admin/organisations: List organisations.
func (c *Client) ListOrganisations(ctx context.Context, params ListOrganisationsParams) (*List[Overview], error) {
	return list[Overview](c, c.request(ctx, http.MethodGet, "/api/v1/admin/organisations", params, nil, 0))
}

// GetOrganisation is GET /api/v1/admin/organisations/{id}: Get an organisation.
func (c *Client) GetOrganisation(ctx context.Context, id string) (Overview, error) {
	return receive[Overview](c, c.request(ctx, http.MethodGet, "/api/v1/admin/organisations/"+segment(id), nil, nil, 0))
}

// ListOrganisationMembers is GET /api/v1/admin/organisations/{id}/members: List an organisation's members.
func (c *Client) ListOrganisationMembers(
	ctx context.Context, id string, params ListOrganisationMembersParams,
) (*List[Member], error) {
	return list[Member](c, c.request(ctx, http.MethodGet,
		"/api/v1/admin/organisations/"+segment(id)+"/members", params, nil, 0))
}

// SetRole is PUT /api/v1/admin/organisations/{id}/members/{userId}/role: Set a member's role.
func (c *Client) SetRole(ctx context.Context, id string, userId string, body RoleChange) (Member, error) {
	return receive[Member](c, c.request(ctx, http.MethodPut,
		"/api/v1/admin/organisations/"+segment(id)+"/members/"+segment(userId)+"/role", nil, body, 0))
}

// GrantSubscription is PUT /api/v1/admin/organisations/{id}/subscription: Grant a subscription.
func (c *Client) GrantSubscription(ctx context.Context, id string, body Grant) (Overview, error) {
	return receive[Overview](c, c.request(ctx, http.MethodPut,
		"/api/v1/admin/organisations/"+segment(id)+"/subscription", nil, body, 0))
}

// StartDeviceSignIn is POST /api/v1/auth/device: Start signing in a device.
func (c *Client) StartDeviceSignIn(ctx context.Context, body DeviceStart) (DeviceCodes, error) {
	return receive[DeviceCodes](c, c.request(ctx, http.MethodPost, "/api/v1/auth/device", nil, body, open|keyed))
}

// ClaimDeviceToken is POST /api/v1/auth/device/token: Get the token of a device.
func (c *Client) ClaimDeviceToken(ctx context.Context, body DeviceClaim) (DeviceSession, error) {
	return receive[DeviceSession](c, c.request(ctx, http.MethodPost, "/api/v1/auth/device/token", nil, body, open|keyed))
}

// ExchangeToken is POST /api/v1/auth/exchange-token: Get a service token.
func (c *Client) ExchangeToken(ctx context.Context, body Exchange) (Session, error) {
	return receive[Session](c, c.request(ctx, http.MethodPost, "/api/v1/auth/exchange-token", nil, body, open|keyed))
}

// GetMe is GET /api/v1/auth/me: Get the caller.
func (c *Client) GetMe(ctx context.Context) (Me, error) {
	return receive[Me](c, c.request(ctx, http.MethodGet, "/api/v1/auth/me", nil, nil, 0))
}

// RefreshToken is POST /api/v1/auth/refresh: Refresh a service token.
func (c *Client) RefreshToken(ctx context.Context, body Refresh) (Session, error) {
	return receive[Session](c, c.request(ctx, http.MethodPost, "/api/v1/auth/refresh", nil, body, open|keyed))
}

// EndOtherSessions is DELETE /api/v1/auth/sessions: End the caller's other sessions.
func (c *Client) EndOtherSessions(ctx context.Context) (Success, error) {
	return receive[Success](c, c.request(ctx, http.MethodDelete, "/api/v1/auth/sessions", nil, nil, 0))
}

// ListSessions is GET /api/v1/auth/sessions: List the caller's sessions.
func (c *Client) ListSessions(ctx context.Context) (*List[SignIn], error) {
	return list[SignIn](c, c.request(ctx, http.MethodGet, "/api/v1/auth/sessions", nil, nil, 0))
}

// EndSession is DELETE /api/v1/auth/sessions/{id}: End a session.
func (c *Client) EndSession(ctx context.Context, id string) (Success, error) {
	return receive[Success](c, c.request(ctx, http.MethodDelete, "/api/v1/auth/sessions/"+segment(id), nil, nil, 0))
}

// StartCheckout is POST /api/v1/billing/checkout: Start a checkout.
func (c *Client) StartCheckout(ctx context.Context, body CheckoutDraft) (Elsewhere, error) {
	return receive[Elsewhere](c, c.request(ctx, http.MethodPost, "/api/v1/billing/checkout", nil, body, keyed))
}

// Downgrade is POST /api/v1/billing/downgrade: Downgrade to FREE.
func (c *Client) Downgrade(ctx context.Context) (Subscription, error) {
	return receive[Subscription](c, c.request(ctx, http.MethodPost, "/api/v1/billing/downgrade", nil, nil, keyed))
}

// OpenPortal is POST /api/v1/billing/portal: Open the billing portal.
func (c *Client) OpenPortal(ctx context.Context) (Elsewhere, error) {
	return receive[Elsewhere](c, c.request(ctx, http.MethodPost, "/api/v1/billing/portal", nil, nil, keyed))
}

// GetSubscription is GET /api/v1/billing/subscription: Get the subscription.
func (c *Client) GetSubscription(ctx context.Context) (Subscription, error) {
	return receive[Subscription](c, c.request(ctx, http.MethodGet, "/api/v1/billing/subscription", nil, nil, 0))
}

// StartTrial is POST /api/v1/billing/trial: Start the trial.
func (c *Client) StartTrial(ctx context.Context) (Subscription, error) {
	return receive[Subscription](c, c.request(ctx, http.MethodPost, "/api/v1/billing/trial", nil, nil, keyed))
}

// Chat is POST /api/v1/chat: Chat with a model.
func (c *Client) Chat(ctx context.Context, body ChatRequest) (*http.Response, error) {
	return c.send(c.request(ctx, http.MethodPost, "/api/v1/chat", nil, body, keyed))
}

// ListConnectorProviders is GET /api/v1/connector-providers: List connector providers.
func (c *Client) ListConnectorProviders(ctx context.Context) (*List[ConnectorProvider], error) {
	return list[ConnectorProvider](c, c.request(ctx, http.MethodGet, "/api/v1/connector-providers", nil, nil, open))
}

// ListConnectors is GET /api/v1/connectors: List connectors.
func (c *Client) ListConnectors(ctx context.Context) (*List[Connector], error) {
	return list[Connector](c, c.request(ctx, http.MethodGet, "/api/v1/connectors", nil, nil, 0))
}

// CreateConnector is POST /api/v1/connectors: Create a connector.
func (c *Client) CreateConnector(ctx context.Context, body ConnectorDraft) (Connector, error) {
	return receive[Connector](c, c.request(ctx, http.MethodPost, "/api/v1/connectors", nil, body, keyed))
}

// DeleteConnector is DELETE /api/v1/connectors/{instanceId}: Delete a connector.
func (c *Client) DeleteConnector(ctx context.Context, instanceId string) (Success, error) {
	return receive[Success](c, c.request(ctx, http.MethodDelete, "/api/v1/connectors/"+segment(instanceId), nil, nil, 0))
}

// GetConnectorCredentials is GET /api/v1/connectors/{instanceId}/credentials: Get a connector's credentials.
func (c *Client) GetConnectorCredentials(ctx context.Context, instanceId string) (ConnectorCredentials, error) {
	return receive[ConnectorCredentials](c, c.request(ctx, http.MethodGet,
		"/api/v1/connectors/"+segment(instanceId)+"/credentials", nil, nil, 0))
}

// StoreConnectorCredentials is POST /api/v1/connectors/{instanceId}/credentials: Store a connector's credentials.
func (c *Client) StoreConnectorCredentials(
	ctx context.Context, instanceId string, body CredentialsDraft,
) (Connector, error) {
	return receive[Connector](c, c.request(ctx, http.MethodPost,
		"/api/v1/connectors/"+segment(instanceId)+"/credentials", nil, body, keyed))
}

// PollAuthorization is GET /api/v1/mcp-oauth/poll: Poll an authorization.
func (c *Client) PollAuthorization(ctx context.Context, params PollAuthorizationParams) (AuthorizationStatus, error) {
	return receive[AuthorizationStatus](c, c.request(ctx, http.MethodGet, "/api/v1/mcp-oauth/poll", params, nil, 0))
}

// StartAuthorization is POST /api/v1/mcp-oauth/start: Start an authorization.
func (c *Client) StartAuthorization(ctx context.Context, body AuthorizationDraft) (Authorization, error) {
	return receive[Authorization](c, c.request(ctx, http.MethodPost, "/api/v1/mcp-oauth/start", nil, body, keyed))
}

// GetOrganisationUsage is GET /api/v1/metering/org: Get the organisation's usage.
func (c *Client) GetOrganisationUsage(ctx context.Context) (OrganisationUsage, error) {
	return receive[OrganisationUsage](c, c.request(ctx, http.MethodGet, "/api/v1/metering/org", nil, nil, 0))
}

// GetQuota is GET /api/v1/metering/quota: Get the daily quota.
func (c *Client) GetQuota(ctx context.Context) (Quota, error) {
	return receive[Quota](c, c.request(ctx, http.MethodGet, "/api/v1/metering/quota", nil, nil, 0))
}

// GetStorage is GET /api/v1/metering/storage: Get what the organisation stores.
func (c *Client) GetStorage(ctx context.Context) (Storage, error) {
	return receive[Storage](c, c.request(ctx, http.MethodGet, "/api/v1/metering/storage", nil, nil, 0))
}

// GetOwnUsage is GET /api/v1/metering/user: Get the caller's usage.
func (c *Client) GetOwnUsage(ctx context.Context) (Usage, error) {
	return receive[Usage](c, c.request(ctx, http.MethodGet, "/api/v1/metering/user", nil, nil, 0))
}

// ListModels is GET /api/v1/models: List models.
func (c *Client) ListModels(ctx context.Context) (*List[Model], error) {
	return list[Model](c, c.request(ctx, http.MethodGet, "/api/v1/models", nil, nil, 0))
}

// Invite is POST /api/v1/org/invite: Create an invitation.
func (c *Client) Invite(ctx context.Context, body Invite) (InvitationWithAddress, error) {
	return receive[InvitationWithAddress](c, c.request(ctx, http.MethodPost, "/api/v1/org/invite", nil, body, keyed))
}

// DeleteInvitation is DELETE /api/v1/org/invite/{id}: Delete an invitation.
func (c *Client) DeleteInvitation(ctx context.Context, id string) (Success, error) {
	return receive[Success](c, c.request(ctx, http.MethodDelete, "/api/v1/org/invite/"+segment(id), nil, nil, 0))
}

// ResendInvitation is POST /api/v1/org/invite/{id}/resend: Resend an invitation.
func (c *Client) ResendInvitation(ctx context.Context, id string) (InvitationWithAddress, error) {
	return receive[InvitationWithAddress](c, c.request(ctx, http.MethodPost,
		"/api/v1/org/invite/"+segment(id)+"/resend", nil, nil, keyed))
}

// ListInvitations is GET /api/v1/org/invites: List pending invitations.
func (c *Client) ListInvitations(ctx context.Context) (*List[Invitation], error) {
	return list[Invitation](c, c.request(ctx, http.MethodGet, "/api/v1/org/invites", nil, nil, 0))
}

// ListMembers is GET /api/v1/org/members: List members.
func (c *Client) ListMembers(ctx context.Context, params ListMembersParams) (*List[Member], error) {
	return list[Member](c, c.request(ctx, http.MethodGet, "/api/v1/org/members", params, nil, 0))
}

// RemoveMember is DELETE /api/v1/org/members/{userId}: Remove a member.
func (c *Client) RemoveMember(ctx context.Context, userId string) (Success, error) {
	return receive[Success](c, c.request(ctx, http.MethodDelete, "/api/v1/org/members/"+segment(userId), nil, nil, 0))
}

// ChangeRole is PATCH /api/v1/org/members/{userId}/role: Change a member's role.
func (c *Client) ChangeRole(ctx context.Context, userId string, body RoleChange) (Member, error) {
	return receive[Member](c, c.request(ctx, http.MethodPatch,
		"/api/v1/org/members/"+segment(userId)+"/role", nil, body, 0))
}

// ChangeFiles is POST /api/v1/sync/batch: Change many files.
func (c *Client) ChangeFiles(ctx context.Context, body Content) (*http.Response, error) {
	return c.send(c.request(ctx, http.MethodPost, "/api/v1/sync/batch", nil, body, keyed))
}

// ReadFiles is POST /api/v1/sync/batch/read: Read many small files.
func (c *Client) ReadFiles(ctx context.Context, body FilesToRead) (*http.Response, error) {
	return c.send(c.request(ctx, http.MethodPost, "/api/v1/sync/batch/read", nil, body, 0))
}

// FollowChanges is GET /api/v1/sync/changes: Follow changes.
func (c *Client) FollowChanges(ctx context.Context, params FollowChangesParams) (*http.Response, error) {
	return c.send(c.request(ctx, http.MethodGet, "/api/v1/sync/changes", params, nil, 0))
}

// ListFiles is GET /api/v1/sync/files: List files.
func (c *Client) ListFiles(ctx context.Context, params ListFilesParams) (*List[StoredObject], error) {
	return list[StoredObject](c, c.request(ctx, http.MethodGet, "/api/v1/sync/files", params, nil, 0))
}

// UploadFile is POST /api/v1/sync/files: Upload a file.
func (c *Client) UploadFile(ctx context.Context, params UploadFileParams, body Content) (StoredObject, error) {
	return receive[StoredObject](c, c.request(ctx, http.MethodPost, "/api/v1/sync/files", params, body, keyed))
}

// DeleteFile is DELETE /api/v1/sync/files/{id}: Delete a file.
func (c *Client) DeleteFile(ctx context.Context, id string, params DeleteFileParams) (Success, error) {
	return receive[Success](c, c.request(ctx, http.MethodDelete, "/api/v1/sync/files/"+segment(id), params, nil, 0))
}

// DownloadFile is GET /api/v1/sync/files/{id}: Download a file.
func (c *Client) DownloadFile(ctx context.Context, id string, params DownloadFileParams) (*http.Response, error) {
	return c.send(c.request(ctx, http.MethodGet, "/api/v1/sync/files/"+segment(id), params, nil, 0))
}

// MoveFile is PATCH /api/v1/sync/files/{id}: Move a file.
func (c *Client) MoveFile(
	ctx context.Context, id string, params MoveFileParams, body FileMove,
) (StoredObject, error) {
	return receive[StoredObject](c, c.request(ctx, http.MethodPatch, "/api/v1/sync/files/"+segment(id), params, body, 0))
}

// ReplaceFile is PUT /api/v1/sync/files/{id}: Replace a file's content.
func (c *Client) ReplaceFile(
	ctx context.Context, id string, params ReplaceFileParams, body Content,
) (StoredObject, error) {
	return receive[StoredObject](c, c.request(ctx, http.MethodPut, "/api/v1/sync/files/"+segment(id), params, body, 0))
}

// RestoreFile is POST /api/v1/sync/files/{id}/restore: Restore a file.
func (c *Client) RestoreFile(ctx context.Context, id string, body Restoration) (StoredObject, error) {
	return receive[StoredObject](c, c.request(ctx, http.MethodPost,
		"/api/v1/sync/files/"+segment(id)+"/restore", nil, body, keyed))
}

// ListVersions is GET /api/v1/sync/files/{id}/versions: List the versions of a file.
func (c *Client) ListVersions(ctx context.Context, id string) (*List[StoredVersion], error) {
	return list[StoredVersion](c, c.request(ctx, http.MethodGet,
		"/api/v1/sync/files/"+segment(id)+"/versions", nil, nil, 0))
}

// DownloadVersion is GET /api/v1/sync/files/{id}/versions/{version}: Download a version of a file.
func (c *Client) DownloadVersion(
	ctx context.Context, id string, version string, params DownloadVersionParams,
) (*http.Response, error) {
	return c.send(c.request(ctx, http.MethodGet,
		"/api/v1/sync/files/"+segment(id)+"/versions/"+segment(version), params, nil, 0))
}

// GetSyncLimits is GET /api/v1/sync/limits: Get the limits of files.
func (c *Client) GetSyncLimits(ctx context.Context) (SyncLimits, error) {
	return receive[SyncLimits](c, c.request(ctx, http.MethodGet, "/api/v1/sync/limits", nil, nil, 0))
}

// GetManifest is GET /api/v1/sync/manifest: Get the manifest.
func (c *Client) GetManifest(ctx context.Context, params GetManifestParams) (*List[StoredObject], error) {
	return list[StoredObject](c, c.request(ctx, http.MethodGet, "/api/v1/sync/manifest", params, nil, 0))
}

// GetWorkspaceMemory is GET /api/v1/sync/memory/workspace/{workspaceId}/{fileName}: Get a workspace's memory file.
func (c *Client) GetWorkspaceMemory(ctx context.Context, workspaceId string, fileName string) (*StoredFile, error) {
	return receive[*StoredFile](c, c.request(ctx, http.MethodGet,
		"/api/v1/sync/memory/workspace/"+segment(workspaceId)+"/"+segment(fileName), nil, nil, 0))
}

// PutWorkspaceMemory is PUT /api/v1/sync/memory/workspace/{workspaceId}/{fileName}: Store a workspace's memory file.
func (c *Client) PutWorkspaceMemory(
	ctx context.Context, workspaceId string, fileName string, params PutWorkspaceMemoryParams, body MemoryDraft,
) (StoredObject, error) {
	return receive[StoredObject](c, c.request(ctx, http.MethodPut,
		"/api/v1/sync/memory/workspace/"+segment(workspaceId)+"/"+segment(fileName), params, body, 0))
}

// GetMemory is GET /api/v1/sync/memory/{scope}: Get a memory.
func (c *Client) GetMemory(ctx context.Context, scope string) (*StoredFile, error) {
	return receive[*StoredFile](c, c.request(ctx, http.MethodGet, "/api/v1/sync/memory/"+segment(scope), nil, nil, 0))
}

// PutMemory is PUT /api/v1/sync/memory/{scope}: Store a memory.
func (c *Client) PutMemory(
	ctx context.Context, scope string, params PutMemoryParams, body MemoryDraft,
) (StoredObject, error) {
	return receive[StoredObject](c, c.request(ctx, http.MethodPut, "/api/v1/sync/memory/"+segment(scope), params, body, 0))
}

// MoveFolder is POST /api/v1/sync/move: Move a folder.
func (c *Client) MoveFolder(ctx context.Context, body FolderMove) (FolderMoved, error) {
	return receive[FolderMoved](c, c.request(ctx, http.MethodPost, "/api/v1/sync/move", nil, body, keyed))
}

// ListResumableUploads is GET /api/v1/sync/resumable-uploads: List the caller's resumable uploads.
func (c *Client) ListResumableUploads(ctx context.Context) (*List[ResumableUpload], error) {
	return list[ResumableUpload](c, c.request(ctx, http.MethodGet, "/api/v1/sync/resumable-uploads", nil, nil, 0))
}

// CreateResumableUpload is POST /api/v1/sync/resumable-uploads: Create a resumable upload.
func (c *Client) CreateResumableUpload(
	ctx context.Context, params CreateResumableUploadParams, body Content,
) (*http.Response, error) {
	return c.send(c.request(ctx, http.MethodPost, "/api/v1/sync/resumable-uploads", params, body, keyed))
}

// CancelResumableUpload is DELETE /api/v1/sync/resumable-uploads/{id}: Cancel a resumable upload.
func (c *Client) CancelResumableUpload(ctx context.Context, id string) (Success, error) {
	return receive[Success](c, c.request(ctx, http.MethodDelete, "/api/v1/sync/resumable-uploads/"+segment(id), nil, nil, 0))
}

// GetResumableUpload is GET /api/v1/sync/resumable-uploads/{id}: Get a resumable upload.
func (c *Client) GetResumableUpload(ctx context.Context, id string) (ResumableUpload, error) {
	return receive[ResumableUpload](c, c.request(ctx, http.MethodGet,
		"/api/v1/sync/resumable-uploads/"+segment(id), nil, nil, 0))
}

// AppendToResumableUpload is PATCH /api/v1/sync/resumable-uploads/{id}: Append content to a resumable upload.
func (c *Client) AppendToResumableUpload(
	ctx context.Context, id string, params AppendToResumableUploadParams, body Content,
) (*http.Response, error) {
	return c.send(c.request(ctx, http.MethodPatch, "/api/v1/sync/resumable-uploads/"+segment(id), params, body, 0))
}

// ListTasks is GET /api/v1/tasks: List tasks.
func (c *Client) ListTasks(ctx context.Context, params ListTasksParams) (*List[Task], error) {
	return list[Task](c, c.request(ctx, http.MethodGet, "/api/v1/tasks", params, nil, 0))
}

// CreateTask is POST /api/v1/tasks: Create a task.
func (c *Client) CreateTask(ctx context.Context, body TaskDraft) (Task, error) {
	return receive[Task](c, c.request(ctx, http.MethodPost, "/api/v1/tasks", nil, body, keyed))
}

// ReorderTasks is POST /api/v1/tasks/reorder: Reorder tasks.
func (c *Client) ReorderTasks(ctx context.Context, body Reorder) (*List[Task], error) {
	return list[Task](c, c.request(ctx, http.MethodPost, "/api/v1/tasks/reorder", nil, body, keyed))
}

// GetTask is GET /api/v1/tasks/{id}: Get a task.
func (c *Client) GetTask(ctx context.Context, id string) (Task, error) {
	return receive[Task](c, c.request(ctx, http.MethodGet, "/api/v1/tasks/"+segment(id), nil, nil, 0))
}

// UpdateTask is PATCH /api/v1/tasks/{id}: Update a task.
func (c *Client) UpdateTask(ctx context.Context, id string, body TaskPatch) (Task, error) {
	return receive[Task](c, c.request(ctx, http.MethodPatch, "/api/v1/tasks/"+segment(id), nil, body, 0))
}

// GetTaskHistory is GET /api/v1/tasks/{id}/history: List a task's changes.
func (c *Client) GetTaskHistory(ctx context.Context, id string) (*List[TaskChange], error) {
	return list[TaskChange](c, c.request(ctx, http.MethodGet, "/api/v1/tasks/"+segment(id)+"/history", nil, nil, 0))
}

// ListTeams is GET /api/v1/teams: List teams.
func (c *Client) ListTeams(ctx context.Context) (*List[Team], error) {
	return list[Team](c, c.request(ctx, http.MethodGet, "/api/v1/teams", nil, nil, 0))
}

// CreateTeam is POST /api/v1/teams: Create a team.
func (c *Client) CreateTeam(ctx context.Context, body TeamDraft) (Team, error) {
	return receive[Team](c, c.request(ctx, http.MethodPost, "/api/v1/teams", nil, body, keyed))
}

// DeleteTeam is DELETE /api/v1/teams/{id}: Delete a team.
func (c *Client) DeleteTeam(ctx context.Context, id string) (Success, error) {
	return receive[Success](c, c.request(ctx, http.MethodDelete, "/api/v1/teams/"+segment(id), nil, nil, 0))
}

// ListTeamMembers is GET /api/v1/teams/{id}/members: List a team's members.
func (c *Client) ListTeamMembers(ctx context.Context, id string) (*List[TeamMember], error) {
	return list[TeamMember](c, c.request(ctx, http.MethodGet, "/api/v1/teams/"+segment(id)+"/members", nil, nil, 0))
}

// AddTeamMember is POST /api/v1/teams/{id}/members: Add a team member.
func (c *Client) AddTeamMember(ctx context.Context, id string, body TeamMemberDraft) (TeamMember, error) {
	return receive[TeamMember](c, c.request(ctx, http.MethodPost,
		"/api/v1/teams/"+segment(id)+"/members", nil, body, keyed))
}

// RemoveTeamMember is DELETE /api/v1/teams/{id}/members/{userId}: Remove a team member.
func (c *Client) RemoveTeamMember(ctx context.Context, id string, userId string) (Success, error) {
	return receive[Success](c, c.request(ctx, http.MethodDelete,
		"/api/v1/teams/"+segment(id)+"/members/"+segment(userId), nil, nil, 0))
}

// PublishRelease is POST /api/v1/updates: Publish a release.
func (c *Client) PublishRelease(ctx context.Context, body ReleaseDraft) (Release, error) {
	return receive[Release](c, c.request(ctx, http.MethodPost, "/api/v1/updates", nil, body, keyed))
}

// GetAdoption is GET /api/v1/updates/adoption: List adoption.
func (c *Client) GetAdoption(ctx context.Context, params GetAdoptionParams) (*List[Adoption], error) {
	return list[Adoption](c, c.request(ctx, http.MethodGet, "/api/v1/updates/adoption", params, nil, 0))
}

// ListReleases is GET /api/v1/updates/releases: List releases.
func (c *Client) ListReleases(ctx context.Context) (*List[Release], error) {
	return list[Release](c, c.request(ctx, http.MethodGet, "/api/v1/updates/releases", nil, nil, 0))
}

// ChangeRelease is PATCH /api/v1/updates/{id}: Update a release.
func (c *Client) ChangeRelease(ctx context.Context, id string, body ReleasePatch) (Release, error) {
	return receive[Release](c, c.request(ctx, http.MethodPatch, "/api/v1/updates/"+segment(id), nil, body, 0))
}

// ListWorkspaces is GET /api/v1/workspaces: List workspaces.
func (c *Client) ListWorkspaces(ctx context.Context, params ListWorkspacesParams) (*List[Workspace], error) {
	return list[Workspace](c, c.request(ctx, http.MethodGet, "/api/v1/workspaces", params, nil, 0))
}

// CreateWorkspace is POST /api/v1/workspaces: Create a workspace.
func (c *Client) CreateWorkspace(ctx context.Context, body WorkspaceDraft) (Workspace, error) {
	return receive[Workspace](c, c.request(ctx, http.MethodPost, "/api/v1/workspaces", nil, body, keyed))
}

// DeleteWorkspace is DELETE /api/v1/workspaces/{id}: Delete a workspace.
func (c *Client) DeleteWorkspace(ctx context.Context, id string) (Success, error) {
	return receive[Success](c, c.request(ctx, http.MethodDelete, "/api/v1/workspaces/"+segment(id), nil, nil, 0))
}

// MoveWorkspace is POST /api/v1/workspaces/{id}/move: Move a workspace.
func (c *Client) MoveWorkspace(ctx context.Context, id string, body Move) (Workspace, error) {
	return receive[Workspace](c, c.request(ctx, http.MethodPost,
		"/api/v1/workspaces/"+segment(id)+"/move", nil, body, keyed))
}

// Adoption: The checks of a day, target and version.
type Adoption struct {
	Day      string `json:"day"`
	Platform string `json:"platform"`
	Arch     string `json:"arch"`
	Channel  string `json:"channel"`
	Version  string `json:"version"`
	Checks   int64  `json:"checks"`
	Offered  int64  `json:"offered"`
}

// AppendToResumableUploadParams are the parameters of AppendToResumableUpload. Zero fields are left out.
type AppendToResumableUploadParams struct {
	// ?1 if the content ends with this request, else ?0.
	UploadComplete string `header:"Upload-Complete"`
	// The number of bytes that are stored; 409 with the right one if it differs.
	UploadOffset *int64 `header:"Upload-Offset"`
	// Bytes of the whole content. It is required when an upload is created, except with Upload-Complete: ?1 and a length
	// of the request's content.
	UploadLength *int64 `header:"Upload-Length"`
	// SHA-256 of the whole content in hexadecimal; required with Upload-Complete: ?1 unless the upload was created with
	// it.
	Checksum string `query:"checksum"`
}

// Authorization: A pending authorization.
type Authorization struct {
	AuthURL    string `json:"authUrl"`
	State      string `json:"state"`
	InstanceID string `json:"instanceId"`
}

// AuthorizationDraft: The connector or the provider, one of the two.
type AuthorizationDraft struct {
	InstanceID *string `json:"instanceId,omitzero"`
	ProviderID *string `json:"providerId,omitzero"`
}

// AuthorizationStatus: The status of an authorization.
type AuthorizationStatus struct {
	Status     string  `json:"status"`
	InstanceID string  `json:"instanceId"`
	Error      *string `json:"error"`
}

// ChatChunk: The data of an event of a chat's stream.
type ChatChunk struct {
	Type       string      `json:"type"`
	Error      *string     `json:"error,omitzero"`
	Text       *string     `json:"text,omitzero"`
	ToolCall   *ToolCall   `json:"toolCall,omitzero"`
	ToolResult *ToolResult `json:"toolResult,omitzero"`
	Usage      *ChatUsage  `json:"usage,omitzero"`
}

// ChatRequest: A message to a model with its history.
type ChatRequest struct {
	Message         string           `json:"message"`
	EnableWebSearch *bool            `json:"enableWebSearch,omitzero"`
	History         []HistoryMessage `json:"history,omitzero"`
	MaxTokens       *int64           `json:"maxTokens,omitzero"`
	Model           *string          `json:"model,omitzero"`
	SystemPrompt    *string          `json:"systemPrompt,omitzero"`
	Tools           []ToolDefinition `json:"tools,omitzero"`
}

// ChatUsage: The tokens used by the answer.
type ChatUsage struct {
	InputTokens  int64 `json:"inputTokens"`
	OutputTokens int64 `json:"outputTokens"`
}

// CheckoutDraft: The plan to buy.
type CheckoutDraft struct {
	Plan string `json:"plan"`
}

// Connector: A tool server of the organisation.
type Connector struct {
	ID                  string          `json:"id"`
	InstanceID          string          `json:"instanceId"`
	ServerID            string          `json:"serverId"`
	Label               string          `json:"label"`
	Name                *string         `json:"name"`
	Config              map[string]any  `json:"config"`
	Hosting             string          `json:"hosting"`
	Transport           string          `json:"transport"`
	Status              string          `json:"status"`
	LastError           *string         `json:"lastError"`
	LastUsedAt          *time.Time      `json:"lastUsedAt"`
	CreatedBy           string          `json:"createdBy"`
	CreatedAt           time.Time       `json:"createdAt"`
	Tools               []ConnectorTool `json:"tools"`
	HasCredentials      bool            `json:"hasCredentials"`
	CredentialsExpireAt *time.Time      `json:"credentialsExpireAt"`
}

// ConnectorCredentials: The credentials of a connector.
type ConnectorCredentials struct {
	Credentials map[string]any `json:"credentials"`
	ExpiresAt   *time.Time     `json:"expiresAt"`
}

// ConnectorDraft: The fields of a new connector.
type ConnectorDraft struct {
	ProviderID string         `json:"providerId"`
	Config     map[string]any `json:"config,omitzero"`
	Name       *string        `json:"name,omitzero"`
}

// ConnectorProvider: An entry of the catalog.
type ConnectorProvider struct {
	ServerID         string            `json:"serverId"`
	DisplayName      string            `json:"displayName"`
	Description      string            `json:"description"`
	IconURL          *string           `json:"iconUrl"`
	Category         *string           `json:"category"`
	AuthMode         string            `json:"authMode"`
	McpTransport     string            `json:"mcpTransport"`
	McpURL           *string           `json:"mcpUrl"`
	CredentialFields []CredentialField `json:"credentialFields"`
	Headers          map[string]string `json:"headers"`
	Command          []string          `json:"command"`
	Env              map[string]string `json:"env"`
}

// ConnectorTool: A tool that the server offers.
type ConnectorTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// CreateResumableUploadParams are the parameters of CreateResumableUpload. Zero fields are left out.
type CreateResumableUploadParams struct {
	// ?1 if the content ends with this request, else ?0.
	UploadComplete string `header:"Upload-Complete"`
	// Bytes of the whole content. It is required when an upload is created, except with Upload-Complete: ?1 and a length
	// of the request's content.
	UploadLength *int64 `header:"Upload-Length"`
	// The file whose content is replaced; path, kind, scope, workspaceId and teamId must be absent.
	FileID string `query:"fileId"`
	// The path; required for a new file.
	Path string `query:"path"`
	// The kind; ARTIFACT by default.
	Kind string `query:"kind"`
	// The scope; SHARED by default.
	Scope string `query:"scope"`
	// A workspace that the caller sees.
	WorkspaceID string `query:"workspaceId"`
	// A team that the caller sees.
	TeamID string `query:"teamId"`
	// The media type; by default from the content type, else from the path's extension, or unchanged.
	MimeType string `query:"mimeType"`
	// SHA-256 of the content in hexadecimal; 400 if it does not match.
	Checksum string `query:"checksum"`
	// The expected version, 0 for none; 409 if it differs.
	ExpectedVersion *int64 `query:"expectedVersion"`
}

// CredentialField: An entry of the credentials.
type CredentialField struct {
	Name     string `json:"name"`
	Label    string `json:"label"`
	Optional bool   `json:"optional"`
}

// CredentialsDraft: The new credentials of a connector.
type CredentialsDraft struct {
	Credentials map[string]any `json:"credentials"`
}

// DayUsage: The tokens of one day.
type DayUsage struct {
	Date         string `json:"date"`
	InputTokens  int64  `json:"inputTokens"`
	OutputTokens int64  `json:"outputTokens"`
	TotalTokens  int64  `json:"totalTokens"`
	Requests     int64  `json:"requests"`
}

// DeleteFileParams are the parameters of DeleteFile. Zero fields are left out.
type DeleteFileParams struct {
	// The expected version, 0 for none; 409 if it differs.
	ExpectedVersion *int64 `query:"expectedVersion"`
}

// DeviceClaim: A poll for the token of a device.
type DeviceClaim struct {
	DeviceCode string  `json:"device_code"`
	GrantType  *string `json:"grant_type,omitzero"`
}

// DeviceCodes: The sign-in of a device (RFC 8628, section 3.2).
type DeviceCodes struct {
	DeviceCode              string `json:"device_code"`
	UserCode                string `json:"user_code"`
	VerificationURI         string `json:"verification_uri"`
	VerificationURIComplete string `json:"verification_uri_complete"`
	ExpiresIn               int64  `json:"expires_in"`
	Interval                int64  `json:"interval"`
}

// DeviceSession: A service token with its user and organisation, and the fields of RFC 6749, section 5.1.
type DeviceSession struct {
	Token               string  `json:"token"`
	User                Person  `json:"user"`
	Org                 *Org    `json:"org"`
	Role                *string `json:"role"`
	OnboardingCompleted bool    `json:"onboardingCompleted"`
	OnboardingSeeded    bool    `json:"onboardingSeeded"`
	AccessToken         string  `json:"access_token"`
	TokenType           string  `json:"token_type"`
	ExpiresIn           int64   `json:"expires_in"`
}

// DeviceStart: A device that asks to be signed in.
type DeviceStart struct {
	ClientName *string `json:"client_name,omitzero"`
}

// DownloadFileParams are the parameters of DownloadFile. Zero fields are left out.
type DownloadFileParams struct {
	// 1 for the bytes, 0 for JSON, regardless of Accept.
	Raw string `query:"raw"`
	// Ranges of the bytes, such as bytes=0-1023; at most 16, more return everything.
	Range string `header:"Range"`
	// The entity tag that the ranges belong to; if it is outdated, all bytes are returned.
	IfRange string `header:"If-Range"`
}

// DownloadVersionParams are the parameters of DownloadVersion. Zero fields are left out.
type DownloadVersionParams struct {
	// 1 for the bytes, 0 for JSON, regardless of Accept.
	Raw string `query:"raw"`
	// Ranges of the bytes, such as bytes=0-1023; at most 16, more return everything.
	Range string `header:"Range"`
	// The entity tag that the ranges belong to; if it is outdated, all bytes are returned.
	IfRange string `header:"If-Range"`
}

// Elsewhere: An address to redirect the user to.
type Elsewhere struct {
	URL string `json:"url"`
}

// Exchange: The request for a service token.
type Exchange struct {
	IdentityToken string  `json:"identityToken"`
	OrgName       *string `json:"orgName,omitzero"`
	OrgSlug       *string `json:"orgSlug,omitzero"`
	UserAvatarURL *string `json:"userAvatarUrl,omitzero"`
	UserEmail     *string `json:"userEmail,omitzero"`
	UserName      *string `json:"userName,omitzero"`
}

// FieldChange: The change of a field.
type FieldChange struct {
	Field string  `json:"field"`
	From  *string `json:"from"`
	To    *string `json:"to"`
}

// FileMove: A file's new path.
type FileMove struct {
	Path            string `json:"path"`
	ExpectedVersion *int64 `json:"expectedVersion,omitzero"`
}

// FileOperation: An operation on a file. put stores a new file, or the content of the file with the id, for which
// path, kind, scope, workspaceId and teamId must be absent; move moves the file with the id to the path in its place;
// delete deletes it. Fields that an operation does not need are ignored.
type FileOperation struct {
	Op              string  `json:"op"`
	Checksum        *string `json:"checksum,omitzero"`
	Content         *string `json:"content,omitzero"`
	Encoding        *string `json:"encoding,omitzero"`
	ExpectedVersion *int64  `json:"expectedVersion,omitzero"`
	ID              *string `json:"id,omitzero"`
	Kind            *string `json:"kind,omitzero"`
	MimeType        *string `json:"mimeType,omitzero"`
	Path            *string `json:"path,omitzero"`
	Scope           *string `json:"scope,omitzero"`
	TeamID          *string `json:"teamId,omitzero"`
	WorkspaceID     *string `json:"workspaceId,omitzero"`
}

// FileOutcome: The outcome of an operation.
type FileOutcome struct {
	Index  int64         `json:"index"`
	Status int64         `json:"status"`
	Error  *Problem      `json:"error,omitzero"`
	File   *StoredObject `json:"file,omitzero"`
}

// FileToRead: A file that is to be read.
type FileToRead struct {
	ID              string `json:"id"`
	ExpectedVersion *int64 `json:"expectedVersion,omitzero"`
}

// FilesToRead: Which files are to be read.
type FilesToRead struct {
	Files []FileToRead `json:"files"`
}

// FolderMove: A folder's new path, and the place of its files.
type FolderMove struct {
	From        string  `json:"from"`
	To          string  `json:"to"`
	Kind        *string `json:"kind,omitzero"`
	Scope       *string `json:"scope,omitzero"`
	TeamID      *string `json:"teamId,omitzero"`
	WorkspaceID *string `json:"workspaceId,omitzero"`
}

// FolderMoved: The outcome of a move of a folder.
type FolderMoved struct {
	Moved  int64  `json:"moved"`
	Cursor string `json:"cursor"`
}

// FollowChangesParams are the parameters of FollowChanges. Zero fields are left out.
type FollowChangesParams struct {
	// The id of the last event received.
	LastEventID string `header:"Last-Event-ID"`
}

// GetAdoptionParams are the parameters of GetAdoption. Zero fields are left out.
type GetAdoptionParams struct {
	// The first day, in UTC; by default 29 days before the last one, and at most 399 days before it.
	From string `query:"from"`
	// The last day, in UTC; by default today.
	To string `query:"to"`
	// darwin, win32 or linux, in any case; all by default.
	Platform string `query:"platform"`
	// x64, arm64 or universal, in any case; all by default.
	Arch string `query:"arch"`
	// stable, beta or canary, in any case; all by default.
	Channel string `query:"channel"`
}

// GetManifestParams are the parameters of GetManifest. Zero fields are left out.
type GetManifestParams struct {
	// An earlier X-Sync-Cursor, or the id of an event of the change feed.
	Since string `query:"since"`
}

// Grant: A subscription that an operator sets.
type Grant struct {
	Plan             string  `json:"plan"`
	CurrentPeriodEnd *string `json:"currentPeriodEnd,omitzero"`
	Seats            *int64  `json:"seats,omitzero"`
}

// HistoryMessage: A previous message of the user or the assistant.
type HistoryMessage struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

// Invitation: An invitation, valid for 24 hours.
type Invitation struct {
	ID         string     `json:"id"`
	Email      string     `json:"email"`
	Role       string     `json:"role"`
	Status     string     `json:"status"`
	ExpiresAt  time.Time  `json:"expiresAt"`
	CreatedAt  time.Time  `json:"createdAt"`
	AcceptedAt *time.Time `json:"acceptedAt"`
	InvitedBy  *string    `json:"invitedBy"`
}

// InvitationWithAddress: An invitation with the address that accepts it.
type InvitationWithAddress struct {
	ID         string     `json:"id"`
	Email      string     `json:"email"`
	Role       string     `json:"role"`
	Status     string     `json:"status"`
	ExpiresAt  time.Time  `json:"expiresAt"`
	CreatedAt  time.Time  `json:"createdAt"`
	AcceptedAt *time.Time `json:"acceptedAt"`
	InvitedBy  *string    `json:"invitedBy"`
	InviteURL  string     `json:"inviteUrl"`
}

// Invite: The address and role of an invitation.
type Invite struct {
	Email string `json:"email"`
	Role  string `json:"role"`
}

// ListFilesParams are the parameters of ListFiles. Zero fields are left out.
type ListFilesParams struct {
	// Only files of this kind.
	Kind string `query:"kind"`
	// Only files of this scope.
	Scope string `query:"scope"`
	// A workspace's id; null selects files without a workspace.
	WorkspaceID string `query:"workspaceId"`
	// A prefix of the storage key, with or without a leading slash; at most 4096 bytes.
	Prefix string `query:"prefix"`
	// Words, with spaces between them, that are all in the path, in any case. At most 100,000 files are examined, those
	// that come first in the list. It does not go with deleted files.
	Search string `query:"search"`
	// true for the deleted files that can be restored in place of those that are there, each as its last version was.
	// Several may have had one path.
	Deleted string `query:"deleted"`
}

// ListMembersParams are the parameters of ListMembers. Zero fields are left out.
type ListMembersParams struct {
	// Words, with spaces between them, each of which is a part of the name or of the e-mail address, in any case. At most
	// 100,000 members are examined, those that come first in the list.
	Search string `query:"search"`
	// 1 to 100 ids of users, separated by commas: only those of them who are members. It does not go with search.
	IDs string `query:"ids"`
}

// ListOrganisationMembersParams are the parameters of ListOrganisationMembers. Zero fields are left out.
type ListOrganisationMembersParams struct {
	// Words, with spaces between them, each of which is a part of the name or of the e-mail address, in any case. At most
	// 100,000 members are examined, those that come first in the list.
	Search string `query:"search"`
	// 1 to 100 ids of users, separated by commas: only those of them who are members. It does not go with search.
	IDs string `query:"ids"`
}

// ListOrganisationsParams are the parameters of ListOrganisations. Zero fields are left out.
type ListOrganisationsParams struct {
	// Only organisations that have this id, or this text in their name or slug. The letters A to Z are equal to a to z.
	// The names of at most 100,000 organisations after the cursor are examined.
	Search string `query:"search"`
}

// ListTasksParams are the parameters of ListTasks. Zero fields are left out.
type ListTasksParams struct {
	// Only tasks with this status.
	Status string `query:"status"`
	// Only tasks with this priority.
	Priority string `query:"priority"`
	// A user's id; null selects the unassigned.
	AssigneeID string `query:"assigneeId"`
	// A workspace's id; null selects the tasks of the organisation.
	WorkspaceID string `query:"workspaceId"`
	// 1 to 50 tags, separated by commas; any of them matches.
	Tags string `query:"tags"`
	// A date or time, included; a date covers its whole day in UTC.
	DueBefore string `query:"dueBefore"`
	// A date or time, included; a date covers its whole day in UTC.
	DueAfter string `query:"dueAfter"`
	// Words, with spaces between them, that are all in the title, in any case. At most 100,000 tasks are examined, those
	// that come first in the list.
	Search string `query:"search"`
	// newest lists the task that was made last first. Not with filters other than search.
	Sort string `query:"sort"`
}

// ListWorkspacesParams are the parameters of ListWorkspaces. Zero fields are left out.
type ListWorkspacesParams struct {
	// Only the workspaces of this team.
	TeamID string `query:"teamId"`
}

// Me: The caller.
type Me struct {
	User                Profile `json:"user"`
	Org                 *Org    `json:"org"`
	Role                *string `json:"role"`
	OnboardingCompleted bool    `json:"onboardingCompleted"`
	OnboardingSeeded    bool    `json:"onboardingSeeded"`
}

// Member: A member of the organisation.
type Member struct {
	UserID              string    `json:"userId"`
	Name                *string   `json:"name"`
	Email               *string   `json:"email"`
	AvatarURL           *string   `json:"avatarUrl"`
	Role                string    `json:"role"`
	OnboardingCompleted bool      `json:"onboardingCompleted"`
	JoinedAt            time.Time `json:"joinedAt"`
}

// MemoryDraft: A memory's new content.
type MemoryDraft struct {
	Content         string `json:"content"`
	ExpectedVersion *int64 `json:"expectedVersion,omitzero"`
}

// Model: A model that a chat may name.
type Model struct {
	ID              string   `json:"id"`
	DisplayName     string   `json:"displayName"`
	Provider        string   `json:"provider"`
	Tier            string   `json:"tier"`
	ContextWindow   int64    `json:"contextWindow"`
	MaxOutputTokens int64    `json:"maxOutputTokens"`
	Capabilities    []string `json:"capabilities"`
}

// ModelUsage: The tokens of one model.
type ModelUsage struct {
	Model        string `json:"model"`
	InputTokens  int64  `json:"inputTokens"`
	OutputTokens int64  `json:"outputTokens"`
	TotalTokens  int64  `json:"totalTokens"`
	Requests     int64  `json:"requests"`
}

// Move: The target of a move.
type Move struct {
	TargetTeamID string `json:"targetTeamId"`
}

// MoveFileParams are the parameters of MoveFile. Zero fields are left out.
type MoveFileParams struct {
	// The expected version, 0 for none; 409 if it differs.
	ExpectedVersion *int64 `query:"expectedVersion"`
}

// Org: An organisation.
type Org struct {
	ID   string  `json:"id"`
	Name *string `json:"name"`
	Slug *string `json:"slug"`
}

// OrganisationUsage: The tokens that an organisation has used in a billing period.
type OrganisationUsage struct {
	PeriodStart  time.Time    `json:"periodStart"`
	PeriodEnd    time.Time    `json:"periodEnd"`
	InputTokens  int64        `json:"inputTokens"`
	OutputTokens int64        `json:"outputTokens"`
	TotalTokens  int64        `json:"totalTokens"`
	Requests     int64        `json:"requests"`
	ByModel      []ModelUsage `json:"byModel"`
	ByDay        []DayUsage   `json:"byDay"`
	ByUser       []UserUsage  `json:"byUser,omitzero"`
}

// Outcomes: Numbers of reported installations.
type Outcomes struct {
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"`
}

// Overview: An organisation as operators see it.
type Overview struct {
	ID                 string       `json:"id"`
	Name               *string      `json:"name"`
	Slug               *string      `json:"slug"`
	CreatedAt          time.Time    `json:"createdAt"`
	UpdatedAt          time.Time    `json:"updatedAt"`
	ClosedAt           *time.Time   `json:"closedAt"`
	Owners             int64        `json:"owners"`
	Members            int64        `json:"members"`
	PendingInvitations int64        `json:"pendingInvitations"`
	MemberLimit        *int64       `json:"memberLimit"`
	PublishesReleases  bool         `json:"publishesReleases"`
	Subscription       Subscription `json:"subscription"`
	StorageUsed        int64        `json:"storageUsed"`
	StorageLimit       *int64       `json:"storageLimit"`
	Usage              UsageSum     `json:"usage"`
}

// Person: A user.
type Person struct {
	ID    string  `json:"id"`
	Name  *string `json:"name"`
	Email *string `json:"email"`
}

// PollAuthorizationParams are the parameters of PollAuthorization. Zero fields are left out.
type PollAuthorizationParams struct {
	// The state from the start of the authorization.
	State string `query:"state"`
}

// Problem: The form of every error.
type Problem struct {
	StatusCode int64  `json:"statusCode"`
	Message    string `json:"message"`
	Error      string `json:"error"`
}

// Profile: A user with their picture.
type Profile struct {
	ID        string  `json:"id"`
	Name      *string `json:"name"`
	Email     *string `json:"email"`
	AvatarURL *string `json:"avatarUrl"`
}

// PutMemoryParams are the parameters of PutMemory. Zero fields are left out.
type PutMemoryParams struct {
	// The expected version, 0 for none; 409 if it differs.
	ExpectedVersion *int64 `query:"expectedVersion"`
}

// PutWorkspaceMemoryParams are the parameters of PutWorkspaceMemory. Zero fields are left out.
type PutWorkspaceMemoryParams struct {
	// The expected version, 0 for none; 409 if it differs.
	ExpectedVersion *int64 `query:"expectedVersion"`
}

// Quota: A user's quota of today.
type Quota struct {
	Used      int64     `json:"used"`
	Limit     int64     `json:"limit"`
	Remaining int64     `json:"remaining"`
	ResetsAt  time.Time `json:"resetsAt"`
}

// Refresh: The token to refresh.
type Refresh struct {
	Token string  `json:"token"`
	OrgID *string `json:"orgId,omitzero"`
}

// Release: A version of the desktop application for one platform, architecture and channel.
type Release struct {
	ID                string     `json:"id"`
	Version           string     `json:"version"`
	Platform          string     `json:"platform"`
	Arch              string     `json:"arch"`
	Channel           string     `json:"channel"`
	DownloadURL       string     `json:"downloadUrl"`
	Sha512            *string    `json:"sha512"`
	Sha512Base64      *string    `json:"sha512Base64"`
	Sha1              *string    `json:"sha1"`
	FileSizeBytes     *int64     `json:"fileSizeBytes"`
	ReleaseNotes      *string    `json:"releaseNotes"`
	MinOsVersion      *string    `json:"minOsVersion"`
	Signature         *string    `json:"signature"`
	Mandatory         bool       `json:"mandatory"`
	RolloutPercentage int64      `json:"rolloutPercentage"`
	Active            bool       `json:"active"`
	PausedAt          *time.Time `json:"pausedAt"`
	PausedByReports   *Outcomes  `json:"pausedByReports"`
	FailureLimit      *int64     `json:"failureLimit"`
	FailureMinimum    *int64     `json:"failureMinimum"`
	PublishedAt       time.Time  `json:"publishedAt"`
	UpdatedAt         time.Time  `json:"updatedAt"`
}

// ReleaseDraft: The fields of a new release.
type ReleaseDraft struct {
	Version           string  `json:"version"`
	Platform          string  `json:"platform"`
	Arch              string  `json:"arch"`
	DownloadURL       string  `json:"downloadUrl"`
	Active            *bool   `json:"active,omitzero"`
	Channel           *string `json:"channel,omitzero"`
	FailureLimit      *int64  `json:"failureLimit,omitzero"`
	FailureMinimum    *int64  `json:"failureMinimum,omitzero"`
	FileSizeBytes     *int64  `json:"fileSizeBytes,omitzero"`
	Mandatory         *bool   `json:"mandatory,omitzero"`
	MinOsVersion      *string `json:"minOsVersion,omitzero"`
	PublishedAt       *string `json:"publishedAt,omitzero"`
	ReleaseNotes      *string `json:"releaseNotes,omitzero"`
	RolloutPercentage *int64  `json:"rolloutPercentage,omitzero"`
	Sha1              *string `json:"sha1,omitzero"`
	Sha512            *string `json:"sha512,omitzero"`
	Signature         *string `json:"signature,omitzero"`
}

// ReleasePatch: The settings to change.
type ReleasePatch struct {
	Active            *bool          `json:"active,omitzero"`
	DownloadURL       *string        `json:"downloadUrl,omitzero"`
	FailureLimit      Change[int64]  `json:"failureLimit,omitzero"`
	FailureMinimum    *int64         `json:"failureMinimum,omitzero"`
	FileSizeBytes     Change[int64]  `json:"fileSizeBytes,omitzero"`
	Mandatory         *bool          `json:"mandatory,omitzero"`
	MinOsVersion      Change[string] `json:"minOsVersion,omitzero"`
	Paused            *bool          `json:"paused,omitzero"`
	PublishedAt       *string        `json:"publishedAt,omitzero"`
	ReleaseNotes      Change[string] `json:"releaseNotes,omitzero"`
	RolloutPercentage *int64         `json:"rolloutPercentage,omitzero"`
	Sha1              Change[string] `json:"sha1,omitzero"`
	Sha512            Change[string] `json:"sha512,omitzero"`
	Signature         Change[string] `json:"signature,omitzero"`
}

// Reorder: Tasks in their new order.
type Reorder struct {
	TaskIDs   []string `json:"taskIds"`
	SortOrder *int64   `json:"sortOrder,omitzero"`
}

// ReplaceFileParams are the parameters of ReplaceFile. Zero fields are left out.
type ReplaceFileParams struct {
	// The expected version, 0 for none; 409 if it differs.
	ExpectedVersion *int64 `query:"expectedVersion"`
	// SHA-256 of the content in hexadecimal; 400 if it does not match.
	Checksum string `query:"checksum"`
	// The media type, for raw bytes; unchanged if absent.
	MimeType string `query:"mimeType"`
}

// Restoration: Which version of a file is restored.
type Restoration struct {
	ExpectedVersion *int64  `json:"expectedVersion,omitzero"`
	Path            *string `json:"path,omitzero"`
	Version         *int64  `json:"version,omitzero"`
}

// ResumableUpload: A resumable upload.
type ResumableUpload struct {
	ID        string    `json:"id"`
	FileID    string    `json:"fileId"`
	Path      *string   `json:"path"`
	Offset    int64     `json:"offset"`
	Size      int64     `json:"size"`
	Complete  bool      `json:"complete"`
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// RoleChange: A member's new role.
type RoleChange struct {
	Role string `json:"role"`
}

// Session: A service token with its user and organisation.
type Session struct {
	Token               string  `json:"token"`
	User                Person  `json:"user"`
	Org                 *Org    `json:"org"`
	Role                *string `json:"role"`
	OnboardingCompleted bool    `json:"onboardingCompleted"`
	OnboardingSeeded    bool    `json:"onboardingSeeded"`
}

// SignIn: A session of the caller.
type SignIn struct {
	ID         string    `json:"id"`
	CreatedAt  time.Time `json:"createdAt"`
	LastUsedAt time.Time `json:"lastUsedAt"`
	Address    *string   `json:"address"`
	UserAgent  *string   `json:"userAgent"`
	Current    bool      `json:"current"`
}

// Storage: What an organisation stores, in bytes.
type Storage struct {
	Plan      string         `json:"plan"`
	Used      int64          `json:"used"`
	Limit     *int64         `json:"limit"`
	OverLimit bool           `json:"overLimit"`
	ByClass   StorageByClass `json:"byClass"`
	Uploads   int64          `json:"uploads"`
}

// StorageByClass: The size of content by what it is, in bytes.
type StorageByClass struct {
	SharedFiles   int64 `json:"sharedFiles"`
	PersonalFiles int64 `json:"personalFiles"`
	Memories      int64 `json:"memories"`
	Versions      int64 `json:"versions"`
}

// StoredFile: The record of a stored file with its content.
type StoredFile struct {
	ID          string    `json:"id"`
	StorageKey  string    `json:"storageKey"`
	Path        string    `json:"path"`
	MimeType    string    `json:"mimeType"`
	Size        int64     `json:"size"`
	Checksum    string    `json:"checksum"`
	Version     int64     `json:"version"`
	Kind        string    `json:"kind"`
	Scope       string    `json:"scope"`
	WorkspaceID *string   `json:"workspaceId"`
	TeamID      *string   `json:"teamId"`
	OwnerID     *string   `json:"ownerId"`
	CreatedBy   string    `json:"createdBy"`
	UpdatedBy   string    `json:"updatedBy"`
	CreatedAt   time.Time `json:"createdAt"`
	UpdatedAt   time.Time `json:"updatedAt"`
	Content     string    `json:"content"`
	Encoding    string    `json:"encoding"`
}

// StoredObject: The record of a stored file.
type StoredObject struct {
	ID          string     `json:"id"`
	StorageKey  string     `json:"storageKey"`
	Path        string     `json:"path"`
	MimeType    string     `json:"mimeType"`
	Size        int64      `json:"size"`
	Checksum    string     `json:"checksum"`
	Version     int64      `json:"version"`
	Kind        string     `json:"kind"`
	Scope       string     `json:"scope"`
	WorkspaceID *string    `json:"workspaceId"`
	TeamID      *string    `json:"teamId"`
	OwnerID     *string    `json:"ownerId"`
	CreatedBy   string     `json:"createdBy"`
	UpdatedBy   string     `json:"updatedBy"`
	CreatedAt   time.Time  `json:"createdAt"`
	UpdatedAt   time.Time  `json:"updatedAt"`
	Deleted     *bool      `json:"deleted,omitzero"`
	DeletedAt   *time.Time `json:"deletedAt,omitzero"`
	DeletedBy   *string    `json:"deletedBy,omitzero"`
	ExpiresAt   *time.Time `json:"expiresAt,omitzero"`
}

// StoredVersion: The record of a version of a file.
type StoredVersion struct {
	ID          string     `json:"id"`
	StorageKey  string     `json:"storageKey"`
	Path        string     `json:"path"`
	MimeType    string     `json:"mimeType"`
	Size        int64      `json:"size"`
	Checksum    string     `json:"checksum"`
	Version     int64      `json:"version"`
	Kind        string     `json:"kind"`
	Scope       string     `json:"scope"`
	WorkspaceID *string    `json:"workspaceId"`
	TeamID      *string    `json:"teamId"`
	OwnerID     *string    `json:"ownerId"`
	CreatedBy   string     `json:"createdBy"`
	UpdatedBy   string     `json:"updatedBy"`
	CreatedAt   time.Time  `json:"createdAt"`
	UpdatedAt   time.Time  `json:"updatedAt"`
	Present     bool       `json:"present"`
	Deleted     bool       `json:"deleted"`
	EndedAt     *time.Time `json:"endedAt"`
	EndedBy     *string    `json:"endedBy"`
	ExpiresAt   *time.Time `json:"expiresAt"`
}

// Subscription: An organisation's subscription.
type Subscription struct {
	Plan               string     `json:"plan"`
	Status             string     `json:"status"`
	Seats              int64      `json:"seats"`
	PurchasedSeats     *int64     `json:"purchasedSeats"`
	CurrentPeriodStart *time.Time `json:"currentPeriodStart"`
	CurrentPeriodEnd   *time.Time `json:"currentPeriodEnd"`
	CancelAtPeriodEnd  bool       `json:"cancelAtPeriodEnd"`
	TrialEnd           *time.Time `json:"trialEnd"`
	ManagedExternally  bool       `json:"managedExternally"`
	HasPaymentMethod   bool       `json:"hasPaymentMethod"`
}

// Success: The operation succeeded.
type Success struct {
	Success bool `json:"success"`
}

// SyncBatchReads: The bounds of reading many files in one request.
type SyncBatchReads struct {
	MaxFiles     int64 `json:"maxFiles"`
	MaxBytes     int64 `json:"maxBytes"`
	MaxFileBytes int64 `json:"maxFileBytes"`
}

// SyncLimits: What a client must know before it sends files.
type SyncLimits struct {
	MaxFileBytes           int64          `json:"maxFileBytes"`
	MaxBatchOperations     int64          `json:"maxBatchOperations"`
	MaxBatchBytes          int64          `json:"maxBatchBytes"`
	MaxBatchOperationBytes int64          `json:"maxBatchOperationBytes"`
	MaxBatchFileBytes      int64          `json:"maxBatchFileBytes"`
	MaxPathBytes           int64          `json:"maxPathBytes"`
	MaxSegmentBytes        int64          `json:"maxSegmentBytes"`
	ForbiddenCharacters    string         `json:"forbiddenCharacters"`
	ForbiddenNames         []string       `json:"forbiddenNames"`
	ForbiddenEndings       []string       `json:"forbiddenEndings"`
	Rates                  SyncRates      `json:"rates"`
	ReadOnly               bool           `json:"readOnly"`
	Storage                SyncStorage    `json:"storage"`
	Versions               *SyncVersions  `json:"versions"`
	BatchReads             SyncBatchReads `json:"batchReads"`
	ResumableUploads       SyncResumable  `json:"resumableUploads"`
}

// SyncRates: How many requests the caller may send.
type SyncRates struct {
	Requests             *SyncRatesRequests `json:"requests"`
	OperationsPerRequest int64              `json:"operationsPerRequest"`
}

// SyncRatesRequests: The caller's requests in so many seconds on each server; null if they are not limited.
type SyncRatesRequests struct {
	Count   int64 `json:"count"`
	Seconds int64 `json:"seconds"`
}

// SyncResumable: The bounds of resumable uploads.
type SyncResumable struct {
	PartBytes      int64 `json:"partBytes"`
	MinAppendBytes int64 `json:"minAppendBytes"`
	MaxOpen        int64 `json:"maxOpen"`
}

// SyncStorage: What the organisation stores and may store, in bytes.
type SyncStorage struct {
	Used     int64  `json:"used"`
	Reserved int64  `json:"reserved"`
	Limit    *int64 `json:"limit"`
}

// SyncVersions: How long a plan keeps earlier versions; null if it keeps none.
type SyncVersions struct {
	Days  int64 `json:"days"`
	Count int64 `json:"count"`
}

// Task: A task.
type Task struct {
	ID          string         `json:"id"`
	Title       string         `json:"title"`
	Description *string        `json:"description"`
	Status      string         `json:"status"`
	Priority    string         `json:"priority"`
	AssigneeID  *string        `json:"assigneeId"`
	WorkspaceID *string        `json:"workspaceId"`
	DueDate     *string        `json:"dueDate"`
	Tags        []string       `json:"tags"`
	Metadata    map[string]any `json:"metadata"`
	SortOrder   int64          `json:"sortOrder"`
	CompletedAt *time.Time     `json:"completedAt"`
	CreatedBy   string         `json:"createdBy"`
	CreatedAt   time.Time      `json:"createdAt"`
	UpdatedAt   time.Time      `json:"updatedAt"`
}

// TaskChange: An entry of a task's history.
type TaskChange struct {
	ID        string        `json:"id"`
	TaskID    string        `json:"taskId"`
	ChangedBy string        `json:"changedBy"`
	ChangedAt time.Time     `json:"changedAt"`
	Reason    *string       `json:"reason"`
	Changes   []FieldChange `json:"changes"`
}

// TaskDraft: The fields of a new task.
type TaskDraft struct {
	Title       string         `json:"title"`
	AssigneeID  *string        `json:"assigneeId,omitzero"`
	Description *string        `json:"description,omitzero"`
	DueDate     *string        `json:"dueDate,omitzero"`
	Metadata    map[string]any `json:"metadata,omitzero"`
	Priority    *string        `json:"priority,omitzero"`
	Status      *string        `json:"status,omitzero"`
	Tags        []string       `json:"tags,omitzero"`
	WorkspaceID *string        `json:"workspaceId,omitzero"`
}

// TaskPatch: The fields to change.
type TaskPatch struct {
	AssigneeID  Change[string]         `json:"assigneeId,omitzero"`
	Description Change[string]         `json:"description,omitzero"`
	DueDate     Change[string]         `json:"dueDate,omitzero"`
	Metadata    Change[map[string]any] `json:"metadata,omitzero"`
	Priority    *string                `json:"priority,omitzero"`
	Status      *string                `json:"status,omitzero"`
	Tags        Change[[]string]       `json:"tags,omitzero"`
	Title       *string                `json:"title,omitzero"`
	WorkspaceID Change[string]         `json:"workspaceId,omitzero"`
}

// Team: A group of members that workspaces belong to.
type Team struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Description *string   `json:"description"`
	Kind        string    `json:"kind"`
	CreatedBy   string    `json:"createdBy"`
	CreatedAt   time.Time `json:"createdAt"`
	UpdatedAt   time.Time `json:"updatedAt"`
}

// TeamDraft: The fields of a new team.
type TeamDraft struct {
	Name        string  `json:"name"`
	Description *string `json:"description,omitzero"`
}

// TeamMember: A member of a team.
type TeamMember struct {
	UserID    string    `json:"userId"`
	Name      *string   `json:"name"`
	Email     *string   `json:"email"`
	AvatarURL *string   `json:"avatarUrl"`
	JoinedAt  time.Time `json:"joinedAt"`
}

// TeamMemberDraft: The member to add.
type TeamMemberDraft struct {
	UserID string `json:"userId"`
}

// ToolCall: A call of a tool.
type ToolCall struct {
	ID            string         `json:"id"`
	Name          string         `json:"name"`
	Args          map[string]any `json:"args"`
	ServerHandled *bool          `json:"serverHandled,omitzero"`
}

// ToolDefinition: A tool that the client runs.
type ToolDefinition struct {
	Name        string         `json:"name"`
	Description *string        `json:"description,omitzero"`
	InputSchema map[string]any `json:"inputSchema,omitzero"`
	Parameters  map[string]any `json:"parameters,omitzero"`
}

// ToolResult: The result of a tool.
type ToolResult struct {
	CallID string `json:"callId"`
	Result any    `json:"result"`
}

// UploadFileParams are the parameters of UploadFile. Zero fields are left out.
type UploadFileParams struct {
	// The path, for raw bytes, like the following fields.
	Path string `query:"path"`
	// The kind; ARTIFACT by default.
	Kind string `query:"kind"`
	// The scope; SHARED by default.
	Scope string `query:"scope"`
	// A workspace that the caller sees.
	WorkspaceID string `query:"workspaceId"`
	// A team that the caller sees.
	TeamID string `query:"teamId"`
	// The media type; by default from the content type or the path's extension.
	MimeType string `query:"mimeType"`
	// SHA-256 of the content in hexadecimal; 400 if it does not match.
	Checksum string `query:"checksum"`
	// The expected version, 0 for none; 409 if it differs.
	ExpectedVersion *int64 `query:"expectedVersion"`
}

// Usage: The tokens that a user has used in a billing period.
type Usage struct {
	PeriodStart  time.Time    `json:"periodStart"`
	PeriodEnd    time.Time    `json:"periodEnd"`
	InputTokens  int64        `json:"inputTokens"`
	OutputTokens int64        `json:"outputTokens"`
	TotalTokens  int64        `json:"totalTokens"`
	Requests     int64        `json:"requests"`
	ByModel      []ModelUsage `json:"byModel"`
	ByDay        []DayUsage   `json:"byDay"`
}

// UsageSum: The tokens of the last 30 days of UTC, the present one included.
type UsageSum struct {
	InputTokens  int64 `json:"inputTokens"`
	OutputTokens int64 `json:"outputTokens"`
	TotalTokens  int64 `json:"totalTokens"`
	Requests     int64 `json:"requests"`
}

// UserUsage: The tokens of one user.
type UserUsage struct {
	UserID       string `json:"userId"`
	InputTokens  int64  `json:"inputTokens"`
	OutputTokens int64  `json:"outputTokens"`
	TotalTokens  int64  `json:"totalTokens"`
	Requests     int64  `json:"requests"`
}

// Workspace: A workspace of a team.
type Workspace struct {
	ID          string    `json:"id"`
	TeamID      string    `json:"teamId"`
	Name        string    `json:"name"`
	Description *string   `json:"description"`
	SortOrder   int64     `json:"sortOrder"`
	CreatedBy   string    `json:"createdBy"`
	CreatedAt   time.Time `json:"createdAt"`
	UpdatedAt   time.Time `json:"updatedAt"`
}

// WorkspaceDraft: The fields of a new workspace.
type WorkspaceDraft struct {
	Name        string  `json:"name"`
	TeamID      string  `json:"teamId"`
	Description *string `json:"description,omitzero"`
}
