package access

import (
	"context"
	"time"

	"collab/domain/check"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/org"
	"collab/domain/session"
	"collab/ports"
)

// deciderPurpose is the purpose for which cookies of deciders are sealed.
const deciderPurpose = "collab_device"

// maxUserCodes is how many user codes are tried for a device, as a code may be taken.
const maxUserCodes = 3

// StartDevice starts the sign-in of a device without a browser (RFC 8628), which calls itself
// name. It returns the code with which the device polls, and the one that a person types.
func (a *Access) StartDevice(ctx context.Context, name string, from session.Client) (deviceCode, userCode string, err error) {
	var c check.List
	c.Text("client_name", name, check.MaxName)
	if err := c.Err(); err != nil {
		return "", "", err
	}
	for range maxUserCodes {
		deviceCode, userCode = a.Secrets.Secret(), session.NewUserCode(a.Secrets.Secret())
		err = a.Store.Deployment().DeviceGrants().Add(ctx, session.BeginDevice(deviceCode, userCode, name, from, a.Clock.Now()))
		if !fault.Is(err, fault.Conflict) {
			break
		}
	}
	return deviceCode, userCode, err
}

// openDevice returns the grant with a user code: NotFound unless it is undecided and has not
// expired.
func (a *Access) openDevice(ctx context.Context, userCode string) (session.DeviceGrant, error) {
	g, err := a.Store.Deployment().DeviceGrants().ByUserCode(ctx, id.Digest(userCode))
	if err == nil || fault.Is(err, fault.NotFound) {
		err = g.CheckOpen(a.Clock.Now())
	}
	return g, err
}

// StartDeviceSignIn starts the sign-in of the browser in which the user code of a device was
// typed. It returns the address to redirect the browser to, and the value of CLICookie. NotFound
// if no device waits for the code.
func (a *Access) StartDeviceSignIn(ctx context.Context, userCode string) (redirect, cookie string, err error) {
	if _, err := a.openDevice(ctx, userCode); err != nil {
		return "", "", err
	}
	return a.startSignIn(ctx, identity.Flow{UserCode: userCode})
}

// decider is who has signed in in a browser to decide about a device.
type decider struct {
	UserCode string
	User     id.User
	Org      id.Org // empty: without an organisation
	Expires  time.Time
}

// signInDecider completes the sign-in of a browser in which the user code of a device was typed.
func (a *Access) signInDecider(ctx context.Context, f identity.Flow, x Exchange) (SignedIn, error) {
	in, err := a.identify(ctx, x)
	if err != nil {
		return SignedIn{}, err
	}
	d := decider{UserCode: f.UserCode, User: in.user.ID, Expires: f.Expires}
	if in.org != nil {
		d.Org = in.org.ID
	}
	sealed, err := a.sealCookie(deciderPurpose, d)
	return SignedIn{UserCode: f.UserCode, Decider: sealed}, err
}

// openDecider returns the decider in a cookie; ok is false if it is not for the user code or has
// expired.
func (a *Access) openDecider(cookie, userCode string) (d decider, ok bool) {
	ok = a.openCookie(deciderPurpose, cookie, &d) && d.UserCode == userCode && a.Clock.Now().Before(d.Expires)
	return d, ok
}

// DeviceRequest is a device that waits for a decision, with the account of the person who decides.
type DeviceRequest struct {
	Device session.DeviceGrant
	Person org.User
	Org    *org.Organisation // nil: without an organisation
}

// DeviceRequest returns the request that the decider in a browser's cookie decides. NotFound if no device
// waits for the code; signedIn is false if somebody has to sign in for it first.
func (a *Access) DeviceRequest(ctx context.Context, cookie, userCode string) (r DeviceRequest, signedIn bool, err error) {
	d, ok := a.openDecider(cookie, userCode)
	if !ok {
		return r, false, nil
	}
	g, err := a.openDevice(ctx, userCode)
	if err != nil {
		return r, true, err
	}
	in, err := a.find(ctx, a.Store, d.User, d.Org)
	if fault.Is(err, fault.NotFound) {
		return r, false, nil
	}
	return DeviceRequest{Device: g, Person: in.user, Org: in.org}, true, err
}

// DecideDevice approves or denies the sign-in of a device as the decider in a browser's cookie.
// Forbidden if there is none, NotFound if no device waits for the code.
func (a *Access) DecideDevice(ctx context.Context, cookie, userCode string, approve bool) error {
	d, ok := a.openDecider(cookie, userCode)
	if !ok {
		return fault.New(fault.Forbidden, "Nobody has recently signed in for this device in this browser")
	}
	devices := a.Store.Deployment().DeviceGrants()
	g, err := devices.ByUserCode(ctx, id.Digest(userCode))
	if fault.Is(err, fault.NotFound) {
		return g.CheckOpen(a.Clock.Now())
	}
	if err == nil {
		_, err = devices.Update(ctx, g.Code, func(g session.DeviceGrant) (session.DeviceGrant, error) {
			return g.Decided(approve, d.User, d.Org, a.Clock.Now())
		})
	}
	return err
}

// ClaimDevice issues a service token to a device whose sign-in was approved, if the person is still
// who may sign in. The client that was given it can ask for it again for a minute, as the response may be
// lost. Otherwise the error is a session.DeviceRefusal.
func (a *Access) ClaimDevice(ctx context.Context, deviceCode string, from session.Client) (info UserInfo, err error) {
	var refused error
	err = a.Store.Atomic(ctx, func(r ports.Records) error {
		g, err := r.Deployment().DeviceGrants().Update(ctx, id.Digest(deviceCode), func(g session.DeviceGrant) (session.DeviceGrant, error) {
			g, refused = g.Polled(a.Clock.Now())
			return g, nil
		})
		if fault.Is(err, fault.NotFound) {
			refused, err = session.DeviceUnknown, nil
		}
		again := refused != nil && g.Status() == session.DeviceClaimed
		if err != nil || refused != nil && !again {
			return err
		}
		refused = nil
		in, err := a.find(ctx, r, g.User, g.Org)
		if err != nil {
			return refusedIfRevoked(err)
		}
		claims := a.claims(in).WithSession(g.SessionID())
		claims.ID = string(claims.Session)
		if again {
			was, err := getOpenSession(ctx, r, g.SessionID())
			if fault.Is(err, fault.NotFound) {
				return session.DeviceUnknown
			}
			if err == nil {
				claims, err = was.Reissue(from, claims.Role, a.Clock.Now())
			}
			if err != nil {
				return err
			}
		} else if err := a.addSession(ctx, r, session.Begin(claims, from, claims.IssuedAt)); err != nil {
			return refusedIfRevoked(err)
		}
		if info, err = userInfo(ctx, r, in); err == nil {
			info.Token, err = a.Tokens.Issue(claims)
		}
		return err
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return UserInfo{}, err
	}
	return info, nil
}

// refusedIfRevoked returns the refusal for an error which says that the person who approved a device may
// not sign in any more.
func refusedIfRevoked(err error) error {
	if fault.Is(err, fault.NotFound, fault.Unauthenticated, fault.Forbidden) {
		return session.DeviceRefused
	}
	return err
}
