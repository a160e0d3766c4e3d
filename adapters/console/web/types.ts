// Generated from docs/openapi.yaml by types_test.go. DO NOT EDIT.

export type Adoption = { arch: Arch; channel: ReleaseChannel; checks: number; day: string; offered: number; platform: Platform; version: string; }
export type AnyJSON = unknown
export type Arch = "X64" | "ARM64" | "UNIVERSAL"
export type AuditEntry = { action: "member.role_changed" | "member.removed" | "member.left" | "session.ended" | "invitation.created" | "invitation.resent" | "invitation.deleted" | "subscription.changed" | "operator.read" | "connector.created" | "connector.deleted" | "connector.credentials_stored" | "connector.credentials_read" | "connector.authorized" | "release.published" | "release.changed" | "release.paused" | "organisation.imported" | "organisation.export_requested"; actorId: string | null; address: string | null; createdAt: string; detail: string | null; id: Id; operator: boolean; requestId: string | null; target: string | null; }
export type Authorization = { authUrl: string; instanceId: Id; state: string; }
export type AuthorizationDraft = { instanceId?: string | null; providerId?: string | null; }
export type AuthorizationStatus = { error: string | null; instanceId: Id; status: "pending" | "ready" | "error"; }
export type BillingStatus = { allowed: boolean; hadPriorSubscription: boolean; hasActivePlan: boolean; plan: Plan; status: SubscriptionStatus; trialEndsAt: string | null; }
export type ChangeEvent = { changedBy?: string; checksum?: Checksum; from?: string; fromPath?: (Path); path: Path; storageKey: string; timestamp: Time; type: "file-changed" | "file-deleted"; version?: number; }
export type ChatChunk = (TextChunk | ToolCallChunk | ToolResultChunk | ErrorChunk | DoneChunk)
export type ChatRequest = { enableWebSearch?: boolean | null; history?: HistoryMessage[] | null; maxTokens?: number | null; message: string; model?: string | null; systemPrompt?: string | null; tools?: ToolDefinition[] | null; }
export type ChatUsage = { inputTokens: number; outputTokens: number; }
export type CheckoutDraft = { plan: "STANDARD" | "PREMIUM"; }
export type Checksum = string
export type ClientMetadata = { application_type: "web"; client_id: string; client_name: string; client_uri: string; grant_types: ("authorization_code" | "refresh_token")[]; redirect_uris: string[]; response_types: "code"[]; token_endpoint_auth_method: "none"; }
export type Connector = { config: { [name: string]: unknown }; createdAt: Time; createdBy: Id; credentialsExpireAt: string | null; hasCredentials: boolean; hosting: "CLOUD" | "LOCAL"; id: Id; instanceId: string; label: string; lastError: string | null; lastUsedAt: string | null; name: string | null; serverId: string; status: "CONNECTED" | "DISCONNECTED" | "CONNECTING" | "ERROR"; tools: ConnectorTool[]; transport: McpTransport; }
export type ConnectorCredentials = { credentials: { [name: string]: unknown }; expiresAt: string | null; }
export type ConnectorDraft = { config?: { [name: string]: unknown } | null; name?: string | null; providerId: string; }
export type ConnectorProvider = { authMode: "SERVER_MEDIATED" | "REMOTE_OAUTH" | "API_KEY" | "NONE"; category: string | null; command: string[] | null; credentialFields: CredentialField[]; description: string; displayName: string; env: { [name: string]: string } | null; headers: { [name: string]: string } | null; iconUrl: string | null; mcpTransport: McpTransport; mcpUrl: string | null; serverId: string; }
export type ConnectorTool = { description: string; name: string; }
export type CredentialField = { label: string; name: string; optional: boolean; }
export type CredentialsDraft = { credentials: { [name: string]: unknown }; }
export type DailyUsage = { date: string; inputTokens: number; model: string | null; outputTokens: number; requests: number; totalTokens: number; userId: string | null; }
export type DayUsage = { date: string; inputTokens: number; outputTokens: number; requests: number; totalTokens: number; }
export type Description = string | null
export type DeviceClaim = { device_code: string; grant_type?: "urn:ietf:params:oauth:grant-type:device_code"; }
export type DeviceCodes = { device_code: string; expires_in: number; interval: number; user_code: string; verification_uri: string; verification_uri_complete: string; }
export type DeviceError = { error: "authorization_pending" | "slow_down" | "access_denied" | "expired_token" | "invalid_grant" | "Bad Request"; message: string; statusCode: 400; }
export type DeviceSession = { access_token: string; expires_in: number; onboardingCompleted: boolean; onboardingSeeded: boolean; org: (Org) | null; role: RoleOrNone; token: string; token_type: "Bearer"; user: Person; }
export type DeviceStart = { client_name?: string | null; }
export type DoctorFinding = { check: string; message: string; remedy: string; variables: SettingHelp[]; verdict: "ok" | "note" | "wrong"; }
export type DoctorReport = { checks: DoctorFinding[]; ok: boolean; }
export type DoneChunk = { type: "done"; usage: ChatUsage; }
export type Elsewhere = { url: string; }
export type Error = { error: "Bad Request" | "Unauthorized" | "Forbidden" | "Not Found" | "Method Not Allowed" | "Conflict" | "Gone" | "Precondition Failed" | "Request Entity Too Large" | "Unsupported Media Type" | "Requested Range Not Satisfiable" | "Expectation Failed" | "Unprocessable Entity" | "Too Many Requests" | "Request Header Fields Too Large" | "Internal Server Error" | "Not Implemented" | "Service Unavailable"; message: string; statusCode: number; }
export type ErrorChunk = { error: "The model is overloaded. Please retry in a few moments." | "Rate limit exceeded." | "An error occurred while processing your request."; type: "error"; }
export type Exchange = { identityToken: string; orgName?: string | null; orgSlug?: string | null; userAvatarUrl?: string | null; userEmail?: string | null; userName?: string | null; }
export type Export = { createdAt: string; downloadExpiresAt: string | null; downloadUrl: string | null; error: string | null; expiresAt: string | null; fileBytes: number; files: number; filesDone: number; finishedAt: string | null; id: Id; records: number; size: number | null; status: "PENDING" | "RUNNING" | "READY" | "FAILED" | "EXPIRED"; }
export type FieldChange = { field: "title" | "description" | "status" | "priority" | "assigneeId" | "workspaceId" | "dueDate" | "tags" | "metadata" | "sortOrder"; from: string | null; to: string | null; }
export type FileDraft = { checksum?: (Checksum) | null; content: string; encoding?: "utf8" | "base64" | null; expectedVersion?: number | null; kind?: (StorageKind) | null; mimeType?: (MimeType) | null; path: Path; scope?: (Scope) | null; teamId?: string | null; workspaceId?: string | null; }
export type FileForm = { checksum?: Checksum; expectedVersion?: number; file: string; kind?: StorageKind; mimeType?: MimeType; path?: Path; scope?: Scope; teamId?: string; workspaceId?: string; }
export type FileMove = { expectedVersion?: number | null; path: Path; }
export type FileOperation = { checksum?: (Checksum) | null; content?: string | null; encoding?: "utf8" | "base64" | null; expectedVersion?: number | null; id?: string | null; kind?: (StorageKind) | null; mimeType?: (MimeType) | null; op: "put" | "move" | "delete"; path?: (Path) | null; scope?: (Scope) | null; teamId?: string | null; workspaceId?: string | null; }
export type FileOutcome = { error?: Error; file?: (StoredObject); index: number; status: number; }
export type FileReading = { error?: Error; file?: (StoredObject); index: number; length: number; status: number; }
export type FileToRead = { expectedVersion?: number | null; id: string; }
export type FilesToRead = { files: FileToRead[]; }
export type FolderMove = { from: (Path); kind?: (StorageKind) | null; scope?: (Scope) | null; teamId?: string | null; to: (Path); workspaceId?: string | null; }
export type FolderMoved = { cursor: SyncCursor; moved: number; }
export type FormerMember = { name: PersonName; removedAt: string; userId: Id; }
export type Grant = { currentPeriodEnd?: string | null; plan: Plan; seats?: number | null; }
export type HealthOfBudget = { refusals: number; usedBytes: number; }
export type HealthOfShare = { refusals: number; used: number; waiting: number; }
export type HistoryBlock = (TextBlock | ToolUseBlock | ToolResultBlock)
export type HistoryMessage = { content: (string | HistoryBlock[]); role: "user" | "assistant"; }
export type Id = string
export type IdentityEmail = { email_address?: string | null; id?: IdentityId; }
export type IdentityEvent = { data?: (IdentityUser | IdentityOrganization | IdentityMembership | IdentityInvitation | { [name: string]: unknown }) | null; timestamp?: number | null; type: string; }
export type IdentityId = string
export type IdentityInvitation = { email_address?: string | null; id: IdentityId; inviter_id?: string | null; organization_id: IdentityId; role?: string | null; updated_at?: number | null; }
export type IdentityMembership = { created_at?: number | null; organization: IdentityOrganization; public_user_data: { first_name?: string | null; identifier?: string | null; image_url?: string | null; last_name?: string | null; user_id: IdentityId; }; role?: string | null; updated_at?: number | null; }
export type IdentityOrganization = { id: IdentityId; name?: string | null; slug?: string | null; updated_at?: number | null; }
export type IdentityUser = { email_addresses?: IdentityEmail[] | null; first_name?: string | null; id: IdentityId; image_url?: string | null; last_name?: string | null; primary_email_address_id?: string | null; updated_at?: number | null; username?: string | null; }
export type InstallationReport = { arch: string; channel?: string | null; outcome: "success" | "failure"; platform: string; version: string; }
export type InstallationReports = { failed: number; hour: string; succeeded: number; }
export type Invitation = { acceptedAt: string | null; createdAt: string; email: string; expiresAt: string; id: Id; invitedBy: string | null; role: Role; status: "PENDING" | "ACCEPTED" | "REVOKED" | "EXPIRED"; }
export type InvitationWithAddress = { acceptedAt: string | null; createdAt: string; email: string; expiresAt: string; id: Id; inviteUrl: string; invitedBy: string | null; role: Role; status: "PENDING"; }
export type Invite = { email: string; role: Role; }
export type Key = { alg: string; crv?: string; kid: string; kty: string; use: "sig"; x?: string; }
export type Keys = { keys: Key[]; }
export type McpTransport = "STDIO" | "SSE" | "HTTP"
export type Me = { onboardingCompleted: boolean; onboardingSeeded: boolean; org: (Org) | null; role: RoleOrNone; user: Profile; }
export type Member = { avatarUrl: PersonAvatar; email: PersonEmail; joinedAt: string; name: PersonName; onboardingCompleted: boolean; role: Role; userId: Id; }
export type MemoryDraft = { content: string; expectedVersion?: number | null; }
export type MimeType = string
export type MinuteOfHealth = { calls: number; clientErrors: number; feeds: number; meanSeconds: number; requests: number; serverErrors: number; start: string; transfers: number; waiting: number; }
export type Model = { capabilities: string[]; contextWindow: number; displayName: string; id: string; maxOutputTokens: number; provider: "anthropic" | "openai" | "local"; tier: string; }
export type ModelUsage = { inputTokens: number; model: string; outputTokens: number; requests: number; totalTokens: number; }
export type Move = { targetTeamId: string; }
export type Name = string
export type NoUpdate = { currentVersion: string; updateAvailable: false; }
export type Onboarded = { onboardingCompleted: true; success: true; }
export type Org = { id: Id; name: string | null; slug: string | null; }
export type OrganisationUsage = { byDay: DayUsage[]; byModel: ModelUsage[]; byUser?: UserUsage[]; inputTokens: number; outputTokens: number; periodEnd: string; periodStart: Time; requests: number; totalTokens: number; }
export type Outcome = { plan: "STANDARD" | "PREMIUM" | null; status: "open" | "complete" | "expired" | "cancelled" | "unknown"; }
export type Outcomes = { failed: number; succeeded: number; }
export type Overview = { closedAt: string | null; createdAt: Time; id: Id; memberLimit: number | null; members: number; name: string | null; owners: number; pendingInvitations: number; publishesReleases: boolean; slug: string | null; storageLimit: number | null; storageUsed: number; subscription: Subscription; updatedAt: Time; usage: UsageSum; }
export type OwnOrganisation = { current: boolean; id: Id; name: string | null; role: Role; slug: string | null; }
export type Page = string
export type Path = string
export type PaymentEvent = { created?: number | null; data?: { object?: { [name: string]: unknown } | null; } | null; id: string; type: string; }
export type Person = { email: PersonEmail; id: Id; name: PersonName; }
export type PersonAvatar = string | null
export type PersonEmail = string | null
export type PersonName = string | null
export type Plan = "NO_PLAN" | "FREE" | "STANDARD" | "PREMIUM" | "ENTERPRISE"
export type PlanOffer = { dailyTokens: number; members: number | null; plan: Plan; requestsPerMinute: number | null; sold: boolean; storage: number | null; trialDays: number; versions: SyncVersions; }
export type Platform = "DARWIN" | "WIN32" | "LINUX"
export type Profile = { avatarUrl: PersonAvatar; email: PersonEmail; id: Id; name: PersonName; }
export type Quota = { limit: number; remaining: number; resetsAt: string; used: number; }
export type Readiness = { compatibleFrom: string; schema: number; status: "ready"; version: string; }
export type Received = { received: true; }
export type Refresh = { orgId?: string | null; token: string; }
export type Release = { active: boolean; arch: Arch; channel: ReleaseChannel; downloadUrl: string; failureLimit: number | null; failureMinimum: number | null; fileSizeBytes: number | null; id: Id; mandatory: boolean; minOsVersion: string | null; pausedAt: string | null; pausedByReports: (Outcomes) | null; platform: Platform; publishedAt: Time; releaseNotes: string | null; rolloutPercentage: number; sha1: string | null; sha512: string | null; sha512Base64: string | null; signature: string | null; updatedAt: Time; version: string; }
export type ReleaseChannel = "STABLE" | "BETA" | "CANARY"
export type ReleaseDraft = { active?: boolean | null; arch: string; channel?: string | null; downloadUrl: string; failureLimit?: number | null; failureMinimum?: number; fileSizeBytes?: number | null; mandatory?: boolean | null; minOsVersion?: string | null; platform: string; publishedAt?: string | null; releaseNotes?: string | null; rolloutPercentage?: number | null; sha1?: string | null; sha512?: string | null; signature?: string | null; version: string; }
export type ReleasePatch = { active?: boolean; downloadUrl?: string; failureLimit?: number | null; failureMinimum?: number; fileSizeBytes?: number | null; mandatory?: boolean; minOsVersion?: string | null; paused?: boolean; publishedAt?: string; releaseNotes?: string | null; rolloutPercentage?: number; sha1?: string | null; sha512?: string | null; signature?: string | null; }
export type ReleaseProgress = { devices: number; from: string; release: Id; reports: (Outcomes); to: string; }
export type Reorder = { sortOrder?: number | null; taskIds: TaskReference[]; }
export type Replacement = { checksum?: (Checksum) | null; content: string; encoding?: "utf8" | "base64" | null; expectedVersion?: number | null; mimeType?: (MimeType) | null; }
export type ReplacementForm = { checksum?: Checksum; expectedVersion?: number; file: string; mimeType?: MimeType; }
export type Reprioritization = { priority?: (TaskPriority) | null; reason: string; sortOrder?: number | null; taskId: TaskReference; }
export type Reprioritize = { changes: Reprioritization[]; }
export type Restoration = { expectedVersion?: number | null; path?: (Path); version?: number; }
export type ResumableUpload = { complete: boolean; createdAt: string; expiresAt: string; fileId: string; id: string; offset: number; path: string | null; size: number; }
export type Resync = { id: SyncCursor; }
export type Role = "OWNER" | "ADMIN" | "MEMBER" | "VIEWER"
export type RoleChange = { role: Role; }
export type RoleOrNone = "OWNER" | "ADMIN" | "MEMBER" | "VIEWER" | null
export type Rollout = { devices: RolloutDevice[]; release: Id; rolloutPercentage: number; }
export type RolloutDevice = { bucket: number; clientId: string; offered: boolean; reason: "in the rollout" | "not in the rollout yet" | "the rollout is paused" | "not active" | "another release is served in its place"; }
export type Scope = "SHARED" | "PERSONAL"
export type Seeded = { personalTeamId: string | null; personalWorkspaceId: string | null; seeded: boolean; sharedTeamId: string | null; sharedWorkspaceId: string | null; taskIds: Id[]; }
export type ServerHealth = { activeRequests: number; budgets: { [name: string]: HealthOfBudget }; feeds: number; minutes: MinuteOfHealth[]; problem: string | null; ready: boolean; schema: number; shares: { [name: string]: HealthOfShare }; startedAt: Time; version: string; }
export type Session = { onboardingCompleted: boolean; onboardingSeeded: boolean; org: (Org) | null; role: RoleOrNone; token: string; user: Person; }
export type SettingHelp = { help: string; name: string; }
export type SignIn = { address: string | null; createdAt: string; current: boolean; id: Id; lastUsedAt: string; userAgent: string | null; }
export type SquirrelUpdate = { name: string; notes?: string; pub_date: string; url: string; }
export type StartedUpload = { expiresAt: string; headers: { [name: string]: string }; id: string; method: "PUT"; url: string; }
export type State = { status: "ok"; version: string; }
export type Storage = { byClass: StorageByClass; limit: number | null; overLimit: boolean; plan: Plan; uploads: number; used: number; }
export type StorageByClass = { memories: number; personalFiles: number; sharedFiles: number; versions: number; }
export type StorageKind = "ARTIFACT" | "HUB_MEMORY" | "TEAM_MEMORY" | "WORKSPACE_MEMORY" | "TEMPLATE" | "BRAND_ASSET"
export type StoredFile = { checksum: Checksum; content: string; createdAt: Time; createdBy: Id; encoding: "utf8" | "base64"; id: Id; kind: StorageKind; mimeType: MimeType; ownerId: string | null; path: Path; scope: Scope; size: number; storageKey: string; teamId: string | null; updatedAt: Time; updatedBy: Id; version: number; workspaceId: string | null; }
export type StoredObject = { checksum: Checksum; createdAt: Time; createdBy: Id; deleted?: true; deletedAt?: string; deletedBy?: string | null; expiresAt?: string; id: Id; kind: StorageKind; mimeType: MimeType; ownerId: string | null; path: Path; scope: Scope; size: number; storageKey: string; teamId: string | null; updatedAt: Time; updatedBy: Id; version: number; workspaceId: string | null; }
export type StoredVersion = { checksum: Checksum; createdAt: Time; createdBy: Id; deleted: boolean; endedAt: string | null; endedBy: string | null; expiresAt: string | null; id: Id; kind: StorageKind; mimeType: MimeType; ownerId: string | null; path: Path; present: boolean; scope: Scope; size: number; storageKey: string; teamId: string | null; updatedAt: Time; updatedBy: Id; version: number; workspaceId: string | null; }
export type Subscription = { cancelAtPeriodEnd: boolean; currentPeriodEnd: string | null; currentPeriodStart: string | null; hasPaymentMethod: boolean; managedExternally: boolean; plan: Plan; purchasedSeats: number | null; seats: number; status: SubscriptionStatus; trialEnd: string | null; }
export type SubscriptionStatus = "TRIALING" | "ACTIVE" | "PAST_DUE" | "CANCELED" | "PAUSED"
export type Success = { success: true; }
export type SyncBatchReads = { maxBytes: number; maxFileBytes: number; maxFiles: number; }
export type SyncCursor = string
export type SyncLimits = { batchReads: SyncBatchReads; forbiddenCharacters: string; forbiddenEndings: string[]; forbiddenNames: string[]; maxBatchBytes: number; maxBatchFileBytes: number; maxBatchOperationBytes: number; maxBatchOperations: number; maxFileBytes: number; maxPathBytes: number; maxSegmentBytes: number; rates: SyncRates; readOnly: boolean; resumableUploads: SyncResumable; storage: SyncStorage; versions: SyncVersions; }
export type SyncRates = { operationsPerRequest: number; requests: { count: number; seconds: number; } | null; }
export type SyncResumable = { maxOpen: number; minAppendBytes: number; partBytes: number; }
export type SyncStorage = { limit: number | null; reserved: number; used: number; }
export type SyncVersions = { count: number; days: number; } | null
export type Tag = string
export type Task = { assigneeId: string | null; completedAt: string | null; createdAt: string; createdBy: string; description: string | null; dueDate: string | null; id: Id; metadata: { [name: string]: unknown } | null; priority: TaskPriority; sortOrder: number; status: TaskStatus; tags: Tag[]; title: string; updatedAt: string; workspaceId: string | null; }
export type TaskChange = { changedAt: string; changedBy: string; changes: FieldChange[]; id: Id; reason: string | null; taskId: string; }
export type TaskDraft = { assigneeId?: string | null; description?: Description; dueDate?: string | null; metadata?: { [name: string]: unknown } | null; priority?: (TaskPriority) | null; status?: (TaskStatus) | null; tags?: Tag[] | null; title: Name; workspaceId?: string | null; }
export type TaskPatch = { assigneeId?: string | null; description?: Description; dueDate?: string | null; metadata?: { [name: string]: unknown } | null; priority?: TaskPriority; status?: TaskStatus; tags?: Tag[] | null; title?: Name; workspaceId?: string | null; }
export type TaskPriority = "LOW" | "MEDIUM" | "HIGH" | "URGENT"
export type TaskReference = string
export type TaskStatus = "TODO" | "IN_PROGRESS" | "DONE" | "CANCELLED"
export type TauriUpdate = { notes?: string; pub_date: string; signature: string; url: string; version: string; }
export type Team = { createdAt: string; createdBy: string; description: string | null; id: Id; kind: "SHARED" | "PERSONAL" | "STANDARD"; name: string; updatedAt: string; }
export type TeamDraft = { description?: Description; name: Name; }
export type TeamMember = { avatarUrl: PersonAvatar; email: PersonEmail; joinedAt: string; name: PersonName; userId: Id; }
export type TeamMemberDraft = { userId: string; }
export type TeamPatch = { description?: Description; name?: Name; }
export type TextBlock = { text: string; type: "text"; }
export type TextChunk = { text: string; type: "text"; }
export type Time = string
export type ToolCall = { args: { [name: string]: unknown }; id: string; name: string; serverHandled?: true; }
export type ToolCallChunk = { toolCall: ToolCall; type: "tool_call"; }
export type ToolDefinition = { description?: string | null; inputSchema?: { [name: string]: unknown } | null; input_schema?: { [name: string]: unknown } | null; name: ToolName; parameters?: { [name: string]: unknown } | null; }
export type ToolName = string
export type ToolResult = { callId: string; result: unknown; }
export type ToolResultBlock = { content?: unknown; isError?: boolean | null; is_error?: boolean | null; toolUseId?: string; tool_use_id?: string; type: "tool_result"; }
export type ToolResultChunk = { toolResult: ToolResult; type: "tool_result"; }
export type ToolUseBlock = { id: string; input: { [name: string]: unknown }; name: ToolName; serverHandled?: boolean | null; server_handled?: boolean | null; type: "tool_use"; }
export type Update = { channel: ReleaseChannel; currentVersion: string; downloadUrl: string; fileSizeBytes: number | null; latestVersion: string; mandatory: boolean; minOsVersion: string | null; publishedAt: Time; releaseNotes: string | null; sha512: string | null; sha512Base64: string | null; signature: string | null; updateAvailable: true; version: string; }
export type UploadDraft = { checksum: Checksum; expectedVersion?: number | null; fileId?: string | null; kind?: (StorageKind) | null; mimeType?: (MimeType) | null; path?: (Path) | null; scope?: (Scope) | null; size: number; teamId?: string | null; workspaceId?: string | null; }
export type Usage = { byDay: DayUsage[]; byModel: ModelUsage[]; inputTokens: number; outputTokens: number; periodEnd: string; periodStart: Time; requests: number; totalTokens: number; }
export type UsageSum = { inputTokens: number; outputTokens: number; requests: number; totalTokens: number; }
export type UserUsage = { inputTokens: number; outputTokens: number; requests: number; totalTokens: number; userId: Id; }
export type Workspace = { createdAt: string; createdBy: string; description: string | null; id: Id; name: string; sortOrder: number; teamId: string; updatedAt: string; }
export type WorkspaceDraft = { description?: Description; name: Name; teamId: string; }
export type WorkspaceOrder = { order: WorkspaceReference[]; }
export type WorkspacePatch = { description?: Description; name?: Name; }
export type WorkspaceReference = string

