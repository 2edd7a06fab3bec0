//! The library of skills in PostgreSQL.

use async_trait::async_trait;
use sqlx::{Row, postgres::PgRow};

use super::{
    PostgresState, seen_changes::note_skills, storable, to_column, write_group::GroupedWrite,
};
use crate::{
    api_types::Time,
    storage::{
        audit::NewAuditEntry,
        state::{LibrarySkillRecord, NewLibrarySkill, Page, Paged, SkillLibraryStore, StateError},
    },
};

fn skill_from_row(row: &PgRow) -> Result<LibrarySkillRecord, StateError> {
    let count = |column: &str| {
        let count: i64 = row.try_get(column)?;
        u64::try_from(count).map_err(StateError::broken)
    };
    let updated_at: i64 = row.try_get("updated_at")?;
    Ok(LibrarySkillRecord {
        name: row.try_get("name")?,
        description: row.try_get("description")?,
        version: row.try_get("version")?,
        files: count("files")?,
        bytes: count("bytes")?,
        revision: count("revision")?,
        updated_at: Time::from_millis(updated_at),
        updated_by: row.try_get("updated_by")?,
    })
}

/// The revision of a skill, if it is the expected one; 0 if there is none. Others wait until this change is over.
async fn check_revision(
    write: &mut GroupedWrite,
    name: &str,
    expected: Option<u64>,
) -> Result<i64, StateError> {
    let query = sqlx::query("SELECT revision FROM library_skills WHERE name = $1 FOR UPDATE");
    let row = write.optional(query.bind(name)).await?;
    let revision: i64 = match row {
        Some(row) => row.try_get("revision")?,
        None => 0,
    };
    if expected.is_some_and(|expected| to_column(expected) != revision) {
        return Err(StateError::Changed { what: "skill" });
    }
    Ok(revision)
}

#[async_trait]
impl SkillLibraryStore for PostgresState {
    async fn library_skills(&self, page: &Page) -> Result<Paged<LibrarySkillRecord>, StateError> {
        let last = page
            .cursor_key::<1>()?
            .map_or_else(String::new, |[last]| last);
        let query = sqlx::query(
            "SELECT name, description, version, files, bytes, revision, updated_at, updated_by FROM library_skills
             WHERE name > $1 ORDER BY name LIMIT $2",
        )
        .bind(storable(&last))
        .bind(page.fetch_limit());
        let rows = self.read().await?.rows(query).await?;
        let skills: Vec<_> = rows.iter().map(skill_from_row).collect::<Result<_, _>>()?;
        Ok(Paged::from_fetched(skills, page, |skill| {
            [skill.name.clone()]
        }))
    }

    async fn library_skill(
        &self,
        name: &str,
    ) -> Result<Option<(LibrarySkillRecord, Vec<u8>)>, StateError> {
        let query =
            sqlx::query("SELECT * FROM library_skills WHERE name = $1").bind(storable(name));
        let row = self.read().await?.optional(query).await?;
        row.map(|row| Ok((skill_from_row(&row)?, row.try_get("archive")?)))
            .transpose()
    }

    async fn put_library_skill(
        &self,
        skill: NewLibrarySkill,
        by: &str,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<LibrarySkillRecord, StateError> {
        let mut write = self.begin_change().await?;
        check_revision(&mut write, &skill.name, expected).await?;
        let updated_at = Time::now();
        let stored = write
            .one(
                sqlx::query(
                    "INSERT INTO library_skills
                         (name, description, version, files, bytes, archive, revision, updated_at, updated_by)
                     VALUES ($1, $2, $3, $4, $5, $6, 1, $7, $8)
                     ON CONFLICT (name) DO UPDATE SET description = excluded.description,
                         version = excluded.version, files = excluded.files, bytes = excluded.bytes,
                         archive = excluded.archive, revision = library_skills.revision + 1,
                         updated_at = excluded.updated_at, updated_by = excluded.updated_by
                     RETURNING name, description, version, files, bytes, revision, updated_at, updated_by",
                )
                .bind(&skill.name)
                .bind(storable(&skill.description))
                .bind(skill.version.as_deref().map(storable))
                .bind(to_column(skill.files))
                .bind(to_column(skill.bytes))
                .bind(&skill.archive)
                .bind(updated_at.millis())
                .bind(by),
            )
            .await?;
        note_skills(&mut write).await?;
        self.append_effect(&mut write, entry).await?;
        write.commit().await?;
        skill_from_row(&stored)
    }

    async fn delete_library_skill(
        &self,
        name: &str,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        if check_revision(&mut write, name, expected).await? == 0 {
            return Err(StateError::NotFound { what: "skill" });
        }
        let query = sqlx::query("DELETE FROM library_skills WHERE name = $1").bind(name);
        write.execute(query).await?;
        self.append_effect(&mut write, entry).await?;
        write.commit().await
    }
}
