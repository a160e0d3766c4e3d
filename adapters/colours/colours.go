// Package colours has the colours of all pages: those of the service, of the console, whose style
// imports the file, and of the development providers.
package colours

import _ "embed"

// Style is a style sheet that sets the colours, light and dark, as custom properties.
//
//go:embed colours.css
var Style string
