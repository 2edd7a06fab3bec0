//! The index of shares in PostgreSQL.

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use sqlx::{Row, postgres::PgRow};

use super::{
    session::{OwnSessions, Session},
    to_column,
};
use crate::{
    GroupId,
    api_types::Time,
    storage::state::{
        BlobRef, IndexedContent, IndexedEntry, IndexedUsage, RemovedEntry, ShareIndexChange,
        ShareIndexStore, StateError,
    },
};

#[derive(Debug, Clone)]
pub(super) struct PostgresShareIndex {
    pub(super) sessions: OwnSessions,
}

impl PostgresShareIndex {
    /// Locks a share's row; makes it if there is none.
    async fn lock_share(&self, group: &GroupId) -> Result<(Session, IndexedUsage), StateError> {
        let mut session = self.sessions.write().await?;
        let made = sqlx::query(
            "INSERT INTO share_usage (group_id, changed_us)
             VALUES ($1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
             ON CONFLICT (group_id) DO NOTHING",
        );
        session.execute(made.bind(group.as_str())).await?;
        let locked = sqlx::query(
            "SELECT bytes, files, changed_us FROM share_usage WHERE group_id = $1 FOR UPDATE",
        );
        let row = session.one(locked.bind(group.as_str())).await?;
        let usage = usage_of(&row)?;
        Ok((session, usage))
    }
}

fn usage_of(row: &PgRow) -> Result<IndexedUsage, StateError> {
    Ok(IndexedUsage {
        bytes: count_of(row, "bytes")?,
        files: count_of(row, "files")?,
        changed_at: time_of(row, "changed_us")?,
    })
}

fn count_of(row: &PgRow, column: &str) -> Result<u64, StateError> {
    let count: i64 = row.try_get(column)?;
    Ok(u64::try_from(count).unwrap_or(0))
}

fn time_of(row: &PgRow, column: &str) -> Result<Timestamp, StateError> {
    let microseconds: i64 = row.try_get(column)?;
    Ok(Timestamp::from_microsecond(microseconds).unwrap_or_default())
}

fn entry_of(row: &PgRow) -> Result<IndexedEntry, StateError> {
    let is_dir: bool = row.try_get("is_dir")?;
    let content = if is_dir {
        IndexedContent::Directory
    } else {
        let names: Vec<String> = row.try_get("parts")?;
        let sizes: Vec<i64> = row.try_get("part_sizes")?;
        let parts = names.into_iter().zip(sizes).map(|(name, size)| BlobRef {
            name,
            size: u64::try_from(size).unwrap_or(0),
        });
        IndexedContent::File(parts.collect())
    };
    Ok(IndexedEntry {
        path: row.try_get("path")?,
        content,
        version: count_of(row, "version")?,
        modified_at: time_of(row, "modified_us")?,
    })
}

/// The paths below a directory are from `dir/` on and before `dir0`, because `0` follows `/`.
fn bounds_below(directory: &str) -> (String, Option<String>) {
    if directory.is_empty() {
        return (String::new(), None);
    }
    (format!("{directory}/"), Some(format!("{directory}0")))
}

fn removed_entry_of(row: &PgRow) -> Result<RemovedEntry, StateError> {
    Ok(RemovedEntry {
        removal: row.try_get("removed_us")?,
        path: row.try_get("path")?,
        is_dir: row.try_get("is_dir")?,
        bytes: count_of(row, "bytes")?,
        files: count_of(row, "files")?,
        removed_at: time_of(row, "removed_us")?,
    })
}

fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn limit(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}

#[async_trait]
impl ShareIndexStore for PostgresShareIndex {
    async fn indexed_entry(
        &self,
        group: &GroupId,
        path: &str,
    ) -> Result<Option<IndexedEntry>, StateError> {
        let mut session = self.sessions.read().await?;
        find_entry(&mut session, group, path).await
    }

    async fn entries_in(
        &self,
        group: &GroupId,
        directory: &str,
        most: usize,
    ) -> Result<Vec<IndexedEntry>, StateError> {
        let found = sqlx::query(
            "SELECT path, is_dir, parts, part_sizes, version, modified_us FROM share_entries
             WHERE group_id = $1 AND parent = $2 ORDER BY is_dir DESC, path LIMIT $3",
        );
        let found = found.bind(group.as_str()).bind(directory).bind(limit(most));
        let rows = self.sessions.read().await?.rows(found).await?;
        rows.iter().map(entry_of).collect()
    }

