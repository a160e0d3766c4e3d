// Package browser tests the pages of the server in headless Chromium. The tests need
// the build tag "browser".
package browser
