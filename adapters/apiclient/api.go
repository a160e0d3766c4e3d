// Code generated from docs/openapi.yaml by generate_test.go; DO NOT EDIT.

package apiclient

import (
	"context"
	"net/http"
	"time"
)

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

// ReplaceFile is PUT /api/v1/sync/files/{id}: Replace a file's content.
func (c *Client) ReplaceFile(ctx context.Context, id string, params ReplaceFileParams, body Content) (StoredObject, error) {
	return receive[StoredObject](c, c.request(ctx, http.MethodPut, "/api/v1/sync/files/"+segment(id), params, body, 0))
}

// GetManifest is GET /api/v1/sync/manifest: Get the manifest.
func (c *Client) GetManifest(ctx context.Context, params GetManifestParams) (*List[StoredObject], error) {
	return list[StoredObject](c, c.request(ctx, http.MethodGet, "/api/v1/sync/manifest", params, nil, 0))
}

// DeleteFileParams are the parameters of DeleteFile. Zero fields are left out.
type DeleteFileParams struct {
	IfMatch         string `header:"If-Match"`       // The expected version as entity tag or number, or * for any; 409 if it differs or the tag is weak. Not with expectedVersion.
	ExpectedVersion *int64 `query:"expectedVersion"` // The expected version, 0 for none; 409 if it differs.
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
	Raw         string `query:"raw"`            // 1 for the bytes, 0 for JSON, regardless of Accept.
	IfNoneMatch string `header:"If-None-Match"` // Entity tags; 304 if one matches. Weak tags match too.
	Range       string `header:"Range"`         // Ranges of the bytes, such as bytes=0-1023; at most 16, more return everything.
	IfRange     string `header:"If-Range"`      // The entity tag that the ranges belong to; if it is outdated, all bytes are returned.
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

// FollowChangesParams are the parameters of FollowChanges. Zero fields are left out.
type FollowChangesParams struct {
	LastEventID string `header:"Last-Event-ID"` // The id of the last event received.
}

// GetManifestParams are the parameters of GetManifest. Zero fields are left out.
type GetManifestParams struct {
	Since       string `query:"since"`          // An earlier X-Sync-Cursor, or the id of an event of the change feed.
	Limit       *int64 `query:"limit"`          // The maximum number of records on a page. A page of more than 4 MiB has fewer; the Link header tells whether there is a next one. Without limit the list is complete.
	Cursor      string `query:"cursor"`         // The start of the page, from the Link header.
	IfNoneMatch string `header:"If-None-Match"` // Entity tags; 304 if one matches. Weak tags match too.
}

// ListFilesParams are the parameters of ListFiles. Zero fields are left out.
type ListFilesParams struct {
	Kind        string `query:"kind"`        // Only files of this kind.
	Scope       string `query:"scope"`       // Only files of this scope.
	WorkspaceID string `query:"workspaceId"` // A workspace's id; null selects files without a workspace.
	Prefix      string `query:"prefix"`      // A prefix of the storage key, with or without a leading slash; at most 4096 bytes.
	Deleted     string `query:"deleted"`     // true for the deleted files that can be restored in place of those that are there, each as its last version was. Several may have had one path.
	Limit       *int64 `query:"limit"`       // The maximum number of records on a page. A page of more than 4 MiB has fewer; the Link header tells whether there is a next one. Without limit the list is complete.
	Cursor      string `query:"cursor"`      // The start of the page, from the Link header.
}

// Me: The caller.
type Me struct {
	User                Profile `json:"user"`
	Org                 *Org    `json:"org"`
	Role                *string `json:"role"`
	OnboardingCompleted bool    `json:"onboardingCompleted"`
	OnboardingSeeded    bool    `json:"onboardingSeeded"`
}

// Org: An organisation.
type Org struct {
	ID   string  `json:"id"`
	Name *string `json:"name"`
	Slug *string `json:"slug"`
}

// Person: A user.
type Person struct {
	ID    string  `json:"id"`
	Name  *string `json:"name"`
	Email *string `json:"email"`
}

// Profile: A user with their picture.
type Profile struct {
	ID        string  `json:"id"`
	Name      *string `json:"name"`
	Email     *string `json:"email"`
	AvatarURL *string `json:"avatarUrl"`
}

// Refresh: The token to refresh.
type Refresh struct {
	Token string `json:"token"`
}

// ReplaceFileParams are the parameters of ReplaceFile. Zero fields are left out.
type ReplaceFileParams struct {
	IfMatch         string `header:"If-Match"`       // The expected version as entity tag or number, or * for any; 409 if it differs or the tag is weak. Not with expectedVersion.
	ExpectedVersion *int64 `query:"expectedVersion"` // The expected version, 0 for none; 409 if it differs.
	Checksum        string `query:"checksum"`        // SHA-256 of the content in hexadecimal; 400 if it does not match.
	MimeType        string `query:"mimeType"`        // The media type, for raw bytes; unchanged if absent.
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

// Success: The operation succeeded.
type Success struct {
	Success bool `json:"success"`
}

// UploadFileParams are the parameters of UploadFile. Zero fields are left out.
type UploadFileParams struct {
	Path            string `query:"path"`            // The path, for raw bytes, like the following fields.
	Kind            string `query:"kind"`            // The kind; ARTIFACT by default.
	Scope           string `query:"scope"`           // The scope; SHARED by default.
	WorkspaceID     string `query:"workspaceId"`     // A workspace that the caller sees.
	TeamID          string `query:"teamId"`          // A team that the caller sees.
	MimeType        string `query:"mimeType"`        // The media type; by default from the content type or the path's extension.
	Checksum        string `query:"checksum"`        // SHA-256 of the content in hexadecimal; 400 if it does not match.
	ExpectedVersion *int64 `query:"expectedVersion"` // The expected version, 0 for none; 409 if it differs.
}