    async fn entries_below(
        &self,
        group: &GroupId,
        directory: &str,
        after: &str,
        most: usize,
    ) -> Result<Vec<IndexedEntry>, StateError> {
        let (from, before) = bounds_below(directory);
        let found = sqlx::query(
            "SELECT path, is_dir, parts, part_sizes, version, modified_us FROM share_entries
             WHERE group_id = $1 AND path > $2 AND path >= $3 AND ($4::text IS NULL OR path < $4)
             ORDER BY path LIMIT $5",
        );
        let found = found
            .bind(group.as_str())
            .bind(after)
            .bind(from)
            .bind(before)
            .bind(limit(most));
        let rows = self.sessions.read().await?.rows(found).await?;
        rows.iter().map(entry_of).collect()
    }

    async fn share_usage(&self, group: &GroupId) -> Result<IndexedUsage, StateError> {
        let found =
            sqlx::query("SELECT bytes, files, changed_us FROM share_usage WHERE group_id = $1");
        let found = found.bind(group.as_str());
        match self.sessions.read().await?.optional(found).await? {
            Some(row) => usage_of(&row),
            None => Ok(IndexedUsage {
                bytes: 0,
                files: 0,
                changed_at: Timestamp::UNIX_EPOCH,
            }),
        }
    }

    async fn begin_share_change(
        &self,
        group: &GroupId,
    ) -> Result<Box<dyn ShareIndexChange>, StateError> {
        let (session, usage) = self.lock_share(group).await?;
        Ok(Box::new(PostgresShareChange {
            session,
            group: group.clone(),
            usage,
        }))
    }

    async fn touch_blobs(&self, hashes: &[String]) -> Result<Vec<String>, StateError> {
        // In order, so that two that touch the same blobs do not wait for each other.
        let mut sorted = hashes.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let mut session = self.sessions.write().await?;
        let touched = sqlx::query(
            "INSERT INTO blobs (hash, touched_at) SELECT hash, clock_timestamp() FROM unnest($1::text[]) AS hash
             ON CONFLICT (hash) DO UPDATE SET touched_at = excluded.touched_at
             RETURNING hash, hash || '.' || generation AS name",
        );
        let rows = session.rows(touched.bind(sorted)).await?;
        session.commit().await?;
        let mut names = HashMap::new();
        for row in &rows {
            names.insert(
                row.try_get::<String, _>("hash")?,
                row.try_get::<String, _>("name")?,
            );
        }
        let name_of = |hash: &String| {
            let name = names.get(hash).cloned();
            name.ok_or_else(|| StateError::Broken("a blob was not recorded".into()))
        };
        hashes.iter().map(name_of).collect()
    }

    async fn trash_share(&self, group: &GroupId) -> Result<(), StateError> {
        let (session, usage) = self.lock_share(group).await?;
        let mut change = PostgresShareChange {
            session,
            group: group.clone(),
            usage,
        };
        change.trash("").await?;
        // Another group of that name is not given them.
        let nobodys = sqlx::query("UPDATE share_trash SET group_id = '' WHERE group_id = $1");
        change.session.execute(nobodys.bind(group.as_str())).await?;
        let forgotten = sqlx::query("DELETE FROM share_usage WHERE group_id = $1");
        change
            .session
            .execute(forgotten.bind(group.as_str()))
            .await?;
        change.session.commit().await
    }

    async fn removed_entries(
        &self,
        group: &GroupId,
        most: usize,
    ) -> Result<Vec<RemovedEntry>, StateError> {
        let found = sqlx::query(
            "SELECT removed_us, min(path) AS path, (array_agg(is_dir ORDER BY path))[1] AS is_dir,
                 count(*) AS files, coalesce(sum(size), 0)::bigint AS bytes
             FROM share_trash WHERE group_id = $1 GROUP BY removed_us ORDER BY removed_us DESC LIMIT $2",
        );
        let found = found.bind(group.as_str()).bind(limit(most));
        let rows = self.sessions.read().await?.rows(found).await?;
        rows.iter().map(removed_entry_of).collect()
    }

    async fn empty_share_trash(&self, before: Time) -> Result<u64, StateError> {
        let mut session = self.sessions.write().await?;
        let emptied = sqlx::query("DELETE FROM share_trash WHERE removed_us < $1");
        let before = before.millis().saturating_mul(1000);
        let removed = session.execute(emptied.bind(before)).await?;
        session.commit().await?;
        Ok(removed)
    }

