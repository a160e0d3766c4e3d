package mirror

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"collab/domain/object"
)

// Action is what a step of a plan does.
type Action uint8

// The actions, in the order in which a plan has them. Steps of one action are independent of each
// other, and a step needs only steps of earlier actions to be done.
const (
	RespellDirectory Action = iota // the directory's spelling follows the server's
	SetAside                       // the local file gets the name of a conflict copy
	TrashFirst                     // as Trash, where a directory takes the file's path or the reverse
	DeleteFirst                    // as Delete, likewise
	Rename                         // the local file is moved as the server's was
	MoveDirectory                  // all of a directory on the server is moved as the local ones were
	Move                           // the server's file is moved as the local one was
	Download                       // the local file gets the server's content
	Upload                         // the server's file gets the local content
	Delete                         // the server's file is deleted as the local one was
	Trash                          // the local file goes to the trash as the server's was deleted
)

var actions = []string{"respell", "set aside", "trash", "delete", "rename", "move directory", "move", "download", "upload", "delete", "trash"}

func (a Action) String() string { return actions[a] }

// Deletes reports whether the action removes something.
func (a Action) Deletes() bool {
	return a == TrashFirst || a == DeleteFirst || a == Trash || a == Delete
}

// Step is one change of the directory or the server.
type Step struct {
	Action Action
	Row    Row    // what it follows from
	To     Row    // of Rename and Move: of the new path
	Path   string // of RespellDirectory, SetAside, Rename and the moves: the new path; of others the row's
	From   string // of RespellDirectory and MoveDirectory: the old path
	Steps  []Step // of MoveDirectory: the moves that it stands for
}

// Plan is how directory and server become equal.
type Plan struct {
	// Settled are rows on whose files both sides agree, to be stored.
	Settled []Row
	Steps   []Step
	Held    []Held
	// PatternsHeld says that the server's patterns of ignored files are among Held: what they ignore is not known.
	PatternsHeld bool

	Deletions int  // steps that delete
	Missing   int  // of those, steps that follow from Row.Missing
	Known     int  // files on which both sides agreed before
	Emptied   bool // the directory contains no file, and contained at least two
	Vacated   bool // the server has no file in the place
}

// Input is what a plan follows from.
type Input struct {
	Rows          map[string]Row // by key, with Local as in Tree
	Tree          Tree
	Rules         Rules
	Device        string
	PreviousFiles int // files in the directory when rows were stored
	// NoMoves says that the server cannot move files: they are uploaded and deleted instead.
	NoMoves bool
	// SplitMoves are the moves of directories, from and to, in whose place what is in them is moved.
	SplitMoves map[[2]string]bool
}