export type Operations = {
	"GET /api/v1/admin/doctor": { answer: DoctorReport }
	"GET /api/v1/admin/health": { answer: ServerHealth }
	"GET /api/v1/admin/organisations": { query?: { search?: string; limit?: number; cursor?: string; }; answer: Overview[] }
	"GET /api/v1/admin/organisations/{id}": { path: { id: string; }; answer: Overview }
	"GET /api/v1/admin/organisations/{id}/members": { path: { id: string; }; query?: { search?: string; ids?: string; limit?: number; cursor?: string; }; answer: Member[] }
	"PUT /api/v1/admin/organisations/{id}/members/{userId}/role": { path: { id: string; userId: string; }; body: RoleChange; answer: Member }
	"PUT /api/v1/admin/organisations/{id}/subscription": { path: { id: string; }; body: Grant; answer: Overview }
	"POST /api/v1/auth/device": { body?: DeviceStart; answer: DeviceCodes }
	"POST /api/v1/auth/device/token": { body: DeviceClaim; answer: DeviceSession }
	"POST /api/v1/auth/exchange-token": { body: Exchange; answer: Session }
	"GET /api/v1/auth/me": { answer: Me }
	"POST /api/v1/auth/onboarding-complete": { answer: Onboarded }
	"GET /api/v1/auth/organisations": { answer: OwnOrganisation[] }
	"POST /api/v1/auth/refresh": { body: Refresh; answer: Session }
	"POST /api/v1/auth/seed-onboarding": { answer: Seeded }
	"DELETE /api/v1/auth/sessions": { answer: Success }
	"GET /api/v1/auth/sessions": { answer: SignIn[] }
	"DELETE /api/v1/auth/sessions/{id}": { path: { id: string; }; answer: Success }
	"POST /api/v1/auth/webhook": { body: IdentityEvent; answer: Received }
	"POST /api/v1/billing/checkout": { body: CheckoutDraft; answer: Elsewhere }
	"GET /api/v1/billing/checkout/cancel": { answer: Outcome }
	"GET /api/v1/billing/checkout/success": { query?: { session_id?: string; }; answer: Outcome }
	"POST /api/v1/billing/downgrade": { answer: Subscription }
	"GET /api/v1/billing/plans": { answer: PlanOffer[] }
	"POST /api/v1/billing/portal": { answer: Elsewhere }
	"GET /api/v1/billing/status": { answer: BillingStatus }
	"GET /api/v1/billing/subscription": { answer: Subscription }
	"POST /api/v1/billing/trial": { answer: Subscription }
	"POST /api/v1/billing/webhook": { body: PaymentEvent; answer: Received }
	"GET /api/v1/connector-providers": { answer: ConnectorProvider[] }
	"GET /api/v1/connectors": { query?: { limit?: number; cursor?: string; }; answer: Connector[] }
	"POST /api/v1/connectors": { body: ConnectorDraft; answer: Connector }
	"DELETE /api/v1/connectors/{instanceId}": { path: { instanceId: string; }; answer: Success }
	"GET /api/v1/connectors/{instanceId}/credentials": { path: { instanceId: string; }; answer: ConnectorCredentials }
	"POST /api/v1/connectors/{instanceId}/credentials": { path: { instanceId: string; }; body: CredentialsDraft; answer: Connector }
	"GET /api/v1/mcp-oauth/client-metadata.json": { answer: ClientMetadata }
	"GET /api/v1/mcp-oauth/client-metadata/{issuer}": { path: { issuer: string; }; answer: ClientMetadata }
	"GET /api/v1/mcp-oauth/poll": { query: { state: string; }; answer: AuthorizationStatus }
	"POST /api/v1/mcp-oauth/start": { body: AuthorizationDraft; answer: Authorization }
	"GET /api/v1/metering/daily": { query?: { from?: string; to?: string; by?: "model" | "user"; userId?: Id; limit?: number; cursor?: string; }; answer: DailyUsage[] }
	"GET /api/v1/metering/org": { answer: OrganisationUsage }
	"GET /api/v1/metering/quota": { answer: Quota }
	"GET /api/v1/metering/storage": { answer: Storage }
	"GET /api/v1/metering/user": { answer: Usage }
	"GET /api/v1/models": { answer: Model[] }
	"GET /api/v1/openapi.json": { answer: { [name: string]: unknown } }
	"GET /api/v1/org/audit": { query?: { actor?: string; action?: "member" | "session" | "invitation" | "subscription" | "operator" | "connector" | "release" | "organisation" | "member.role_changed" | "member.removed" | "member.left" | "session.ended" | "invitation.created" | "invitation.resent" | "invitation.deleted" | "subscription.changed" | "operator.read" | "connector.created" | "connector.deleted" | "connector.credentials_stored" | "connector.credentials_read" | "connector.authorized" | "release.published" | "release.changed" | "release.paused" | "organisation.imported" | "organisation.export_requested"; target?: string; from?: string; to?: string; limit?: number; cursor?: string; }; answer: AuditEntry[] }
	"POST /api/v1/org/export": { answer: Export }
	"GET /api/v1/org/exports": { answer: Export[] }
	"GET /api/v1/org/exports/{id}": { path: { id: string; }; answer: Export }
	"POST /api/v1/org/invite": { body: Invite; answer: InvitationWithAddress }
	"DELETE /api/v1/org/invite/{id}": { path: { id: string; }; answer: Success }
	"POST /api/v1/org/invite/{id}/resend": { path: { id: string; }; answer: InvitationWithAddress }
	"GET /api/v1/org/invites": { query?: { limit?: number; cursor?: string; }; answer: Invitation[] }
	"GET /api/v1/org/members": { query?: { search?: string; ids?: string; limit?: number; cursor?: string; }; answer: Member[] }
	"GET /api/v1/org/members/former": { query?: { limit?: number; cursor?: string; }; answer: FormerMember[] }
	"DELETE /api/v1/org/members/{userId}": { path: { userId: string; }; answer: Success }
	"PATCH /api/v1/org/members/{userId}/role": { path: { userId: string; }; body: RoleChange; answer: Member }
	"GET /api/v1/sync/files": { query?: { kind?: StorageKind; scope?: Scope; workspaceId?: string; prefix?: string; search?: string; deleted?: "true" | "false"; limit?: number; cursor?: string; }; answer: StoredObject[] }
	"POST /api/v1/sync/files": { query?: { path?: Path; kind?: StorageKind; scope?: Scope; workspaceId?: string; teamId?: string; mimeType?: MimeType; checksum?: Checksum; expectedVersion?: number; }; body?: FileDraft; answer: StoredObject }
	"DELETE /api/v1/sync/files/{id}": { path: { id: string; }; query?: { expectedVersion?: number; }; answer: Success }
	"GET /api/v1/sync/files/{id}": { path: { id: string; }; query?: { raw?: "0" | "1"; redirect?: "1"; }; answer: (StoredFile | AnyJSON) }
	"PATCH /api/v1/sync/files/{id}": { path: { id: string; }; query?: { expectedVersion?: number; }; body: FileMove; answer: StoredObject }
	"PUT /api/v1/sync/files/{id}": { path: { id: string; }; query?: { expectedVersion?: number; checksum?: Checksum; mimeType?: MimeType; }; body?: Replacement; answer: StoredObject }
	"POST /api/v1/sync/files/{id}/restore": { path: { id: string; }; body: Restoration; answer: StoredObject }
	"DELETE /api/v1/sync/files/{id}/versions": { path: { id: string; }; answer: Success }
	"GET /api/v1/sync/files/{id}/versions": { path: { id: string; }; query?: { limit?: number; cursor?: string; }; answer: StoredVersion[] }
	"DELETE /api/v1/sync/files/{id}/versions/{version}": { path: { id: string; version: string; }; answer: Success }
	"GET /api/v1/sync/files/{id}/versions/{version}": { path: { id: string; version: string; }; query?: { raw?: "0" | "1"; redirect?: "1"; }; answer: (StoredFile | AnyJSON) }
	"GET /api/v1/sync/limits": { answer: SyncLimits }
	"GET /api/v1/sync/manifest": { query?: { since?: SyncCursor; limit?: number; cursor?: string; }; answer: StoredObject[] }
	"GET /api/v1/sync/memory/workspace/{workspaceId}": { path: { workspaceId: string; }; query?: { limit?: number; cursor?: string; }; answer: StoredObject[] }
	"GET /api/v1/sync/memory/workspace/{workspaceId}/{fileName}": { path: { workspaceId: string; fileName: string; }; answer: (StoredFile) | null }
	"PUT /api/v1/sync/memory/workspace/{workspaceId}/{fileName}": { path: { workspaceId: string; fileName: string; }; query?: { expectedVersion?: number; }; body?: MemoryDraft; answer: StoredObject }
	"GET /api/v1/sync/memory/{scope}": { path: { scope: "user" | "org"; }; answer: (StoredFile) | null }
	"PUT /api/v1/sync/memory/{scope}": { path: { scope: "user" | "org"; }; query?: { expectedVersion?: number; }; body?: MemoryDraft; answer: StoredObject }
	"POST /api/v1/sync/move": { body: FolderMove; answer: FolderMoved }
	"GET /api/v1/sync/org-onboarding": { answer: { [name: string]: unknown } | null }
	"PUT /api/v1/sync/org-onboarding": { query?: { expectedVersion?: number; }; body: { [name: string]: unknown }; answer: StoredObject }
	"GET /api/v1/sync/profile": { answer: { [name: string]: unknown } | null }
	"PUT /api/v1/sync/profile": { query?: { expectedVersion?: number; }; body: { [name: string]: unknown }; answer: StoredObject }
	"GET /api/v1/sync/resumable-uploads": { answer: ResumableUpload[] }
	"POST /api/v1/sync/resumable-uploads": { query?: { fileId?: string; path?: Path; kind?: StorageKind; scope?: Scope; workspaceId?: string; teamId?: string; mimeType?: MimeType; checksum?: Checksum; expectedVersion?: number; }; answer: StoredObject }
	"DELETE /api/v1/sync/resumable-uploads/{id}": { path: { id: string; }; answer: Success }
	"GET /api/v1/sync/resumable-uploads/{id}": { path: { id: string; }; answer: ResumableUpload }
	"PATCH /api/v1/sync/resumable-uploads/{id}": { path: { id: string; }; query?: { checksum?: Checksum; }; answer: StoredObject }
	"POST /api/v1/sync/uploads": { body: UploadDraft; answer: StartedUpload }
	"DELETE /api/v1/sync/uploads/{id}": { path: { id: string; }; answer: Success }
	"POST /api/v1/sync/uploads/{id}/complete": { path: { id: string; }; answer: StoredObject }
	"GET /api/v1/tasks": { query?: { status?: TaskStatus; priority?: TaskPriority; assigneeId?: string; workspaceId?: string; tags?: string; dueBefore?: string; dueAfter?: string; search?: string; sort?: "newest"; limit?: number; cursor?: string; }; answer: Task[] }
	"POST /api/v1/tasks": { body: TaskDraft; answer: Task }
	"POST /api/v1/tasks/reorder": { body: Reorder; answer: Task[] }
	"POST /api/v1/tasks/reprioritize": { body: Reprioritize; answer: Task[] }
	"DELETE /api/v1/tasks/{id}": { path: { id: string; }; answer: Success }
	"GET /api/v1/tasks/{id}": { path: { id: string; }; answer: Task }
	"PATCH /api/v1/tasks/{id}": { path: { id: string; }; body: TaskPatch; answer: Task }
	"GET /api/v1/tasks/{id}/history": { path: { id: string; }; query?: { limit?: number; cursor?: string; }; answer: TaskChange[] }
	"GET /api/v1/teams": { query?: { limit?: number; cursor?: string; }; answer: Team[] }
	"POST /api/v1/teams": { body: TeamDraft; answer: Team }
	"DELETE /api/v1/teams/{id}": { path: { id: string; }; answer: Success }
	"GET /api/v1/teams/{id}": { path: { id: string; }; answer: Team }
	"PATCH /api/v1/teams/{id}": { path: { id: string; }; body: TeamPatch; answer: Team }
	"GET /api/v1/teams/{id}/members": { path: { id: string; }; query?: { limit?: number; cursor?: string; }; answer: TeamMember[] }
	"POST /api/v1/teams/{id}/members": { path: { id: string; }; body: TeamMemberDraft; answer: TeamMember }
	"DELETE /api/v1/teams/{id}/members/{userId}": { path: { id: string; userId: string; }; answer: Success }
	"POST /api/v1/updates": { body: ReleaseDraft; answer: Release }
	"GET /api/v1/updates/adoption": { query?: { from?: string; to?: string; platform?: string; arch?: string; channel?: string; limit?: number; cursor?: string; }; answer: Adoption[] }
	"GET /api/v1/updates/check": { query: { version: string; platform: string; arch: string; channel?: string; clientId?: string; }; answer: (Update | NoUpdate) }
	"GET /api/v1/updates/feeds/squirrel/darwin/{arch}/{version}": { path: { arch: string; version: string; }; query?: { clientId?: string; channel?: string; }; answer: SquirrelUpdate }
	"GET /api/v1/updates/feeds/tauri/{target}/{arch}/{version}": { path: { target: string; arch: string; version: string; }; query?: { clientId?: string; channel?: string; }; answer: TauriUpdate }
	"GET /api/v1/updates/releases": { query?: { limit?: number; cursor?: string; }; answer: Release[] }
	"GET /api/v1/updates/releases/{id}/progress": { path: { id: string; }; answer: ReleaseProgress }
	"GET /api/v1/updates/releases/{id}/reports": { path: { id: string; }; query?: { from?: string; limit?: number; cursor?: string; }; answer: InstallationReports[] }
	"GET /api/v1/updates/releases/{id}/rollout": { path: { id: string; }; query: { clientIds: string; }; answer: Rollout }
	"POST /api/v1/updates/reports": { body: InstallationReport; answer: Success }
	"PATCH /api/v1/updates/{id}": { path: { id: string; }; body: ReleasePatch; answer: Release }
	"GET /api/v1/workspaces": { query?: { teamId?: string; limit?: number; cursor?: string; }; answer: Workspace[] }
	"POST /api/v1/workspaces": { body: WorkspaceDraft; answer: Workspace }
	"PUT /api/v1/workspaces/order": { body: WorkspaceOrder; answer: Success }
	"DELETE /api/v1/workspaces/{id}": { path: { id: string; }; answer: Success }
	"GET /api/v1/workspaces/{id}": { path: { id: string; }; answer: Workspace }
	"PATCH /api/v1/workspaces/{id}": { path: { id: string; }; body: WorkspacePatch; answer: Workspace }
	"POST /api/v1/workspaces/{id}/move": { path: { id: string; }; body: Move; answer: Workspace }
}