    async fn condemn_blobs(&self, unused_for: Duration, most: usize) -> Result<u64, StateError> {
        let milliseconds = i64::try_from(unused_for.as_millis()).unwrap_or(i64::MAX);
        let mut session = self.sessions.write().await?;
        let condemned = sqlx::query(
            "WITH old AS (
                 SELECT hash, hash || '.' || generation AS name FROM blobs
                 WHERE touched_at <= clock_timestamp() - $1 * interval '1 millisecond'
                 ORDER BY touched_at LIMIT $2 FOR UPDATE SKIP LOCKED
             ), unused AS (
                 SELECT hash, name FROM old
                 WHERE NOT EXISTS (SELECT 1 FROM share_entries WHERE parts @> ARRAY[name])
                     AND NOT EXISTS (SELECT 1 FROM share_trash WHERE parts @> ARRAY[name])
             ), seen AS (
                 UPDATE blobs SET touched_at = clock_timestamp()
                 FROM old WHERE blobs.hash = old.hash AND NOT EXISTS (SELECT 1 FROM unused WHERE unused.hash = old.hash)
             ), gone AS (
                 DELETE FROM blobs USING unused WHERE blobs.hash = unused.hash RETURNING unused.name
             )
             INSERT INTO condemned_blobs (name) SELECT name FROM gone ON CONFLICT DO NOTHING",
        );
        let condemned = condemned.bind(milliseconds).bind(limit(most));
        let count = session.execute(condemned).await?;
        session.commit().await?;
        Ok(count)
    }

    async fn condemned_blobs(&self, most: usize) -> Result<Vec<String>, StateError> {
        let found = sqlx::query("SELECT name FROM condemned_blobs ORDER BY name LIMIT $1");
        let rows = self
            .sessions
            .read()
            .await?
            .rows(found.bind(limit(most)))
            .await?;
        let names = rows.iter().map(|row| row.try_get("name"));
        Ok(names.collect::<Result<_, _>>()?)
    }

    async fn forget_condemned(&self, names: &[String]) -> Result<(), StateError> {
        let mut session = self.sessions.write().await?;
        let forgotten = sqlx::query("DELETE FROM condemned_blobs WHERE name = ANY($1)");
        session.execute(forgotten.bind(names.to_vec())).await?;
        session.commit().await
    }

    async fn indexed_groups(&self) -> Result<Vec<GroupId>, StateError> {
        let found = sqlx::query("SELECT group_id FROM share_usage ORDER BY group_id");
        let rows = self.sessions.read().await?.rows(found).await?;
        rows.iter()
            .map(|row| {
                let id: &str = row.try_get("group_id")?;
                GroupId::parse(id).map_err(StateError::broken)
            })
            .collect()
    }
}

async fn find_entry(
    session: &mut Session,
    group: &GroupId,
    path: &str,
) -> Result<Option<IndexedEntry>, StateError> {
    let found = sqlx::query(
        "SELECT path, is_dir, parts, part_sizes, version, modified_us FROM share_entries
         WHERE group_id = $1 AND path = $2",
    );
    let row = session
        .optional(found.bind(group.as_str()).bind(path))
        .await?;
    row.as_ref().map(entry_of).transpose()
}

struct PostgresShareChange {
    session: Session,
    group: GroupId,
    usage: IndexedUsage,
}

#[async_trait]
impl ShareIndexChange for PostgresShareChange {
    fn usage(&self) -> IndexedUsage {
        self.usage
    }

    async fn entry(&mut self, path: &str) -> Result<Option<IndexedEntry>, StateError> {
        find_entry(&mut self.session, &self.group, path).await
    }

    async fn count_in(&mut self, directory: &str) -> Result<u64, StateError> {
        let counted = sqlx::query(
            "SELECT count(*) AS entries FROM share_entries WHERE group_id = $1 AND parent = $2",
        );
        let counted = counted.bind(self.group.as_str()).bind(directory);
        count_of(&self.session.one(counted).await?, "entries")
    }

