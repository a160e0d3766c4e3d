package demo

import "embed"

// Organisation is the name of the organisation.
const Organisation = "Larkspur Instruments"

// domain is the domain of the members' addresses, in a reserved TLD (RFC 2606).
const domain = "@larkspur.example"

// person is a member of the organisation.
type person struct {
	name  string
	email string
	role  string // of the invitation; OWNER for the first
	day   int    // on which they join
	teams []int
}

const (
	owner  = "OWNER"
	admin  = "ADMIN"
	member = "MEMBER"
	viewer = "VIEWER"
)

// people are the members. The first creates the organisation.
var people = []person{
	{"Ada Hoffmann", "ada" + domain, owner, 0, nil},
	{"Milan Novak", "milan" + domain, admin, 1, []int{engineering, product}},
	{"Priya Raman", "priya" + domain, admin, 1, []int{product, care}},
	{"Jonas Weber", "jonas" + domain, member, 1, []int{engineering}},
	{"Sofia Lindqvist", "sofia" + domain, member, 1, []int{product}},
	{"Tomas Ferreira", "tomas" + domain, member, 2, []int{engineering, product}},
	{"Amara Okafor", "amara" + domain, member, 2, []int{care}},
	{"Yuki Tanaka", "yuki" + domain, member, 8, []int{engineering}},
	{"Elena Petrova", "elena" + domain, member, 8, []int{care, product}},
	{"Lucas Martin", "lucas" + domain, viewer, 15, []int{product}},
}

// The people who have tasks of their own in the month.
const (
	ada = iota
	milan
	priya
	jonas
	sofia
	tomas
	amara
)

// pendingInvitee is the address of an invitation that stays pending.
const pendingInvitee = "noor" + domain

type described struct{ name, description string }

const (
	engineering = iota
	product
	care
)

var teams = []described{
	{"Engineering", "Firmware of the stations, and the platform that takes their readings"},
	{"Product", "What we build next, and why"},
	{"Customer care", "Everybody who writes to us"},
}

// workspace is a workspace of a team. It has a task for each action and subject.
type workspace struct {
	described
	team     int
	subjects []string
	actions  []action
}

// action is the template of tasks: %s in the title is the subject.
type action struct{ title, description, tag string }

const (
	firmware = iota
	cloud
	station
	companion
	help
)

var workspaces = []workspace{
	firmware: {
		described{"Station firmware", "What runs on the stations"}, engineering,
		[]string{"rain counter", "battery monitor", "radio", "boot loader", "calibration", "wind sensor", "sleep scheduler", "update installer", "sensor bus", "error log"},
		[]action{
			{"Test the %s at -20 °C", "One night in the climate chamber, with readings every minute.", "test"},
			{"Measure the power that the %s takes", "The figure goes into power-budget.csv.", "power"},
			{"Document the %s", "", "documents"},
			{"Fix the restart in the %s", "Seen twice on the roof. The log of both is attached to the ticket.", "bug"},
		},
	},
	cloud: {
		described{"Cloud platform", "Receiving, storing and computing readings"}, engineering,
		[]string{"receiver", "queue", "report of the month", "map server", "forecast import", "backup", "customer export", "alarm service", "archive", "public interface"},
		[]action{
			{"Add an alarm for slow answers of the %s", "At half of what customers would notice.", "operations"},
			{"Move the %s to the new machines", "Outside the hours in which stations send most.", "operations"},
			{"Write a test of load for the %s", "Twice the stations of today.", "test"},
			{"Remove the old %s", "", "clean-up"},
		},
	},
	station: {
		described{"Weather Station 3", "The next station, from the drawing to the box"}, product,
		[]string{"housing", "bracket", "rain funnel", "wind cups", "battery door", "light sensor", "solar panel", "box", "printed guide", "base"},
		[]action{
			{"Get three offers for the %s", "Lead times and prices go into suppliers.csv.", "purchasing"},
			{"Approve the sample of the %s", "", "quality"},
			{"Ask five customers about the %s", "Notes into the workspace, names left out.", "research"},
			{"Reduce the price of the %s by a tenth", "Without another supplier if possible.", "purchasing"},
		},
	},
	companion: {
		described{"Companion app", "Readings and warnings on phones and desktops"}, product,
		[]string{"warning of frost", "map", "chart of the year", "rain total", "shared chart", "list of stations", "settings", "first start", "widget", "dark colours"},
		[]action{
			{"Draw the %s", "Two variants, for the demonstration on Friday.", "design"},
			{"Build the %s", "", "feature"},
			{"Translate the %s", "Dutch, French and Polish.", "text"},
			{"Check the %s with a screen reader", "Labels, order and contrast.", "accessibility"},
		},
	},
	help: {
		described{"Help centre", "Answers that customers find before they ask"}, care,
		[]string{"first setup", "battery change", "lost connection", "return", "invoice", "frost warning", "second station", "school project", "calibration", "app update"},
		[]action{
			{"Rewrite the article on the %s", "Shorter, with one picture for each step.", "text"},
			{"Record a film about the %s", "Ninety seconds at most.", "film"},
			{"Answer the open tickets about the %s", "", "tickets"},
			{"Count the questions about the %s", "Of the last quarter, by country.", "research"},
		},
	},
}

