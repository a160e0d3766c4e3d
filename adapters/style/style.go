// Package style has the styles of all pages: those of the service, of the console, whose style
// imports elements.css, and of the development providers.
package style

import _ "embed"

//go:embed elements.css
var elements string

//go:embed card.css
var card string

// Card is the style sheet of pages without a script, each of which is one card: colours, light and
// dark, as custom properties, the elements of every page, and the card.
var Card = elements + card
