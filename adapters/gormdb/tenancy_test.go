package gormdb

import (
	"errors"
	"testing"

	"gorm.io/gorm"
)

func TestTheGuardRefusesWhatNamesNoOrganisation(t *testing.T) {
	const org = "00000001-0001-7000-8000-000000000000"
	var row taskRow
	var rows []taskRow
	var n int64
	scan := func(g *gorm.DB, query string, args ...any) error {
		rs, err := g.Raw(query, args...).Rows()
		if err != nil {
			return err
		}
		return rs.Close()
	}
	planted := map[string]func(g *gorm.DB) error{
		"first":                  func(g *gorm.DB) error { return g.First(&row).Error },
		"find":                   func(g *gorm.DB) error { return g.Where("status = ?", "TODO").Find(&rows).Error },
		"find by struct":         func(g *gorm.DB) error { return g.Where(&taskRow{Title: "x"}).Find(&rows).Error },
		"find by map":            func(g *gorm.DB) error { return g.Where(map[string]any{"title": "x"}).Find(&rows).Error },
		"no organisation":        func(g *gorm.DB) error { return g.Where("org_id = ?", "").Find(&rows).Error },
		"null organisation":      func(g *gorm.DB) error { return g.Where("org_id = ?", nil).Find(&rows).Error },
		"any other organisation": func(g *gorm.DB) error { return g.Where("org_id <> ?", org).Find(&rows).Error },
		"an alternative":         func(g *gorm.DB) error { return g.Where("org_id = ? OR status = ?", org, "TODO").Find(&rows).Error },
		"an alternative of or":   func(g *gorm.DB) error { return g.Where("org_id = ?", org).Or("status = ?", "TODO").Find(&rows).Error },
		"negated":                func(g *gorm.DB) error { return g.Not("org_id = ?", org).Find(&rows).Error },
		"count":                  func(g *gorm.DB) error { return g.Model(&taskRow{}).Count(&n).Error },
		"pluck":                  func(g *gorm.DB) error { return g.Model(&taskRow{}).Pluck("version", &[]int64{}).Error },
		"table": func(g *gorm.DB) error {
			return g.Table("tasks").Where("status = ?", "x").Find(&[]map[string]any{}).Error
		},
		"table with alias": func(g *gorm.DB) error { return g.Table("tasks AS t").Find(&[]map[string]any{}).Error },
		"join": func(g *gorm.DB) error {
			return g.Table("users").Joins("JOIN memberships m ON m.user_id = users.id").Find(&[]map[string]any{}).Error
		},
		"rows": func(g *gorm.DB) error {
			rs, err := g.Model(&taskRow{}).Rows()
			if err != nil {
				return err
			}
			return rs.Close()
		},
		"create":           func(g *gorm.DB) error { return g.Create(&taskRow{ID: org}).Error },
		"create many":      func(g *gorm.DB) error { return g.Create([]taskRow{{OrgID: org, ID: org}, {ID: org}}).Error },
		"create from map":  func(g *gorm.DB) error { return g.Model(&taskRow{}).Create(map[string]any{"id": org}).Error },
		"save":             func(g *gorm.DB) error { return g.Save(&taskRow{ID: org}).Error },
		"update":           func(g *gorm.DB) error { return g.Model(&taskRow{}).Where("id = ?", org).Update("title", "x").Error },
		"update by key":    func(g *gorm.DB) error { return g.Model(&taskRow{ID: org}).Updates(map[string]any{"title": "x"}).Error },
		"delete":           func(g *gorm.DB) error { return g.Where("id = ?", org).Delete(&taskRow{}).Error },
		"raw select":       func(g *gorm.DB) error { return scan(g, "SELECT id FROM tasks") },
		"raw by id":        func(g *gorm.DB) error { return scan(g, "SELECT id FROM tasks t WHERE t.id = ?", org) },
		"raw in a comment": func(g *gorm.DB) error { return scan(g, "SELECT id FROM tasks -- org_id = ?") },
		"raw in a text":    func(g *gorm.DB) error { return scan(g, "SELECT id FROM tasks WHERE title = 'org_id = ?'") },
		"raw alternative":  func(g *gorm.DB) error { return scan(g, "SELECT id FROM tasks WHERE org_id = ? OR 1 = 1", org) },
		"raw pair":         func(g *gorm.DB) error { return scan(g, "SELECT (org_id, id) FROM tasks") },
		"raw sub-query": func(g *gorm.DB) error {
			return scan(g, "SELECT id FROM tasks WHERE org_id = ? AND workspace_id IN (SELECT id FROM workspaces)", org)
		},
		"raw join": func(g *gorm.DB) error {
			return scan(g, "SELECT t.id FROM tasks t JOIN workspaces w ON w.id = t.workspace_id WHERE t.org_id = ?", org)
		},
		"raw only joined": func(g *gorm.DB) error {
			return scan(g, "SELECT t.id FROM tasks t JOIN workspaces w ON w.org_id = t.org_id AND t.org_id = w.org_id")
		},
		"raw scan":    func(g *gorm.DB) error { return g.Raw("SELECT id FROM tasks").Scan(&[]string{}).Error },
		"exec update": func(g *gorm.DB) error { return g.Exec("UPDATE tasks SET title = 'x'").Error },
		"exec delete": func(g *gorm.DB) error { return g.Exec("DELETE FROM tasks WHERE id = ?", org).Error },
		"exec insert": func(g *gorm.DB) error { return g.Exec("INSERT INTO tasks (id) VALUES (?)", org).Error },
		"exec quoted": func(g *gorm.DB) error { return g.Exec(`DELETE FROM "tasks"`).Error },
		"an empty reason": func(g *gorm.DB) error {
			return scan(across("").on(g), "SELECT id FROM tasks")
		},
	}
	confined := map[string]func(g *gorm.DB) error{
		"find":           func(g *gorm.DB) error { return g.Where("org_id = ? AND status = ?", org, "TODO").Find(&rows).Error },
		"find by struct": func(g *gorm.DB) error { return g.Where(&taskRow{OrgID: org}).Find(&rows).Error },
		"find in two":    func(g *gorm.DB) error { return g.Where("status = ?", "x").Where("org_id = ?", org).Find(&rows).Error },
		"an alternative below": func(g *gorm.DB) error {
			return g.Where("org_id = ? AND (status = ? OR status = ?)", org, "x", "y").Find(&rows).Error
		},
		"update": func(g *gorm.DB) error {
			return g.Model(&taskRow{}).Where("org_id = ? AND id = ?", org, org).Update("title", "x").Error
		},
		"delete": func(g *gorm.DB) error { return g.Where("org_id = ?", org).Delete(&taskRow{}).Error },
		"raw":    func(g *gorm.DB) error { return scan(g, "SELECT id FROM tasks WHERE org_id = ?", org) },
		"raw join": func(g *gorm.DB) error {
			return scan(g, "SELECT t.id FROM tasks t JOIN workspaces w ON w.org_id = t.org_id AND w.id = t.workspace_id WHERE t.org_id = ?", org)
		},
		"another table": func(g *gorm.DB) error { return scan(g, "SELECT id FROM users") },
		"with a reason": func(g *gorm.DB) error { return scan(across("a test").on(g), "SELECT id FROM tasks") },
		"exec":          func(g *gorm.DB) error { return g.Exec("UPDATE tasks SET title = 'x' WHERE org_id = ?", org).Error },
	}
	onBoth(t, func(t *testing.T, db *DB) {
		for name, fn := range planted {
			t.Run(name+" is refused", func(t *testing.T) {
				if err := fn(db.write.WithContext(t.Context())); !errors.Is(err, errNoOrganisation) {
					t.Errorf("the error is %v", err)
				}
			})
		}
		for name, fn := range confined {
			t.Run(name+" with an organisation is not", func(t *testing.T) {
				if err := fn(db.write.WithContext(t.Context())); err != nil {
					t.Error(err)
				}
			})
		}
		if db.read != db.write {
			t.Run("the pool for reading is guarded too", func(t *testing.T) {
				if err := scan(db.read.WithContext(t.Context()), "SELECT id FROM tasks"); !errors.Is(err, errNoOrganisation) {
					t.Errorf("the error is %v", err)
				}
			})
		}
		t.Run("every table with an organisation is a tenant's", func(t *testing.T) {
			for _, r := range rowTypes {
				s := parsed(t, db, r)
				if has, listed := s.LookUpField("org_id") != nil, contains(tenantTables, s.Table); has != listed {
					t.Errorf("%s has an organisation: %t, is among the tenant tables: %t", s.Table, has, listed)
				}
			}
		})
	})
}