    async fn put(
        &mut self,
        path: &str,
        content: &IndexedContent,
    ) -> Result<IndexedEntry, StateError> {
        let (names, sizes): (Vec<String>, Vec<i64>) = match content {
            IndexedContent::Directory => (Vec::new(), Vec::new()),
            IndexedContent::File(parts) => parts
                .iter()
                .map(|part| (part.name.clone(), to_column(part.size)))
                .unzip(),
        };
        let before = self.entry(path).await?;
        let written = sqlx::query(
            "INSERT INTO share_entries (group_id, path, parent, is_dir, parts, part_sizes, size, modified_us)
             VALUES ($1, $2, $3, $4, $5, $6, $7, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
             ON CONFLICT (group_id, path) DO UPDATE SET is_dir = excluded.is_dir, parts = excluded.parts,
                 part_sizes = excluded.part_sizes, size = excluded.size, version = nextval('share_versions'),
                 modified_us = excluded.modified_us
             RETURNING path, is_dir, parts, part_sizes, version, modified_us",
        );
        let written = written
            .bind(self.group.as_str())
            .bind(path)
            .bind(parent_of(path))
            .bind(content.is_dir())
            .bind(names)
            .bind(sizes)
            .bind(to_column(content.size()));
        let row = self.session.one(written).await?;
        let gone = before.as_ref().map_or(0, |entry| entry.content.size());
        self.usage.bytes = (self.usage.bytes + content.size()).saturating_sub(gone);
        self.usage.files += u64::from(before.is_none());
        entry_of(&row)
    }

    async fn rename(&mut self, from: &str, to: &str) -> Result<IndexedEntry, StateError> {
        let (below, before) = bounds_below(from);
        // `substr` counts characters from 1; what is kept begins with the slash after `from`.
        let moved = sqlx::query(
            "UPDATE share_entries SET path = $2 || substr(path, length($3) + 1),
                 parent = $2 || substr(parent, length($3) + 1)
             WHERE group_id = $1 AND path >= $4 AND path < $5",
        );
        let moved = moved
            .bind(self.group.as_str())
            .bind(to)
            .bind(from)
            .bind(below)
            .bind(before.unwrap_or_default());
        self.session.execute(moved).await?;
        let moved = sqlx::query(
            "UPDATE share_entries SET path = $2, parent = $3, version = nextval('share_versions')
             WHERE group_id = $1 AND path = $4
             RETURNING path, is_dir, parts, part_sizes, version, modified_us",
        );
        let moved = moved
            .bind(self.group.as_str())
            .bind(to)
            .bind(parent_of(to))
            .bind(from);
        entry_of(&self.session.one(moved).await?)
    }

    async fn trash(&mut self, path: &str) -> Result<(), StateError> {
        let (below, before) = bounds_below(path);
        let removed = sqlx::query(
            "WITH gone AS (
                 DELETE FROM share_entries
                 WHERE group_id = $1 AND (path = $2 OR path >= $3 AND ($4::text IS NULL OR path < $4))
                 RETURNING path, is_dir, parts, part_sizes, size
             ), kept AS (
                 INSERT INTO share_trash (group_id, path, is_dir, parts, part_sizes, size, removed_us)
                 SELECT $1, path, is_dir, parts, part_sizes, size,
                     (extract(epoch FROM statement_timestamp()) * 1000000)::bigint FROM gone
             )
             SELECT count(*) AS files, coalesce(sum(size), 0)::bigint AS bytes FROM gone",
        );
        let removed = removed
            .bind(self.group.as_str())
            .bind(path)
            .bind(below)
            .bind(before);
        let row = self.session.one(removed).await?;
        self.usage.bytes = self.usage.bytes.saturating_sub(count_of(&row, "bytes")?);
        self.usage.files = self.usage.files.saturating_sub(count_of(&row, "files")?);
        Ok(())
    }

    async fn removed(&mut self, removal: i64) -> Result<Option<RemovedEntry>, StateError> {
        let found = sqlx::query(
            "SELECT removed_us, min(path) AS path, (array_agg(is_dir ORDER BY path))[1] AS is_dir,
                 count(*) AS files, coalesce(sum(size), 0)::bigint AS bytes
             FROM share_trash WHERE group_id = $1 AND removed_us = $2 GROUP BY removed_us",
        );
        let found = found.bind(self.group.as_str()).bind(removal);
        let row = self.session.optional(found).await?;
        row.as_ref().map(removed_entry_of).transpose()
    }

    async fn restore(&mut self, removal: i64) -> Result<(), StateError> {
        let restored = sqlx::query(
            "WITH back AS (
                 DELETE FROM share_trash WHERE group_id = $1 AND removed_us = $2
                 RETURNING path, is_dir, parts, part_sizes, size
             ), kept AS (
                 INSERT INTO share_entries (group_id, path, parent, is_dir, parts, part_sizes, size, modified_us)
                 SELECT $1, path, regexp_replace(path, '/?[^/]*$', ''), is_dir, parts, part_sizes, size,
                     (extract(epoch FROM statement_timestamp()) * 1000000)::bigint FROM back
             )
             SELECT count(*) AS files, coalesce(sum(size), 0)::bigint AS bytes FROM back",
        );
        let restored = restored.bind(self.group.as_str()).bind(removal);
        let row = self.session.one(restored).await?;
        self.usage.bytes += count_of(&row, "bytes")?;
        self.usage.files += count_of(&row, "files")?;
        Ok(())
    }

    async fn commit(mut self: Box<Self>) -> Result<(), StateError> {
        let kept = sqlx::query(
            "UPDATE share_usage SET bytes = $2, files = $3,
                 changed_us = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint WHERE group_id = $1",
        );
        let kept = kept
            .bind(self.group.as_str())
            .bind(to_column(self.usage.bytes))
            .bind(to_column(self.usage.files));
        self.session.execute(kept).await?;
        self.session.commit().await
    }
}