// reasons are the reasons of changed priorities.
var reasons = []string{
	"A customer waits for it", "The sample arrives earlier", "It blocks the release", "Nobody has asked for it in weeks", "Agreed in the planning",
}

// prompts are the messages of chats.
var prompts = []string{
	"Summarise this for the demonstration on Friday.",
	"Which of these points are still open?",
	"Write an answer to the customer, friendly and short.",
	"What did we decide about the bracket, and why?",
	"Turn the table into five sentences.",
	"Is there anything in here that contradicts the requirements?",
	"List what has to happen before the release, in order.",
	"Translate the first two paragraphs into French.",
	"How much does the radio take in a year?",
	"Suggest three titles for the article.",
	"What would you ask the supplier?",
	"Which tasks of mine are late?",
}

// system is the system prompt of chats.
const system = "You are the assistant of Larkspur Instruments, which makes weather stations. Answer in plain words, " +
	"name the file that an answer comes from, and say so when you do not know."

// texts has the contents of files.
//
//go:embed files
var texts embed.FS

// noWorkspace is the workspace of files that belong to no workspace.
const noWorkspace = -1

// document is a file with its history.
type document struct {
	source    string // in texts; each version has more of its content
	path      string
	workspace int // workspace or everywhere
	kind      string
	scope     string
	author    int
	day       int
	versions  int
}

const (
	artifact = "ARTIFACT"
	shared   = "SHARED"
	personal = "PERSONAL"
)

var documents = []document{
	{"handbook/welcome.md", "handbook/welcome.md", noWorkspace, artifact, shared, ada, 1, 3},
	{"handbook/meetings.md", "handbook/meetings.md", noWorkspace, artifact, shared, ada, 2, 2},
	{"handbook/travel.md", "handbook/travel.md", noWorkspace, artifact, shared, priya, 3, 1},
	{"brand/logo.png", "brand/logo.png", noWorkspace, "BRAND_ASSET", shared, sofia, 3, 1},
	{"brand/colours.txt", "brand/colours.txt", noWorkspace, "BRAND_ASSET", shared, sofia, 3, 2},
	{"templates/meeting-notes.md", "meeting-notes.md", noWorkspace, "TEMPLATE", shared, priya, 2, 1},
	{"personal/notes.txt", "notes.txt", noWorkspace, artifact, personal, ada, 5, 3},
	{"station/requirements.md", "requirements.md", station, artifact, shared, sofia, 2, 5},
	{"station/suppliers.csv", "purchasing/suppliers.csv", station, artifact, shared, tomas, 4, 4},
	{"firmware/release-checklist.md", "releases/checklist.md", firmware, artifact, shared, milan, 3, 2},
	{"firmware/power-budget.csv", "measurements/power-budget.csv", firmware, artifact, shared, jonas, 5, 4},
	{"cloud/lost-readings.md", "incidents/lost-readings.md", cloud, artifact, shared, jonas, 9, 4},
	{"cloud/capacity.txt", "capacity.txt", cloud, artifact, shared, milan, 6, 2},
	{"companion/interviews.md", "research/interviews.md", companion, artifact, shared, sofia, 6, 3},
	{"companion/release-notes.md", "release-notes.md", companion, artifact, shared, tomas, 2, 3},
	{"help/first-setup.md", "articles/first-setup.md", help, artifact, shared, amara, 4, 3},
	{"help/returns.md", "articles/returns.md", help, artifact, shared, amara, 7, 2},
}

// The memories: their versions, except for the last, which has one.
var (
	orgMemory = []string{
		"Larkspur Instruments makes weather stations. Readings are in SI units, prices in EUR without tax.\n",
		"Larkspur Instruments makes weather stations. Readings are in SI units, prices in EUR without tax.\n\nThe station that customers have is the second one. Weather Station 3 is not announced: do not mention it in answers to customers.\n",
	}
	stationMemory = []string{
		"- The bracket fits masts from 32 to 60 mm.\n",
		"- The bracket fits masts from 32 to 60 mm.\n- No light sensor: 4 EUR for each station, and one of five customers asked for it.\n",
	}
	adaMemory = "Answer me in short sentences. Amounts with a thousands separator.\n"
)

// release is a version of the companion app and its rollout in percent by day.
type release struct {
	version string
	notes   string
	rollout []rolloutStep
}

type rolloutStep struct{ day, percent int }

var releases = []release{
	{"1.4.0", "Two stations side by side.", []rolloutStep{{2, 100}}},
	{"1.4.1", "Charts of a year draw in a second. Wind in knots for harbours.", []rolloutStep{{9, 20}, {11, 60}, {13, 100}}},
	{"1.5.0", "Warnings of frost come at 20:00. Rain since any date. The map remembers where it was.", []rolloutStep{{24, 10}, {26, 25}, {28, 40}}},
}

// target is what the app is built for.
type target struct{ platform, arch, file string }

var targets = []target{
	{"DARWIN", "ARM64", "Larkspur.zip"},
	{"WIN32", "X64", "Larkspur-Setup.exe"},
	{"LINUX", "X64", "Larkspur.AppImage"},
}
