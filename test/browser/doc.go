// Package browser runs what people do in a browser in a real one: Chromium,
// without a screen. The tests need the build tag "browser".
package browser
