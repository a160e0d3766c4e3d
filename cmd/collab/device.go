package main

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"collab/adapters/apiclient"
)

// tokenFromDevice signs in with a browser on any machine (RFC 8628).
func (a *app) tokenFromDevice(ctx context.Context, client *apiclient.Client) (string, error) {
	codes, err := client.StartDeviceSignIn(ctx, apiclient.DeviceStart{ClientName: new(hostName())})
	if err != nil {
		return "", err
	}
	a.printErrf("Open %s in a browser, and allow this device if the page shows the code\n%s", codes.VerificationURIComplete, a.paint(a.errTerminal, bold, codes.UserCode))
	interval := time.Duration(cmp.Or(codes.Interval, 5)) * time.Second
	expires := a.now().Add(time.Duration(codes.ExpiresIn) * time.Second)
	for {
		if err := client.Wait(ctx, interval); err != nil {
			return "", err
		}
		session, err := client.ClaimDeviceToken(ctx, apiclient.DeviceClaim{DeviceCode: codes.DeviceCode})
		if err == nil {
			return session.Token, nil
		}
		problem, ok := errors.AsType[*apiclient.Error](err)
		if !ok || problem.Status >= http.StatusInternalServerError || problem.Status == http.StatusTooManyRequests { // the server does not answer at present
			if ctx.Err() != nil || a.now().After(expires) {
				return "", err
			}
			interval += 5 * time.Second
			continue
		}
		switch problem.Code {
		case "authorization_pending":
		case "slow_down":
			interval += 5 * time.Second
		case "access_denied", "expired_token":
			return "", exitError{exitSignIn, errors.New(problem.Message)}
		default:
			return "", err
		}
	}
}