// MakePlan returns the plan for the rows. It changes nothing.
func MakePlan(in Input) Plan {
	p := planner{Input: in, decided: map[string]Action{}, arriving: newKeys(), leaving: newKeys(), respelled: map[[2]string]bool{}}
	p.Held = slices.Clone(in.Tree.Held)
	p.Emptied, p.Vacated = len(in.Tree.Files) == 0, true
	var keys []string // of the rows that may need something
	for key, r := range in.Rows {
		if r.Synced != nil {
			p.Known++
		}
		p.Vacated = p.Vacated && r.Remote == nil
		if !r.settled() {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		if r := in.Rows[key]; !p.skipped(r) {
			p.compare(r)
		}
	}
	for _, action := range p.decided {
		if action == Upload || action == SetAside { // which alone ask for them
			p.staying = p.stayingFiles()
			break
		}
	}
	p.Emptied = p.Emptied && max(p.Known, in.PreviousFiles) >= 2
	for _, key := range keys {
		if p.decided[key] == Upload && in.Rows[key].Remote == nil && (p.staying.collide(key) || in.Tree.nonemptyBeside[key]) {
			p.decided[key] = SetAside
		}
	}
	for key, action := range p.decided {
		switch {
		case action.Deletes():
			p.leaving.add(key)
		case action == Download, action == Upload, action == SetAside && in.Rows[key].Remote != nil:
			p.arriving.add(key)
		}
	}
	p.Steps = slices.Grow(p.Steps, len(p.decided))
	for _, key := range keys {
		if action, ok := p.decided[key]; ok {
			p.step(in.Rows[key], action)
		}
	}
	p.combineMoves(Trash, TrashFirst, Download, Rename)
	if !p.NoMoves {
		p.combineMoves(Delete, DeleteFirst, Upload, Move)
		p.postpone()
		p.mergeMoves()
	}
	for _, s := range p.Steps {
		if s.Action.Deletes() {
			p.Deletions++
			if s.Row.Missing {
				p.Missing++
			}
		}
	}
	slices.SortStableFunc(p.Steps, func(a, b Step) int { return cmp.Compare(a.Action, b.Action) })
	return p.Plan
}

// MayMissMoves reports whether the plan is to be made again after a second scan, as it takes for deleted, or for new, what
// may have been moved: it deletes on the server, or sends a new file that the input has at another path too.
func (p Plan) MayMissMoves(in Input) bool {
	arrived := map[uint64]string{} // keys of new files by inode
	for _, s := range p.Steps {
		switch {
		case s.Action == Delete || s.Action == DeleteFirst:
			return true
		case s.Action == Upload && s.Row.Remote == nil && s.Row.Local.Facts.Inode != 0:
			arrived[s.Row.Local.Facts.Inode] = s.Row.Key
		}
	}
	if len(arrived) > 0 {
		for key, r := range in.Rows {
			if r.Synced != nil && r.Local != nil && arrived[r.Local.Facts.Inode] != "" && arrived[r.Local.Facts.Inode] != key {
				return true
			}
		}
	}
	return false
}

type planner struct {
	Input
	Plan
	decided  map[string]Action // by key; none for rows without a step
	copies   map[string]bool   // conflict copies of the server, by key of the file that they are of and content; nil before isCopied
	staying  keys              // files of the server that stay, if files are uploaded or set aside
	arriving keys              // files that are downloaded or uploaded
	leaving  keys              // files that are removed on either side
	// respelled says of directories, by folded path and wanted spelling, whether that is planned.
	respelled map[[2]string]bool
}

// keys is a set of keys and of the directories that they are in.
type keys struct{ files, directories map[string]bool }

func newKeys() keys { return keys{map[string]bool{}, map[string]bool{}} }

func (k keys) add(key string) {
	k.files[key] = true
	for _, ancestor := range object.Ancestors(key) {
		k.directories[ancestor] = true
	}
}

// collide reports whether the file of a key cannot exist beside those of the set, because one
// would be a directory that the other is in.
func (k keys) collide(key string) bool {
	return k.directories[key] || slices.ContainsFunc(object.Ancestors(key), func(ancestor string) bool { return k.files[ancestor] })
}

// skipped reports whether a row is left alone, and adds it to the held ones if people should know.
func (p *planner) skipped(r Row) bool {
	if p.Tree.holds(r.Key) {
		return true
	}
	if IsState(r.Key) {
		if r.Remote != nil {
			p.Held = append(p.Held, Held{r.Remote.Path, "The name is that of the directory in which the client keeps its own files."})
		}
		return true
	}
	local, synced := "", "" // as it is mostly one path, it is matched once
	if r.Local != nil {
		local = r.Local.Path
	}
	if r.Synced != nil && r.Synced.Name != local {
		synced = r.Synced.Name
	}
	if local != "" && p.Rules.Ignored(local) || synced != "" && p.Rules.Ignored(synced) {
		return true
	}
	if r.Remote != nil {
		if path := r.Remote.Path; path != local && path != synced && p.Rules.Ignored(path) {
			return true
		}
		if reason := p.refused(r); reason != "" {
			p.Held = append(p.Held, Held{r.Remote.Path, reason})
			return true
		}
	}
	return false
}

// refused returns why the directory cannot have the server's path of a row, empty if it can.
func (p *planner) refused(r Row) string {
	if r.Local == nil || r.Local.Path != r.Remote.Path { // else the path of the local file was checked
		if valid, err := object.ParsePath("The server's path", r.Remote.Path); err != nil {
			return err.Error()
		} else if valid != r.Remote.Path {
			return "The server's path is not in composed form."
		}
	}
	return p.Rules.Refused(r.Remote.Path)
}

// side is what became of a file since both sides agreed.
type side uint8

const (
	same side = iota
	changed
	gone
)

// sideOf compares a side with what was agreed. checksum is nil if the side has no file.
func sideOf(synced *Synced, checksum *string) side {
	switch {
	case checksum != nil && (synced == nil || synced.Checksum != *checksum):
		return changed
	case checksum == nil && synced != nil:
		return gone
	}
	return same
}

// settled reports whether both sides have the file under the names and with the content on which they agree.
func (r Row) settled() bool {
	return r.Agreed() && !r.Missing && *r.Synced == *NewSynced(*r.Remote, r.Local.Path)
}

// stayingFiles returns the files of the server that stay.
func (p *planner) stayingFiles() keys {
	staying := newKeys()
	for key, r := range p.Rows {
		if r.Remote != nil && p.decided[key] != Delete {
			staying.add(key)
		}
	}
	return staying
}

// compare decides about a row that is not left alone, if it needs something.
func (p *planner) compare(r Row) {
	local, remote := sideOf(r.Synced, nil), sideOf(r.Synced, nil)
	if r.Local != nil {
		local = sideOf(r.Synced, &r.Local.Checksum)
	}
	if r.Remote != nil {
		remote = sideOf(r.Synced, &r.Remote.Checksum)
	}
	switch {
	case r.Local == nil && r.Remote == nil:
		p.Settled = append(p.Settled, Row{Key: r.Key})
	case r.Local != nil && r.Remote != nil && r.Local.Checksum == r.Remote.Checksum:
		p.compareNames(r)
	case local == same && remote == gone:
		p.decided[r.Key] = Trash
	case remote == same && local == gone:
		p.decided[r.Key] = Delete
	case remote == changed && r.Remote.Size > MaxIgnore && r.Key == KeyOf(IgnoreFile):
		p.PatternsHeld = true
		p.Held = append(p.Held, Held{r.Remote.Path, fmt.Sprintf("It has more than %d bytes. Nothing is sent or deleted until it has fewer.", MaxIgnore)})
	case r.Local == nil && p.Tree.holding[r.Key]:
		p.Held = append(p.Held, Held{r.Remote.Path, "A directory is in its place, with names in it that are not synchronised."})
	case r.Local == nil && p.Tree.ignored[r.Key]:
		p.Held = append(p.Held, Held{r.Remote.Path, "An ignored file has a name that differs only in case or Unicode form."})
	case r.Local == nil && slices.ContainsFunc(object.Ancestors(r.Key), func(ancestor string) bool { return p.Tree.ignored[ancestor] }):
		p.Held = append(p.Held, Held{r.Remote.Path, "An ignored file is in the place of a directory above it."})
	case local != changed:
		p.decided[r.Key] = Download
	case remote != changed:
		p.decided[r.Key] = Upload
	case p.isCopied(r):
		p.decided[r.Key] = Download
	default:
		p.decided[r.Key] = SetAside
	}
}

// isCopied reports whether the server has a conflict copy of a row's local file, with the same content, that stays:
// several devices may have to set the same content aside.
func (p *planner) isCopied(r Row) bool {
	if p.copies == nil {
		p.copies = map[string]bool{}
		for _, c := range p.Rows {
			if c.Remote != nil && (c.Agreed() || c.Local == nil && c.Synced == nil) && IsConflict(c.Remote.Path) {
				p.copies[KeyOf(withoutSuffix(c.Remote.Path))+c.Remote.Checksum] = true
			}
		}
	}
	return p.copies[KeyOf(withoutSuffix(r.Local.Path))+r.Local.Checksum]
}

// compareNames decides about a row whose contents are equal: the name may have changed.
func (p *planner) compareNames(r Row) {
	settled := r
	settled.Synced = NewSynced(*r.Remote, r.Local.Path)
	settled.Missing = false
	differs := path.Base(r.Local.Path) != path.Base(r.Remote.Path)
	here, there := false, differs
	if r.Synced != nil {
		here, there = r.Local.Path != r.Synced.Name, r.Remote.Path != r.Synced.Path
	}
	switch {
	case there && !here && r.Synced != nil && p.respell(r):
	case there && differs:
		p.Steps = append(p.Steps, Step{Action: Rename, Row: r, To: r, Path: r.Remote.Path})
	case here && !there && r.Local.Path != r.Remote.Path && !p.NoMoves:
		p.Steps = append(p.Steps, Step{Action: Move, Row: r, To: r, Path: r.Local.Path})
	default:
		p.Settled = append(p.Settled, settled)
	}
}

// respell plans that a directory of the row gets the spelling that all files of the server in it
// have, if it has another one.
func (p *planner) respell(r Row) bool {
	for _, ancestor := range object.Ancestors(r.Key) {
		spelled, ok := p.Tree.Directories[ancestor]
		depth := strings.Count(ancestor, "/")
		want := strings.Split(r.Remote.Path, "/")[depth]
		if !ok || path.Base(spelled) == want || p.Tree.doubled[ancestor] {
			continue
		}
		at := [2]string{ancestor, want}
		planned, known := p.respelled[at]
		if !known {
			planned = true
			for key, other := range p.Rows {
				if other.Remote != nil && strings.HasPrefix(key, ancestor+"/") && strings.Split(other.Remote.Path, "/")[depth] != want {
					planned = false
					break
				}
			}
			p.respelled[at] = planned
			if planned {
				p.Steps = append(p.Steps, Step{Action: RespellDirectory, Row: r, From: spelled, Path: path.Join(path.Dir(spelled), want)})
			}
		}
		return planned
	}
	return false
}

// step adds the step for a decision.
func (p *planner) step(r Row, action Action) {
	s := Step{Action: action, Row: r}
	switch action {
	case SetAside:
		free := false
		if s.Path, free = p.conflictCopyPath(r); s.Path == "" {
			p.Held = append(p.Held, Held{r.Local.Path, "Both sides changed it, and the path leaves no room for the name of a conflict copy."})
			return
		}
		if !free { // the copy exists
			s.Action, s.Path = TrashFirst, r.Local.Path
		}
	case Trash:
		if s.Path = r.Local.Path; p.arriving.collide(r.Key) {
			s.Action = TrashFirst
		}
	case Delete:
		if s.Path = r.Remote.Path; p.arriving.collide(r.Key) {
			s.Action = DeleteFirst
		}
	case Download:
		s.Path = r.Remote.Path
	case Upload:
		s.Path = r.Local.Path
	}
	p.Steps = append(p.Steps, s)
	if s.Action == SetAside && r.Remote != nil {
		after := r
		after.Local, after.Synced = nil, nil
		p.Steps = append(p.Steps, Step{Action: Download, Row: after, Path: r.Remote.Path})
	}
}

// conflictCopyPath returns the path of the conflict copy of a row's local file. If a directory of the path
// is a file on the server, the copy is in a directory of such a name. free is false if the copy
// is there already, with the same content.
func (p *planner) conflictCopyPath(r Row) (copied string, free bool) {
	for _, digits := range []int{6, 12, 64} {
		copied, ok := ConflictPath(r.Local.Path, p.Device, r.Local.Facts.ModTime, r.Local.Checksum, digits)
		for _, ancestor := range object.Ancestors(r.Key) {
			if in := p.Rows[ancestor]; p.staying.files[ancestor] && in.Remote != nil {
				n := len(strings.Join(strings.SplitAfter(r.Local.Path, "/")[:strings.Count(ancestor, "/")+1], "")) - 1
				if copied, ok = ConflictPath(r.Local.Path[:n], p.Device, r.Local.Facts.ModTime, in.Remote.Checksum, digits); ok {
					copied += r.Local.Path[n:]
					_, err := object.ParsePath("path", copied)
					ok = err == nil
				}
			}
		}
		if !ok {
			return "", false
		}
		key := KeyOf(copied)
		if key == r.Key { // the file is a copy itself
			continue
		}
		at := p.Rows[key]
		if at.Local != nil && at.Local.Checksum == r.Local.Checksum {
			return copied, false
		}
		below := slices.ContainsFunc(object.Ancestors(key), func(ancestor string) bool { return p.Tree.Files[ancestor] != nil })
		if at.Empty() && !below && !p.Tree.holds(key) && p.Tree.Directories[key] == "" && !p.staying.collide(key) {
			return copied, true
		}
	}
	return "", false
}

// combineMoves replaces a removal and an arrival of the same content by one move.
func (p *planner) combineMoves(removal, removalFirst, arrival, move Action) {
	content := func(s Step) string { // of the file that arrives or leaves
		if move == Rename && s.Action == arrival {
			return s.Row.Remote.Checksum
		}
		if move == Rename || s.Action == arrival {
			return s.Row.Local.Checksum
		}
		return s.Row.Remote.Checksum
	}
	free := func(r Row) bool { // only a download replaces a directory that is empty
		return move == Rename && r.Local == nil && p.Tree.Directories[r.Key] == "" || move == Move && r.Remote == nil
	}
	arrivals := map[string][]int{} // steps by content
	for i, s := range p.Steps {
		if s.Action == arrival && s.Row.Synced == nil && free(s.Row) && !p.leaving.collide(s.Row.Key) {
			arrivals[content(s)] = append(arrivals[content(s)], i)
		}
	}
	done := make([]bool, len(p.Steps))
	for i, s := range p.Steps {
		if s.Action != removal && s.Action != removalFirst || s.Row.Synced == nil || s.Row.Synced.Checksum != content(s) {
			continue
		}
		candidates := arrivals[content(s)]
		if len(candidates) == 0 {
			continue
		}
		best := 0
		for n, candidate := range candidates {
			if to := p.Steps[candidate].Row; to.Remote != nil && to.Remote.ID == s.Row.Synced.ID || path.Base(to.Key) == path.Base(s.Row.Key) {
				best = n
				break
			}
		}
		to := p.Steps[candidates[best]]
		done[candidates[best]] = true
		arrivals[content(s)] = slices.Delete(candidates, best, best+1)
		p.Steps[i] = Step{Action: move, Row: s.Row, To: to.Row, Path: to.Path}
	}
	p.removeSteps(done)
}

// postpone leaves the deletions of contents that are set aside, as files that were renamed to where the server
// has another, to the next plan, which moves them.
func (p *planner) postpone() {
	aside := map[string]bool{}
	for _, s := range p.Steps {
		if s.Action == SetAside {
			aside[s.Row.Local.Checksum] = true
		}
	}
	p.Steps = slices.DeleteFunc(p.Steps, func(s Step) bool { return s.Action == Delete && aside[s.Row.Remote.Checksum] })
}

// mergeMoves replaces the moves of all files in a directory of the server by one.
func (p *planner) mergeMoves() {
	type pair struct{ from, to string }
	groups := map[pair][]int{}
	for i, s := range p.Steps {
		if s.Action != Move {
			continue
		}
		from, to := path.Dir(s.Row.Remote.Path), path.Dir(s.Path)
		for path.Base(from) == path.Base(to) && path.Dir(from) != "." && path.Dir(to) != "." && !p.SplitMoves[[2]string{path.Dir(from), path.Dir(to)}] {
			from, to = path.Dir(from), path.Dir(to)
		}
		if at := (pair{from, to}); from != "." && to != "." && strings.TrimPrefix(s.Row.Remote.Path, from) == strings.TrimPrefix(s.Path, to) {
			groups[at] = append(groups[at], i)
		}
	}
	files := map[string]int{} // of the server, below the directories that are moved from
	for at := range groups {
		files[KeyOf(at.from)] = 0
	}
	if len(groups) > 0 {
		for key, r := range p.Rows {
			for _, ancestor := range object.Ancestors(key) {
				if n, ok := files[ancestor]; ok && r.Remote != nil {
					files[ancestor] = n + 1
				}
			}
		}
	}
	gone := make([]bool, len(p.Steps))
	for _, at := range slices.SortedFunc(maps.Keys(groups), func(a, b pair) int { return cmp.Compare(a.from+"\x00"+a.to, b.from+"\x00"+b.to) }) {
		members := groups[at]
		below := KeyOf(at.from) + "/"
		nested := strings.HasPrefix(KeyOf(at.to)+"/", below) && KeyOf(at.to)+"/" != below
		if len(members) < 2 || len(members) != files[KeyOf(at.from)] || nested || p.SplitMoves[[2]string{at.from, at.to}] {
			continue
		}
		s := Step{Action: MoveDirectory, From: at.from, Path: at.to, Steps: make([]Step, 0, len(members))}
		for _, i := range members {
			gone[i] = true
			s.Steps = append(s.Steps, p.Steps[i])
		}
		p.Steps = append(p.Steps, s)
	}
	p.removeSteps(gone)
}

// removeSteps removes the steps whose indexes have true; those beyond stay.
func (p *planner) removeSteps(indexes []bool) {
	i := -1
	p.Steps = slices.DeleteFunc(p.Steps, func(Step) bool { i++; return i < len(indexes) && indexes[i] })
}
