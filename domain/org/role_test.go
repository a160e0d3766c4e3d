package org_test

import (
	"strings"
	"testing"
	"unicode"

	"collab/domain/org"
	"collab/test/must"

	"pgregory.net/rapid"
)

func TestRoleNamesOfTheProvider(t *testing.T) {
	m := must.Do(org.ParseRoleMap(" org:billing=MEMBER, Auditor = viewer ,boss=OWNER,,admin=VIEWER")).Or(t)
	for name, want := range map[string]org.Role{
		"owner": org.Owner, "org:owner": org.Owner, "ORG:Owner": org.Owner,
		"org:admin": org.Admin, "admin": org.Viewer, "ADMIN": org.Viewer, // the configured name wins
		"member": org.Member, "basic_member": org.Member, "org:member": org.Member,
		"viewer": org.Viewer, "guest": org.Viewer, "org:guest": org.Viewer,
		"auditor": org.Viewer, "AUDITOR": org.Viewer, "boss": org.Owner, "org:billing": org.Member,
		"": org.Member, "superuser": org.Member, "org:": org.Member, "org:org:owner": org.Member,
	} {
		if got := m.Role(name); got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
}

func TestRoleNamesOfTheProviderWhereNoneIsConfigured(t *testing.T) {
	var m org.RoleMap
	for name, want := range map[string]org.Role{"admin": org.Admin, "Org:ADMIN": org.Admin, "org:billing": org.Member, "": org.Member} {
		if got := m.Role(name); got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
}

func TestRoleMapsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, s := range []string{"billing", "=OWNER", "billing=", "billing=KING", "a=OWNER,b"} {
		if _, err := org.ParseRoleMap(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}

func TestNoNameBesideTheKnownOnesGivesMoreThanMember(t *testing.T) {
	strip := func(s string) string {
		return strings.TrimPrefix(strings.ToLower(strings.TrimFunc(s, unicode.IsSpace)), "org:")
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`(org:|ORG:)?[a-zA-Z_]{0,12}`)).Draw(t, "name")
		got := org.RoleMap{}.Role(name)
		switch strip(name) {
		case "owner":
			if got != org.Owner {
				t.Fatalf("%q is %s", name, got)
			}
		case "admin":
			if got != org.Admin {
				t.Fatalf("%q is %s", name, got)
			}
		case "viewer", "guest":
			if got != org.Viewer {
				t.Fatalf("%q is %s", name, got)
			}
		default:
			if got != org.Member {
				t.Fatalf("%q is %s", name, got)
			}
		}
	})
}
