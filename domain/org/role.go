package org

import (
	"fmt"
	"strings"

	"collab/domain/check"
)

// Role is a member's role in an organisation, which decides the member's rights.
type Role string

// The roles, from the most to the least powerful.
const (
	Owner  Role = "OWNER"  // full control: billing, members, settings
	Admin  Role = "ADMIN"  // members, invitations, application settings
	Member Role = "MEMBER" // workspaces and AI
	Viewer Role = "VIEWER" // read only
)

// Roles lists all roles in their order.
func Roles() []Role { return []Role{Owner, Admin, Member, Viewer} }

// RoleRule is the problem of a text that ParseRole refuses.
const RoleRule = "must be one of OWNER, ADMIN, MEMBER, VIEWER"

// ParseRole returns the role written exactly as in the interface.
func ParseRole(s string) (Role, bool) { return check.OneOf(s, Roles()...) }

// MayManage reports whether r may change members and invitations at all.
func (r Role) MayManage() bool { return r == Owner || r == Admin }

// MayWrite reports whether r may change anything.
func (r Role) MayWrite() bool { return r == Owner || r == Admin || r == Member }

// RoleMap translates the identity provider's role names.
type RoleMap map[string]Role

// ParseRoleMap reads "org:billing=MEMBER,auditor=VIEWER". Names are compared
// without regard to case.
func ParseRoleMap(s string) (RoleMap, error) {
	m := RoleMap{}
	for pair := range strings.SplitSeq(s, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		role, known := ParseRole(strings.ToUpper(strings.TrimSpace(value)))
		if name == "" || !known {
			return nil, fmt.Errorf("%q is not of the form name=ROLE with ROLE one of OWNER, ADMIN, MEMBER, VIEWER", pair)
		}
		m[name] = role
	}
	return m, nil
}

// Role returns the role for the provider's name of one. The configured names
// come first, then the usual ones with or without "org:" in any case; an
// unknown name is MEMBER.
func (m RoleMap) Role(provider string) Role {
	name := strings.ToLower(strings.TrimSpace(provider))
	if r, ok := m[name]; ok {
		return r
	}
	switch strings.TrimPrefix(name, "org:") {
	case "owner":
		return Owner
	case "admin":
		return Admin
	case "viewer", "guest":
		return Viewer
	}
	return Member
}
