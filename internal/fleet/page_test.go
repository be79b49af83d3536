package fleet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// createNamed creates sandboxes box-0, box-1…; each third has the label third.
func createNamed(t *testing.T, a *Account, n int) (names []string) {
	t.Helper()
	for i := range n {
		spec := atoll.Spec{Name: fmt.Sprintf("box-%d", i)}
		if i%3 == 0 {
			spec.Labels = map[string]string{"third": "yes"}
		}
		if _, err := a.Create(t.Context(), atoll.Config{Spec: spec}); err != nil {
			t.Fatal(err)
		}
		names = append(names, spec.Name)
	}
	return names
}

// listPages returns the names of the sandboxes that a filter selects, read page by page.
func listPages(t *testing.T, a *Account, filter Filter) (names []string, pages int) {
	t.Helper()
	for {
		list, next, err := a.ListPage(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) > filter.Limit {
			t.Fatalf("a page of %d has %d sandboxes", filter.Limit, len(list))
		}
		pages++
		for _, i := range list {
			names = append(names, i.Name)
		}
		if filter.After = next; next == "" {
			return names, pages
		}
	}
}

func TestPagesHaveEverySandboxOnce(t *testing.T) {
	a := openFleet(t, Options{}).Account(LocalCaller())
	want := createNamed(t, a, 10)
	var thirds []string
	for i := 0; i < len(want); i += 3 {
		thirds = append(thirds, want[i])
	}
	for limit := 1; limit <= 11; limit++ {
		got, pages := listPages(t, a, Filter{Limit: limit})
		if !slices.Equal(got, want) || pages != (len(want)+limit-1)/limit {
			t.Errorf("by %d: %d pages of %q", limit, pages, got)
		}
		got, pages = listPages(t, a, Filter{Limit: limit, Labels: map[string]string{"third": "yes"}})
		if !slices.Equal(got, thirds) || pages != (len(thirds)+limit-1)/limit {
			t.Errorf("with a label, by %d: %d pages of %q", limit, pages, got)
		}
	}
}

func TestPageGoesOnAfterItsEndWasDestroyed(t *testing.T) {
	a := openFleet(t, Options{}).Account(LocalCaller())
	want := createNamed(t, a, 4)
	list, next, err := a.ListPage(t.Context(), Filter{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	sb, err := a.Open(t.Context(), list[1].ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ := listPages(t, a, Filter{Limit: 2, After: next}); !slices.Equal(got, want[2:]) {
		t.Errorf("the next page: %q", got)
	}
}

// TestPageReportsRemovedSandboxes removes a sandbox behind the fleet's back: the page that has it shows it.
func TestPageReportsRemovedSandboxes(t *testing.T) {
	f := openFleet(t, Options{})
	a := f.Account(LocalCaller())
	createNamed(t, a, 4)
	list, next, err := a.ListPage(t.Context(), Filter{Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(f.opts.Home, "sandboxes", list[1].ID)); err != nil {
		t.Fatal(err)
	}
	list, _, err = a.ListPage(t.Context(), Filter{Limit: 3})
	if err != nil || len(list) != 3 || list[0].State != atoll.Running || list[1].State != atoll.Failed {
		t.Errorf("the page: %+v, %v", list, err)
	}
	if list, _, err := a.ListPage(t.Context(), Filter{Limit: 3, After: next}); err != nil || len(list) != 1 || list[0].State != atoll.Running {
		t.Errorf("the next: %+v, %v", list, err)
	}
}

func TestBadPagesAreRefused(t *testing.T) {
	a := openFleet(t, Options{}).Account(LocalCaller())
	for _, filter := range []Filter{{Limit: -1}, {Limit: MaxPage + 1}, {After: "x"}, {After: "zzz-../.."}, {After: "!-" + atoll.NewID()}} {
		if _, _, err := a.ListPage(t.Context(), filter); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%+v: %v", filter, err)
		}
	}
}

// TestListsUseIndexes checks that no list sorts or reads a whole table.
func TestListsUseIndexes(t *testing.T) {
	f := openFleet(t, Options{})
	if f.registry.Postgres != nil {
		t.Skip("PostgreSQL plans by its statistics")
	}
	cursor := (&row{id: atoll.NewID(), created: f.now()}).cursor()
	for name, filter := range map[string]Filter{
		"page": {Limit: 10}, "next page": {Limit: 10, After: cursor}, "by name": {Name: "web"},
		"page of all owners": {AllOwners: true, Limit: 10}, "next page of all owners": {AllOwners: true, Limit: 10, After: cursor},
	} {
		where, args := filter.sqlCondition(atoll.Local)
		rows, err := f.registry.DB.QueryContext(t.Context(), "explain query plan select "+rowColumns+" from sandboxes where "+where+" order by created, id limit 10", args...)
		if err != nil {
			t.Fatal(err)
		}
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var text string
			if err := rows.Scan(&id, &parent, &unused, &text); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, text)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(plan, "; ")
		if !strings.Contains(text, "USING INDEX") || strings.Contains(text, "TEMP B-TREE") && filter.Name == "" {
			t.Errorf("%s: %s", name, text)
		}
	}
}
