package store

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

type sqliteStore struct {
	db *sql.DB
	// conn is the one connection, which has the statements.
	conn                                               *sql.Conn
	putJob, putSubject, putOutcome, endJob, endSubject *sql.Stmt
}

const schema = `
CREATE TABLE IF NOT EXISTS job (seq INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS subject (subject TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outcome (seq INTEGER PRIMARY KEY, record BLOB NOT NULL);`

// OpenSQLite opens a store of SQLite: a log that each commit syncs, for one process
// alone, so that its index of the log lies in memory.
func OpenSQLite(dir string) (Store, error) {
	settings := url.Values{"_pragma": {"locking_mode(EXCLUSIVE)", "journal_mode(WAL)", "synchronous(FULL)"}}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "store.sqlite")+"?"+settings.Encode())
	if err != nil {
		return nil, err
	}
	s := &sqliteStore{db: db}
	if err := s.prepare(context.Background()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *sqliteStore) prepare(ctx context.Context) (err error) {
	if s.conn, err = s.db.Conn(ctx); err != nil {
		return err
	}
	if _, err = s.conn.ExecContext(ctx, schema); err != nil {
		return err
	}
	for statement, text := range map[**sql.Stmt]string{
		&s.putJob:     "INSERT INTO job VALUES (?, ?)",
		&s.putSubject: "INSERT INTO subject VALUES (?, ?)",
		&s.putOutcome: "INSERT INTO outcome VALUES (?, ?)",
		&s.endJob:     "DELETE FROM job WHERE seq = ?",
		&s.endSubject: "DELETE FROM subject WHERE subject = ?",
	} {
		if *statement, err = s.conn.PrepareContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqliteStore) Commit(changes []Change) error {
	ctx := context.Background()
	if _, err := s.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for i := range changes {
		if err := s.apply(ctx, &changes[i]); err != nil {
			_, back := s.conn.ExecContext(ctx, "ROLLBACK")
			return errors.Join(err, back)
		}
	}
	_, err := s.conn.ExecContext(ctx, "COMMIT")
	return err
}

func (s *sqliteStore) apply(ctx context.Context, c *Change) error {
	if c.Job != nil {
		if c.Subject != "" {
			if _, err := s.putSubject.ExecContext(ctx, c.Subject, int64(c.Seq)); err != nil {
				return err
			}
		}
		_, err := s.putJob.ExecContext(ctx, int64(c.Seq), c.Job)
		return err
	}
	if c.Subject != "" {
		if _, err := s.endSubject.ExecContext(ctx, c.Subject); err != nil {
			return err
		}
	}
	if _, err := s.putOutcome.ExecContext(ctx, int64(c.Seq), c.Outcome); err != nil {
		return err
	}
	_, err := s.endJob.ExecContext(ctx, int64(c.Seq))
	return err
}

func (s *sqliteStore) First() (record []byte, err error) {
	err = s.conn.QueryRowContext(context.Background(), "SELECT record FROM job ORDER BY seq LIMIT 1").Scan(&record)
	if errors.Is(err, sql.ErrNoRows) {
		err = errEmpty
	}
	return record, err
}

func (s *sqliteStore) Count() (n Counts, err error) {
	err = s.conn.QueryRowContext(context.Background(),
		"SELECT (SELECT count(*) FROM job), (SELECT count(*) FROM subject), (SELECT count(*) FROM outcome)").Scan(&n.Jobs, &n.Subjects, &n.Outcomes)
	return n, err
}

func (s *sqliteStore) Close() error {
	var err error
	for _, statement := range []*sql.Stmt{s.putJob, s.putSubject, s.putOutcome, s.endJob, s.endSubject} {
		if statement != nil {
			err = errors.Join(err, statement.Close())
		}
	}
	if s.conn != nil {
		err = errors.Join(err, s.conn.Close())
	}
	return errors.Join(err, s.db.Close())
}
