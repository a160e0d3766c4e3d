package main

import (
	"strings"
	"testing"
)

func TestWrongUsageIsAnsweredWithTheCorrectOne(t *testing.T) {
	for call, want := range map[string]string{
		"bogus":         "There is no command \"collabd bogus\".\nCommands and variables are printed by collabd help.\n",
		"doctor --xml":  "collabd doctor: wrong arguments\n  collabd doctor ",
		"backup":        "                         - is standard output\nCommands and variables",
		"restore a b c": "  collabd restore FILE   make",
		"move --to":     "collabd move: flag needs an argument: -to\n  collabd move --to TARGET [--blobs STORE]\n",
		"move":          "collabd move: --to or --blobs is missing\n  collabd move --to",
		"move --to x y": "collabd move: there is no argument \"y\"\n  collabd move --to",
		"import":        "collabd import: the file is missing\n  collabd import FILE",
		"export one":    "  collabd export ORGANISATION FILE\n",

		"backup x --help":        "  collabd backup FILE    write",
		"bogus --help":           "There is no command \"collabd bogus --help\".\n",
		"restore --check":        "  collabd restore FILE   make",
		"restore --check --help": "  collabd restore FILE   make",
		"restore --replace -x":   "  collabd restore FILE   make",
		"export one --help":      "  collabd export ORGANISATION FILE\n",
		"export --help file":     "  collabd export ORGANISATION FILE\n",
		"serve now":              "There is no command \"collabd serve now\".\n",
		"keys others":            "others",
	} {
		t.Run(call, func(t *testing.T) {
			var out, log strings.Builder
			args := strings.Fields(call)
			// Nothing is configured that any of them could do harm to.
			code := run(t.Context(), args, []string{"COLLAB_DATABASE_URL=memory://"}, &out, &log)
			if code == 0 || out.Len() > 0 || !strings.Contains(log.String(), want) {
				t.Errorf("ended with %d and said %q, %q", code, out.String(), log.String())
			}
		})
	}
}

func TestACommandHasHelp(t *testing.T) {
	for call, want := range map[string]string{"backup --help": "  collabd backup FILE", "move -h": "  collabd move --to"} {
		var out, log strings.Builder
		code := run(t.Context(), strings.Fields(call), nil, &out, &log)
		if code != 0 || log.Len() > 0 || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s ended with %d and said %q, %q", call, code, out.String(), log.String())
		}
	}
}

func TestAnUnknownDefaultModelIsAWrongSetting(t *testing.T) {
	var out, log strings.Builder
	environ := []string{"COLLAB_LISTEN=127.0.0.1:0", "COLLAB_DATABASE_URL=memory://", "COLLAB_DATA_DIR=" + t.TempDir(), "COLLAB_DEFAULT_MODEL=owl"}
	if code := run(t.Context(), nil, environ, &out, &log); code != 2 || !strings.HasPrefix(log.String(), "The configuration is not valid:\nCOLLAB_DEFAULT_MODEL: ") {
		t.Errorf("ended with %d and said %q", code, log.String())
	}
}

func TestTheExitCodesOfDoctorAreThoseOfItsHelp(t *testing.T) {
	var out, help, log strings.Builder
	if code := run(t.Context(), []string{"doctor"}, []string{"COLLAB_MODE=production"}, &out, &log); code != 2 {
		t.Errorf("with an incomplete configuration it ended with %d", code)
	}
	run(t.Context(), []string{"help"}, nil, &help, &log)
	if !strings.Contains(help.String(), "2 when it is not complete") {
		t.Errorf("the help does not have it:\n%s", help.String())
	}
}

func TestARemedyOfSeveralFindingsIsPrintedOnce(t *testing.T) {
	var out, log strings.Builder
	code := run(t.Context(), []string{"doctor"}, []string{"COLLAB_LISTEN=127.0.0.1:0", "COLLAB_DATABASE_URL=memory://", "COLLAB_DATA_DIR=" + t.TempDir()}, &out, &log)
	if lacking := strings.Count(out.String(), "must be set in production"); code != 0 || lacking < 2 || strings.Count(out.String(), "set it for production") != 1 {
		t.Errorf("ended with %d, %d settings are lacking:\n%s", code, lacking, &out)
	}
}

func TestHelpHasEveryCommand(t *testing.T) {
	var out, log strings.Builder
	if code := run(t.Context(), []string{"help"}, nil, &out, &log); code != 0 || log.Len() > 0 {
		t.Fatalf("ended with %d and said %q", code, log.String())
	}
	for _, name := range []string{"serve", "demo", "migrate", "doctor", "gc", "backup", "restore", "move", "export", "import", "keys", "version", "COLLAB_DATABASE_URL"} {
		if !strings.Contains(out.String(), name) {
			t.Errorf("it does not know %s", name)
		}
	}
}
